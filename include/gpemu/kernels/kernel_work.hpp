// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "gpemu/base/units.hpp"
#include "gpemu/kernels/index_check.hpp"
#include "gpemu/kernels/memory.hpp"
#include "gpemu/kernels/places.hpp"

namespace gpemu::kernels {

/// A range of addresses that work on content reads, or writes.
struct Access {
  std::uint64_t start = 0;
  Bytes bytes = 0;
  bool writes = false;
};

/// The name of a kernel or of a library's function that wrote what is not known, as a number; 0:
/// none.
using WriterId = std::uint32_t;

/// How a kernel or a library changed a range without computing it.
enum class Uncomputed : std::uint8_t {
  kWritten,  ///< new values, which read as zeros.
  kBounded,  ///< as kWritten, but it is only known that nothing outside is written.
  kUpdated,  ///< changed in place: known content is kept.
  /// As kUpdated, at places that are not known, in a tensor that goes on from the range's start as
  /// far as memory has content of the same kind, at most to the range's end.
  kSomewhere,
};

/// Elements that a kernel moves unchanged, each to the place of the same number.
struct PlainMove {
  Bytes element_bytes = 1;
  std::uint64_t to = 0;
  std::uint64_t from = 0;  ///< 0: zeros are written.
  Places to_places, from_places;
};

/// The effect of one launch on memory; also valid for the launches of a graph.
struct KernelWork {
  struct Range {
    std::uint64_t address = 0;
    Bytes bytes = 0;
    Uncomputed how = Uncomputed::kWritten;
  };
  /// Elements of a tensor with gaps, which stay as they are.
  struct Scattered {
    std::uint64_t address = 0;  ///< of the lowest element.
    Places places;              ///< in order.
    Bytes element_bytes = 0;
    Uncomputed how = Uncomputed::kWritten;

    [[nodiscard]] Bytes span() const { return places.extent() + element_bytes; }
  };
  /// A description that reads lists in memory.
  struct Later {
    Access lists;
    std::function<void(const Memory&, KernelWork*)> describe;  ///< null: there is none.
  };

  WriterId writer = 0;
  /// Whether it is performed as soon as it is described: values that are not known now will not be
  /// known then.
  bool at_once = false;
  std::vector<Range> ranges;
  std::vector<Scattered> scattered;
  /// Computes the values instead, if its inputs are known. Returns whether it did; null: the values
  /// cannot be computed.
  std::function<bool(Memory&)> compute;
  /// Moves that give the values instead, if something is known of their sources.
  std::vector<PlainMove> moves;
  /// Indices for which the kernel asserts that they are in bounds.
  std::vector<IndexCheck> checks;
  std::vector<Access> reads;       ///< of `compute`, the moves and the checks.
  std::uint64_t fill_address = 0;  ///< 0: nothing is filled.
  Bytes fill_count = 0;
  std::vector<std::byte> fill_value;
  Later later;  ///< what describes the rest, when the lists are there.

  /// Makes it what it was at first, but for the memory that it holds and `at_once`.
  void clear();
};

/// Adds a range that a launch writes.
void add_range(KernelWork* work, std::uint64_t address, Bytes bytes, Uncomputed how);

/// Adds the elements of a tensor that a launch writes.
void add_tensor(KernelWork* work, std::uint64_t address, const Places& places, Bytes element_bytes,
                Uncomputed how);

/// Adds indices for which a launch asserts that they are in bounds.
void add_check(KernelWork* work, const IndexCheck& check);

/// Adds what a kernel does that only moves elements. Content of any size is moved, known or not,
/// unless it lies in thousands of pieces. Returns false, and adds nothing, if strides are negative.
/// Requires: each move has as many elements in both places.
[[nodiscard]] bool add_plain_moves(std::vector<PlainMove> moves, KernelWork* work);

/// Sorts the ranges by address, for parameters whose extent is not known.
void sort_ranges(KernelWork* work);

}  // namespace gpemu::kernels
