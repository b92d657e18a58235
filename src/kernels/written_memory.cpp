// SPDX-License-Identifier: Apache-2.0
#include "written_memory.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "gpemu/kernels/arguments.hpp"
#include "gpemu/kernels/kernel_name.hpp"
#include "gpemu/kernels/parameters.hpp"
#include "gpemu/kernels/places.hpp"

namespace gpemu::kernels {
namespace {

/// Returns the most that a kernel with known text writes: the bytes of all its threads, but for
/// each block no more than the product of its integers, which are sizes; in loops, the product of
/// the two largest.
Bytes written_bytes(const PtxFacts& facts, const gpemu_cuda_launch& launch,
                    const WrittenParameter& parameter) {
  constexpr Bytes kMost = Bytes{1} << 40;
  std::vector<Bytes> integers = integers_of(facts.integers, launch);
  std::ranges::sort(integers, std::greater());
  if (parameter.in_loop && integers.size() > 2) integers.resize(2);
  Bytes elements = 1;
  for (const Bytes integer : integers) elements = std::min(kMost, elements * integer);
  for (const std::uint32_t blocks : launch.grid) elements = std::min(kMost, elements * blocks);
  const Bytes of_threads = threads_of(launch) * parameter.bytes_of_thread;
  const Bytes of_sizes = elements * parameter.element_bytes;
  if (parameter.fixed) return parameter.bytes_of_thread;
  if (integers.empty()) return of_threads;
  return parameter.in_loop ? std::max(of_threads, of_sizes) : std::min(of_threads, of_sizes);
}

/// Describes a pointer of a kernel with known text. The memory that begins there is new, unless it
/// is read as well. In torch.compile's reductions the first integer counts the results: memory
/// after these may have been written or belong to others, so it stays and counts as not updated.
void describe_written(const PtxFacts& facts, const gpemu_cuda_launch& launch,
                      const WrittenParameter& parameter, std::uint64_t address, KernelWork* work) {
  const Bytes most = written_bytes(facts, launch, parameter);
  const bool is_read = std::ranges::any_of(facts.read, [&](std::uint32_t argument) {
    return read<std::uint64_t>(launch.arguments[argument]) == address;
  });
  if (is_read || parameter.updates) {
    return add_range(work, address, most, Uncomputed::kUpdated);
  }
  const std::vector<Bytes> integers = integers_of(facts.integers, launch);
  const Bytes least = integers.empty() || parameter.fixed
                          ? most
                          : std::min(most, integers.front() * parameter.element_bytes);
  add_range(work, address, most, Uncomputed::kUpdated);
  add_range(work, address, least, Uncomputed::kBounded);
}

/// Numba's array is several parameters: its owner, the elements, the size of one, the address, and
/// for each dimension the size, then for each the distance in bytes. Returns the places of the
/// array whose address is at an argument, or nothing if there is none. Source: ArrayModel in
/// Numba's datamodel/models.py.
std::optional<Places> numba_places(const PtxFacts& facts, const gpemu_cuda_launch& launch,
                                   std::size_t address) {
  constexpr std::size_t kMostDimensionsOfArray = 8;
  const auto word = [&](std::size_t argument) {
    return read<std::uint64_t>(launch.arguments[argument]);
  };
  const auto are_wide = [&facts](std::size_t from, std::size_t to) {
    return to <= facts.wide.size() &&
           std::all_of(facts.wide.begin() + static_cast<std::ptrdiff_t>(from),
                       facts.wide.begin() + static_cast<std::ptrdiff_t>(to),
                       [](bool wide) { return wide; });
  };
  if (address < 4 || !are_wide(address - 4, address + 1)) return std::nullopt;
  const Bytes elements = word(address - 2), bytes = word(address - 1);
  if (elements == 0 || bytes == 0 || bytes > 16 || !std::has_single_bit(bytes)) return std::nullopt;
  for (std::size_t dimensions = 1; dimensions <= kMostDimensionsOfArray; ++dimensions) {
    const std::size_t sizes = address + 1, strides = sizes + dimensions;
    if (!are_wide(sizes, strides + dimensions)) break;
    Places places{.dimensions = 0};
    for (std::size_t i = dimensions; i-- > 0;) places.add(word(sizes + i), word(strides + i));
    if (places.count() == elements && places.closest() >= bytes) return places;
  }
  return std::nullopt;
}

}  // namespace

void describe_text(const PtxFacts& facts, const gpemu_cuda_launch& launch, KernelWork* work) {
  for (const WrittenParameter& parameter : facts.written) {
    const void* const from = launch.arguments[parameter.argument];
    if (from == nullptr) continue;
    const auto address = read<std::uint64_t>(from);
    if (const auto places = numba_places(facts, launch, parameter.argument)) {
      const auto bytes = read<std::uint64_t>(launch.arguments[parameter.argument - 1]);
      add_tensor(work, address, *places, bytes,
                 parameter.updates ? Uncomputed::kUpdated : Uncomputed::kBounded);
    } else if (parameter.bytes_of_thread > 0) {
      describe_written(facts, launch, parameter, address, work);
    } else {
      add_range(work, address, threads_of(launch) * parameter.element_bytes,
                parameter.updates ? Uncomputed::kUpdated : Uncomputed::kBounded);
    }
  }
  sort_ranges(work);
}

}  // namespace gpemu::kernels
