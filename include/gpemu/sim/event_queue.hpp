// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "gpemu/base/units.hpp"

namespace gpemu::sim {

/// A queue of things that happen at known times, earliest first. Things with the same time leave in
/// the order in which they were added, so that runs are deterministic.
///
/// Thread safety: none; one queue belongs to one simulation.
template <typename Payload>
class EventQueue {
 public:
  struct Entry {
    TimePoint time;
    std::uint64_t sequence;
    Payload payload;
  };

  [[nodiscard]] bool empty() const { return heap_.empty(); }
  [[nodiscard]] std::size_t size() const { return heap_.size(); }

  /// Returns the time of the earliest entry. Requires: not empty.
  [[nodiscard]] TimePoint next_time() const { return heap_.front().time; }

  /// Complexity: logarithmic in size().
  void push(TimePoint time, Payload payload) {
    heap_.push_back(Entry{time, next_sequence_++, std::move(payload)});
    std::push_heap(heap_.begin(), heap_.end(), Later{});
  }

  /// Removes and returns the earliest entry. Requires: not empty.
  Entry pop() {
    std::pop_heap(heap_.begin(), heap_.end(), Later{});
    Entry entry = std::move(heap_.back());
    heap_.pop_back();
    return entry;
  }

 private:
  struct Later {
    bool operator()(const Entry& a, const Entry& b) const {
      return std::pair(a.time, a.sequence) > std::pair(b.time, b.sequence);
    }
  };

  std::vector<Entry> heap_;
  std::uint64_t next_sequence_ = 0;
};

}  // namespace gpemu::sim
