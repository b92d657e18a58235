// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <utility>

namespace gpemu::process {

/// The time during which at least one of several engines ran, counted while their work is queued,
/// in any order. Old intervals are kept only as a sum.
///
/// Thread safety: the caller's lock.
class BusyTime {
 public:
  /// Adds work from `start` to `end`, in nanoseconds. Work that begins before kept intervals were
  /// summed up counts from there on, so nothing counts twice.
  void add(std::int64_t start, std::int64_t end);

  [[nodiscard]] std::int64_t total() const { return total_; }

 private:
  std::deque<std::pair<std::int64_t, std::int64_t>> recent_;  ///< disjoint, in order.
  std::int64_t summed_until_ = 0;
  std::int64_t total_ = 0;
};

}  // namespace gpemu::process
