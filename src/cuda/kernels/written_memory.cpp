// SPDX-License-Identifier: Apache-2.0
#include "kernels/written_memory.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "kernel_memory.hpp"
#include "kernels/arguments.hpp"
#include "kernels/parameters.hpp"

namespace gpemu::cuda {
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
  const Bytes least =
      integers.empty() ? most : std::min(most, integers.front() * parameter.element_bytes);
  add_range(work, address, most, Uncomputed::kUpdated);
  add_range(work, address, least, Uncomputed::kBounded);
}

}  // namespace

void describe_text(const PtxFacts& facts, const gpemu_cuda_launch& launch, KernelWork* work) {
  for (const WrittenParameter& parameter : facts.written) {
    const void* const from = launch.arguments[parameter.argument];
    if (from == nullptr) continue;
    const auto address = read<std::uint64_t>(from);
    if (parameter.bytes_of_thread > 0) {
      describe_written(facts, launch, parameter, address, work);
    } else {
      add_range(work, address, threads_of(launch) * parameter.element_bytes,
                parameter.updates ? Uncomputed::kUpdated : Uncomputed::kBounded);
    }
  }
  sort_ranges(work);
}

}  // namespace gpemu::cuda
