// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <utility>

#include "gpemu/base/mutex.hpp"

namespace gpemu {

/// A std::condition_variable for a Mutex. Requires: the lock holds its mutex, and all threads that
/// wait use the same one.
class Condition {
 public:
  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }

  /// Waits until the predicate holds; it is called with the mutex held.
  template <typename Predicate>
  void wait(Lock& lock, Predicate&& predicate) {
    condition_.wait(lock.lock_, std::forward<Predicate>(predicate));
  }

  /// Waits for at most `time`, and returns whether the predicate holds.
  template <typename Rep, typename Period, typename Predicate>
  bool wait_for(Lock& lock, std::chrono::duration<Rep, Period> time, Predicate&& predicate) {
    return condition_.wait_for(lock.lock_, time, std::forward<Predicate>(predicate));
  }

 private:
  std::condition_variable condition_;
};

}  // namespace gpemu
