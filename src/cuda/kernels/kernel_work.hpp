// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "content.hpp"
#include "kernel_memory.hpp"
#include "mover.hpp"

namespace gpemu::cuda {

/// What one launch does to memory; holds for the launches of a graph, too.
struct KernelWork {
  struct Range {
    std::uint64_t address = 0;
    Bytes bytes = 0;
    Uncomputed how = Uncomputed::kWritten;
  };
  WriterId writer = 0;
  /// Whether it is done as soon as it is described: what is not known now will not be then.
  bool at_once = false;
  std::vector<Range> ranges;
  /// Computes the values instead, if what it reads is known. Returns whether it did; null: nothing
  /// is known of the values.
  std::function<bool()> compute;
  std::vector<Access> reads;       ///< of `compute`.
  std::uint64_t fill_address = 0;  ///< 0: nothing is filled.
  Bytes fill_count = 0;
  std::vector<std::byte> fill_value;
};

/// Bytes to the end of the unit in which PyTorch's allocator gives memory out. Source:
/// kMinBlockSize in CUDACachingAllocator.cpp.
[[nodiscard]] constexpr Bytes to_unit(std::uint64_t address, Bytes bytes) {
  constexpr Bytes kUnit = 512;
  return (address + bytes + kUnit - 1) / kUnit * kUnit - address;
}

/// Adds a range that a launch writes. One of which the end is not known goes to the end of its
/// unit.
void add_range(KernelWork* work, std::uint64_t address, Bytes bytes, Uncomputed how);

/// Puts the ranges in the order of their addresses, for parameters of which nobody knows how far
/// they reach.
void sort_ranges(KernelWork* work);

/// Returns work that may read and write any memory: which, `compute` finds out.
[[nodiscard]] KernelWork work_on_anything(WriterId writer);

/// Does it to the memory, as far as that lies on a device.
void perform(const KernelWork& work);

/// As perform, without waiting for what is under way. For the `compute` of other work.
void perform_now(const KernelWork& work);

}  // namespace gpemu::cuda
