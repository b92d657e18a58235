// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>

namespace gpemu::process {

/// A set of times, as disjoint intervals in nanoseconds. Old ones can be forgotten; what is added
/// later then counts only from there on, so nothing counts twice.
///
/// Thread safety: the caller's lock.
class TimeSet {
 public:
  /// Adds an interval, and calls `added` with the start and end of each part of it that is new.
  template <typename Added>
  void add(std::int64_t start, std::int64_t end, const Added& added) {
    if (start < forgotten_until_) start = forgotten_until_;
    if (end <= start) return;
    auto next = ends_.upper_bound(start);
    if (next != ends_.begin() && std::prev(next)->second >= start) --next;
    std::int64_t first = start, last = end, new_from = start;
    while (next != ends_.end() && next->first <= end) {
      if (new_from < next->first) added(new_from, next->first);
      if (new_from < next->second) new_from = next->second;
      if (next->first < first) first = next->first;
      if (next->second > last) last = next->second;
      next = ends_.erase(next);
    }
    if (new_from < end) added(new_from, end);
    ends_.emplace_hint(next, first, last);
  }

  /// Returns how much of an interval is in the set, in nanoseconds.
  [[nodiscard]] std::int64_t covered(std::int64_t start, std::int64_t end) const;

  /// Forgets the intervals that end by a time, and the oldest ones beyond `most`.
  void forget(std::int64_t until, std::size_t most);

  [[nodiscard]] std::size_t intervals() const { return ends_.size(); }

 private:
  std::map<std::int64_t, std::int64_t> ends_;  ///< by start.
  std::int64_t forgotten_until_ = INT64_MIN;
};

/// For how long at least one collective of a device was in progress, for how much of that at least
/// one moved data, and during how much of it a kernel ran. What happened may be told in any order;
/// times are in nanoseconds.
///
/// Thread safety: the caller's lock.
class CollectiveTime {
 public:
  /// A collective was asked for. Its stream does not reach it earlier.
  void ask(std::int64_t asked) { open_.insert(asked); }
  /// The collective that was asked for then was in progress from `arrived` to `end`, and moved data
  /// from `start` on. Requires: ask(asked) was called for it.
  void finish(std::int64_t asked, std::int64_t arrived, std::int64_t start, std::int64_t end);
  /// A kernel ran. Those that ended before the first collective was asked for may be left out.
  void run(std::int64_t start, std::int64_t end);

  [[nodiscard]] std::int64_t total() const { return total_; }
  [[nodiscard]] std::int64_t moving() const { return moving_; }  ///< part of the total.
  [[nodiscard]] std::int64_t hidden() const { return hidden_; }  ///< part of it: a kernel ran.
  /// How many intervals are kept.
  [[nodiscard]] std::size_t kept() const {
    return in_progress_.intervals() + in_motion_.intervals() + kernels_.intervals();
  }

 private:
  std::multiset<std::int64_t> open_;  ///< when those that have not ended were asked for.
  TimeSet in_progress_, in_motion_, kernels_;
  std::int64_t last_start_ = INT64_MIN;  ///< of a kernel.
  std::int64_t total_ = 0, moving_ = 0, hidden_ = 0;
};

}  // namespace gpemu::process
