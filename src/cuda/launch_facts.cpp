// SPDX-License-Identifier: Apache-2.0
#include "launch_facts.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "memory_state.hpp"

namespace gpemu::cuda {
namespace {

using cost::LaunchFacts;
using cost::ParameterKind;

/// Integers of 32 bits from here on are taken for floating-point numbers, of which this is 4.7e-10:
/// the code does not tell the one from the other.
constexpr std::uint32_t kLeastFloat = 0x30000000;

/// Integers that are larger count nothing that fits in memory; host addresses are.
constexpr std::uint64_t kMostElements = std::uint64_t{1} << 40;

template <typename T>
T read(const void* from) {
  T value{};
  std::memcpy(&value, from, sizeof(value));
  return value;
}

void add_integer(std::uint64_t value, LaunchFacts& facts) {
  if (value < 2 || value > kMostElements) return;
  if (facts.integer_count == LaunchFacts::kMostIntegers) return;
  facts.integers[facts.integer_count++] = static_cast<double>(value);
}

/// The pointers that were seen, of those that count.
struct Pointers {
  std::array<std::uint64_t, LaunchFacts::kMostPointers> seen{};

  /// Adds a pointer, unless it is one of those before; returns whether it points to memory of a
  /// GPU. Requires: the lock.
  bool add(const Memory& state, std::uint64_t address, LaunchFacts& facts) {
    const auto* const block = block_at(state, address);
    if (block == nullptr) return false;
    if (facts.pointers == LaunchFacts::kMostPointers) return true;
    const auto end = seen.begin() + facts.pointers;
    if (std::find(seen.begin(), end, address) != end) return true;
    *end = address;
    facts.extents[facts.pointers++] =
        static_cast<double>(block->first + block->second.bytes - address);
    return true;
  }
};

}  // namespace

std::vector<ParameterKind> parameter_kinds(std::string_view name, const KernelCode* code) {
  std::vector<ParameterKind> kinds;
  if (const auto parameters = cost::kernel_parameters(name)) {
    for (const cost::KernelParameter& parameter : *parameters) kinds.push_back(parameter.kind);
  } else if (code != nullptr) {
    for (const ParameterPlace& place : code->parameters) {
      kinds.push_back(place.bytes == 8   ? ParameterKind::kPointer
                      : place.bytes == 4 ? ParameterKind::kInteger32
                                         : ParameterKind::kOther);
    }
  }
  return kinds;
}

LaunchFacts launch_facts(const std::vector<ParameterKind>& kinds, void* const* arguments,
                         LaunchFacts::Arithmetic arithmetic) {
  LaunchFacts facts{.arithmetic = arithmetic};
  if (kinds.empty()) return facts;
  Pointers pointers;
  const Memory& state = memory();
  const std::lock_guard lock(state.mutex);
  for (std::size_t i = 0; arguments != nullptr && i < kinds.size(); ++i) {
    if (arguments[i] == nullptr) continue;
    switch (kinds[i]) {
      case ParameterKind::kInteger32: {
        const auto value = read<std::uint32_t>(arguments[i]);
        if (value < kLeastFloat) add_integer(value, facts);
        break;
      }
      case ParameterKind::kInteger64:
      case ParameterKind::kConstPointer:
      case ParameterKind::kPointer: {
        const auto value = read<std::uint64_t>(arguments[i]);
        if (!pointers.add(state, value, facts)) add_integer(value, facts);
        break;
      }
      case ParameterKind::kOther:
        break;
    }
  }
  return facts;
}

}  // namespace gpemu::cuda
