// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "gpemu/cuda.h"

#include "content.hpp"
#include "kernel_memory.hpp"
#include "mover.hpp"

namespace gpemu::cuda {

/// The effect of one launch on memory; also valid for the launches of a graph.
struct KernelWork {
  struct Range {
    std::uint64_t address = 0;
    Bytes bytes = 0;
    Uncomputed how = Uncomputed::kWritten;
  };
  WriterId writer = 0;
  /// Whether it is performed as soon as it is described: values that are not known now will not be
  /// known then.
  bool at_once = false;
  /// Whether it is performed in its turn: it finds what is there when it is described, and what the
  /// unfinished work writes that it overlaps.
  bool is_launch = false;
  std::vector<Range> ranges;
  /// Computes the values instead, if its inputs are known. Returns whether it did; null: the values
  /// cannot be computed.
  std::function<bool()> compute;
  std::vector<Access> reads;       ///< of `compute`.
  Bytes moved = 0;                 ///< that `compute` only moves.
  std::uint64_t fill_address = 0;  ///< 0: nothing is filled.
  Bytes fill_count = 0;
  std::vector<std::byte> fill_value;
};

/// Returns the bytes to the end of the allocation unit of PyTorch's allocator. Source:
/// kMinBlockSize in CUDACachingAllocator.cpp.
[[nodiscard]] constexpr Bytes to_unit(std::uint64_t address, Bytes bytes) {
  constexpr Bytes kUnit = 512;
  return (address + bytes + kUnit - 1) / kUnit * kUnit - address;
}

/// Adds a range that a launch writes. If its end is not known, it goes to the end of its unit.
void add_range(KernelWork* work, std::uint64_t address, Bytes bytes, Uncomputed how);

/// Sorts the ranges by address, for parameters whose extent is not known.
void sort_ranges(KernelWork* work);

/// Returns work that may read and write any memory; `compute` finds out which.
[[nodiscard]] KernelWork work_on_anything(WriterId writer);

/// Performs it on memory, as far as that is on a device. What moves much content is left to the
/// mover, until the last work of `stream` ends; null: nobody waits for it.
void perform(const KernelWork& work, gpemu_cuda_stream* stream);

/// Like perform, without waiting for unfinished copies. For the `compute` of other work.
void perform_now(const KernelWork& work);

}  // namespace gpemu::cuda
