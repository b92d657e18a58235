// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <unordered_map>

#include "gpemu/base/units.hpp"
#include "gpemu/process/process_record.hpp"
#include "gpemu/process/writers.hpp"

namespace gpemu::process {

/// Counts the program's reads of values that were not computed, and finds loops that wait for such
/// a value. Thread safety: the caller's lock.
class ReadCounts {
 public:
  /// A program that reads at most so many bytes so often polls them.
  static constexpr Bytes kPolledBytes = 64;
  static constexpr int kPolls = 1000;
  /// Small reads at more addresses are not observed.
  static constexpr std::size_t kMaxAddresses = 4096;

  /// `totals` gets an entry for each writer, as far as there is room.
  explicit ReadCounts(std::span<RecordedRead> totals) : totals_(totals) {}

  /// Counts a read of bytes that `writer` did not compute. Returns whether the same few bytes have
  /// now been read so often that a loop must be waiting for them; true once for each writer,
  /// because its results may be at several addresses.
  [[nodiscard]] bool add(std::uint64_t address, Bytes bytes, WriterId writer);

 private:
  void count(Bytes bytes, WriterId writer);
  bool is_polled(std::uint64_t address, Bytes bytes, WriterId writer);

  std::span<RecordedRead> totals_;
  std::unordered_map<WriterId, std::size_t> places_;  ///< in the totals.
  std::map<std::uint64_t, int> polls_;                ///< small reads, by address.
  std::set<WriterId> polled_;                         ///< those whose results were polled.
};

}  // namespace gpemu::process
