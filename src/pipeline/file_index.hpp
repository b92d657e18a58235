// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace gpemu::pipeline {

/// The places of the files that a cache holds: a map in one piece of memory (open addressing, at
/// most half full). With many nodes, most of the time of a simulation is that of reaching it.
class FileIndex {
 public:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

  /// Returns the place of a file; kNone if it has none.
  [[nodiscard]] std::uint32_t find(std::uint32_t file) const { return slots_[slot_of(file)].place; }
  /// Has the processor fetch what find() will need.
  void prefetch(std::uint32_t file) const { __builtin_prefetch(&slots_[first_slot_of(file)]); }
  /// Puts a file at a place, whether or not it had one. Requires: place != kNone.
  void put(std::uint32_t file, std::uint32_t place);
  /// Requires: the file has a place.
  void erase(std::uint32_t file);

 private:
  struct Slot {
    std::uint32_t file = 0;
    std::uint32_t place = kNone;  ///< kNone: the slot is free.
  };
  /// Returns the slot with the file, or the free one where it would be.
  [[nodiscard]] std::size_t slot_of(std::uint32_t file) const;
  [[nodiscard]] std::size_t first_slot_of(std::uint32_t file) const {
    // Multiplicative hashing: 2^32 divided by the golden ratio (Knuth, The Art of Computer
    // Programming, volume 3, section 6.4) spreads numbers that follow each other.
    return (file * std::uint32_t{2'654'435'769U}) >> shift_;
  }
  [[nodiscard]] std::size_t after(std::size_t slot) const {
    return (slot + 1) & (slots_.size() - 1);
  }
  void grow();

  std::vector<Slot> slots_ = std::vector<Slot>(16);  ///< a power of two.
  int shift_ = 28;                                   ///< of hashes of 32 bits, to index them.
  std::size_t used_ = 0;
};

}  // namespace gpemu::pipeline
