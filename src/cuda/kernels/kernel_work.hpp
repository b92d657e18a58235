// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "gpemu/cuda.h"

#include "content.hpp"
#include "kernel_memory.hpp"
#include "kernels/index_check.hpp"
#include "kernels/places.hpp"
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
  /// Elements of a tensor with gaps, which stay as they are.
  struct Scattered {
    std::uint64_t address = 0;  ///< of the lowest element.
    Places places;              ///< in order.
    Bytes element_bytes = 0;
    Uncomputed how = Uncomputed::kWritten;

    [[nodiscard]] Bytes span() const { return places.extent() + element_bytes; }
  };
  std::vector<Range> ranges;
  std::vector<Scattered> scattered;
  /// Computes the values instead, if its inputs are known. Returns whether it did; null: the values
  /// cannot be computed.
  std::function<bool()> compute;
  /// Indices for which the kernel asserts that they are in bounds.
  std::vector<IndexCheck> checks;
  std::vector<Access> reads;       ///< of `compute` and the checks.
  Bytes moved = 0;                 ///< that `compute` only moves.
  std::uint64_t fill_address = 0;  ///< 0: nothing is filled.
  Bytes fill_count = 0;
  std::vector<std::byte> fill_value;
};

/// Adds a range that a launch writes.
void add_range(KernelWork* work, std::uint64_t address, Bytes bytes, Uncomputed how);

/// Adds the elements of a tensor that a launch writes.
void add_tensor(KernelWork* work, std::uint64_t address, const Places& places, Bytes element_bytes,
                Uncomputed how);

/// Adds indices for which a launch asserts that they are in bounds.
void add_check(KernelWork* work, const IndexCheck& check);

/// Sorts the ranges by address, for parameters whose extent is not known.
void sort_ranges(KernelWork* work);

/// Returns work that may read and write any memory; `compute` finds out which.
[[nodiscard]] KernelWork work_on_anything(WriterId writer);

/// Performs it on memory, as far as that is on a device, and makes the context fail if an index is
/// out of bounds. What moves much content is left to the
/// mover, until the last work of `stream` ends; null: nobody waits for it.
void perform(const KernelWork& work, gpemu_cuda_stream* stream);

/// Like perform, without waiting for unfinished copies. For the `compute` of other work.
void perform_now(const KernelWork& work);

}  // namespace gpemu::cuda
