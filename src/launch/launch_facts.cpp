// SPDX-License-Identifier: Apache-2.0
#include "gpemu/launch/launch_facts.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "gpemu/base/mutex.hpp"
#include "gpemu/kernels/arguments.hpp"
#include "gpemu/kernels/kernel_name.hpp"
#include "gpemu/memory/memory_state.hpp"

namespace gpemu::launch {

using kernels::KernelName, kernels::ParameterKind, kernels::parameter_kind,
    kernels::read_kernel_name;
namespace {

using kernels::LaunchFacts;

/// 32-bit integers from here on count as floating-point numbers (this one is 4.7e-10), because the
/// code does not distinguish them.
constexpr std::uint32_t kLeastFloat = 0x30000000;

/// Larger integers, such as host addresses, cannot count anything that fits in memory.
constexpr std::uint64_t kMostTensorElements = std::uint64_t{1} << 40;

template <typename T>
T read(const void* from) {
  T value{};
  std::memcpy(&value, from, sizeof(value));
  return value;
}

void add_integer(std::uint64_t value, LaunchFacts& facts) {
  if (value < 2 || value > kMostTensorElements) return;
  if (facts.integer_count == LaunchFacts::kMostIntegers) return;
  facts.integers[facts.integer_count++] = static_cast<double>(value);
}

/// Collects the facts from the arguments of a launch.
struct Reader {
  const memory::Memory& memory;
  LaunchFacts facts;
  std::array<std::uint64_t, LaunchFacts::kMostPointers> seen{};  ///< the pointers counted so far.

  /// Adds a pointer unless it is a repetition; returns whether it points to memory of a GPU.
  bool add_pointer(std::uint64_t address) GPEMU_REQUIRES(memory.mutex) {
    const auto* const block = memory::block_at(memory, address);
    if (block == nullptr) return false;
    if (facts.pointers == LaunchFacts::kMostPointers) return true;
    const auto end = seen.begin() + facts.pointers;
    if (std::find(seen.begin(), end, address) != end) return true;
    *end = address;
    facts.extents[facts.pointers++] =
        static_cast<double>(block->first + block->second.bytes - address);
    return true;
  }

  void add_integer32(const void* from) {
    const auto value = read<std::uint32_t>(from);
    if (value < kLeastFloat) add_integer(value, facts);
  }

  /// Adds a word: a pointer if it may be one, else an integer of 64 bits.
  void add_word(const void* from) GPEMU_REQUIRES(memory.mutex) {
    const auto value = read<std::uint64_t>(from);
    if (!add_pointer(value)) add_integer(value, facts);
  }

  /// Adds the pointers to memory of a GPU in a struct, and the words between them as integers of 32
  /// bits; the upper half of a 64-bit integer is 0.
  void add_struct(const std::byte* from, Bytes bytes) GPEMU_REQUIRES(memory.mutex) {
    constexpr Bytes kPointer = 8, kInteger = 4;
    for (Bytes at = 0; at + kInteger <= bytes;) {
      const bool pointer = at % kPointer == 0 && at + kPointer <= bytes &&
                           add_pointer(read<std::uint64_t>(from + at));
      if (!pointer) add_integer32(from + at);
      at += pointer ? kPointer : kInteger;
    }
  }
};

}  // namespace

std::vector<LaunchParameter> launch_parameters(std::string_view name,
                                               const std::vector<ParameterPlace>& places) {
  std::vector<LaunchParameter> result;
  const KernelName read = read_kernel_name(name);
  const bool sized = read.is_cpp && places.size() == read.parameters.size();
  if (read.is_cpp && (sized || places.empty())) {
    for (std::size_t i = 0; i < read.parameters.size(); ++i) {
      result.push_back(
          {.kind = parameter_kind(read.parameters[i]), .bytes = sized ? places[i].bytes : 0});
    }
    return result;
  }
  for (const ParameterPlace& place : places) {
    result.push_back({.kind = place.bytes == 8   ? ParameterKind::kPointer
                              : place.bytes == 4 ? ParameterKind::kInteger32
                                                 : ParameterKind::kOther,
                      .bytes = place.bytes});
  }
  return result;
}

LaunchFacts launch_facts(const std::vector<LaunchParameter>& parameters, void* const* arguments,
                         LaunchFacts::Arithmetic arithmetic) {
  constexpr Bytes kLargestNumber = 8;
  if (parameters.empty() || arguments == nullptr) return {.arithmetic = arithmetic};
  Reader reader{.memory = memory::memory(), .facts = {.arithmetic = arithmetic}};
  const Lock lock(reader.memory.mutex);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const void* const from = arguments[i];
    if (from == nullptr) continue;
    switch (parameters[i].kind) {
      case ParameterKind::kInteger32:
        reader.add_integer32(from);
        break;
      case ParameterKind::kInteger64:
      case ParameterKind::kConstPointer:
      case ParameterKind::kPointer:
        reader.add_word(from);
        break;
      case ParameterKind::kOther:
        if (parameters[i].bytes > kLargestNumber) {
          reader.add_struct(static_cast<const std::byte*>(from), parameters[i].bytes);
        }
        break;
    }
  }
  return reader.facts;
}

}  // namespace gpemu::launch
