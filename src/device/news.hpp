// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

#include "gpemu/base/units.hpp"
#include "gpemu/sim/clock.hpp"

namespace gpemu::device {

/// What the threads of a process wait for that wait for a rendezvous: that a round gets its end, or
/// a party fails. Thread safety: any thread.
class News {
 public:
  /// Returns a number that changes with each tell().
  [[nodiscard]] std::uint32_t count() const { return count_; }

  /// Notes that something happened, and wakes the threads that wait for it.
  void tell() {
    ++count_;
    if (waiting_ > 0) sim::wake_all(count_);
  }

  /// Returns whether threads wait, or are about to.
  [[nodiscard]] bool are_awaited() const { return waiting_ > 0; }

  /// Counts a thread as waiting while it lives.
  class Waiting {
   public:
    explicit Waiting(News& news) : news_(news) { ++news_.waiting_; }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;
    ~Waiting() { --news_.waiting_; }

    /// Blocks until count() differs from `seen`, or until `deadline`. May return earlier.
    void wait(sim::Clock& clock, std::uint32_t seen, TimePoint deadline) const {
      clock.wait_for_change(news_.count_, seen, deadline);
    }

   private:
    News& news_;
  };

 private:
  std::atomic<std::uint32_t> count_{0};
  std::atomic<int> waiting_{0};
};

}  // namespace gpemu::device
