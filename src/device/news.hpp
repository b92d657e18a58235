// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "gpemu/base/units.hpp"
#include "gpemu/device/moment.hpp"
#include "gpemu/sim/clock.hpp"

namespace gpemu::device {

/// What the threads of a process wait for that wait for a rendezvous: that a round gets its end, or
/// a party fails. Thread safety: any thread.
class News {
  /// Programs have fewer threads that wait at the same time; more cost only wake-ups.
  static constexpr std::size_t kPlaces = 8;

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

  /// The marks of the rounds for which threads wait, with null if a thread waits for anything. A
  /// mark may have gone by then, so only its address counts.
  class Awaited {
   public:
    explicit Awaited(const News& news) {
      if (!news.are_awaited()) return;
      if (news.unknown_ > 0) marks_[count_++] = nullptr;
      for (const std::atomic<const Mark*>& mark : news.marks_) {
        if (const Mark* const awaited = mark) marks_[count_++] = awaited;
      }
    }
    [[nodiscard]] const Mark* const* begin() const { return marks_.data(); }
    [[nodiscard]] const Mark* const* end() const { return marks_.data() + count_; }

   private:
    std::array<const Mark*, kPlaces + 1> marks_{};
    std::size_t count_ = 0;
  };

  /// Counts a thread as waiting for a round, or (null) for anything, while it lives.
  class Waiting {
   public:
    Waiting(News& news, const Mark* round) : news_(news) {
      for (std::atomic<const Mark*>& place : news_.marks_) {
        const Mark* none = nullptr;
        if (round == nullptr || !place.compare_exchange_strong(none, round)) continue;
        place_ = &place;
        break;
      }
      if (place_ == nullptr) ++news_.unknown_;
      ++news_.waiting_;
    }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;
    ~Waiting() {
      --news_.waiting_;
      if (place_ == nullptr) {
        --news_.unknown_;
      } else {
        *place_ = nullptr;
      }
    }

    /// Blocks until count() differs from `seen`, or until `deadline`. May return earlier.
    void wait(sim::Clock& clock, std::uint32_t seen, TimePoint deadline) const {
      clock.wait_for_change(news_.count_, seen, deadline);
    }

   private:
    News& news_;
    std::atomic<const Mark*>* place_ = nullptr;
  };

 private:
  std::atomic<std::uint32_t> count_{0};
  std::atomic<int> waiting_{0};
  std::array<std::atomic<const Mark*>, kPlaces> marks_{};
  std::atomic<int> unknown_{0};  ///< threads that are not in `marks_`.
};

}  // namespace gpemu::device
