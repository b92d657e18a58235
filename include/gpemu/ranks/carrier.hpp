// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <thread>

#include "gpemu/base/condition.hpp"
#include "gpemu/base/error.hpp"
#include "gpemu/base/file.hpp"
#include "gpemu/base/mutex.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/process/made_once.hpp"
#include "gpemu/process/process.hpp"
#include "gpemu/ranks/wire.hpp"
#include "gpemu/sim/clock.hpp"

namespace gpemu::ranks {

/// Carries the bytes of collectives over the real network: one thread for all wires of the process,
/// started with the first one.
///
/// Thread safety: any thread.
class Carrier {
 public:
  /// Called when a transfer is through, or when it never will be because the wire is broken.
  using Ended = std::function<void(bool is_through)>;
  using Number = std::uint64_t;

  /// `clock`: of the times at which transfers begin; it runs by itself.
  explicit Carrier(sim::Clock& clock) : clock_(clock) {}
  Carrier(const Carrier&) = delete;
  Carrier& operator=(const Carrier&) = delete;
  ~Carrier();

  /// Takes a wire, and returns its number. Errors: kResourceLimit if the system gives no thread or
  /// no descriptor.
  [[nodiscard]] Result<Number> add(Wire wire) GPEMU_EXCLUDES(mutex_);

  /// Carries a transfer at `start`, after all earlier ones of the wire. `ended` is called without a
  /// lock, by the thread; it must not call add() or remove(). Does not wait, so locks may be held.
  void carry(Number number, TimePoint start, const Transfer& transfer, Ended ended)
      GPEMU_EXCLUDES(mutex_);

  /// Closes a wire. Once this returns, `ended` of its transfers is not called any more.
  void remove(Number number) GPEMU_EXCLUDES(mutex_);

 private:
  struct Waiting {
    TimePoint start;
    Transfer transfer;
    Ended ended;
  };
  struct Line {
    Wire wire;
    std::deque<Waiting> waiting{};  ///< the first one may have begun.
    bool is_in_use = false;         ///< by the thread, without the lock.
  };

  void run();
  void wake();
  /// Moves bytes of all wires. Returns when the next transfer begins.
  TimePoint go_on() GPEMU_EXCLUDES(mutex_);
  /// Moves bytes of one, and calls `ended` of what has ended. `lock` holds the mutex, except while
  /// bytes move.
  void go_on(Line& line, Lock& lock) GPEMU_REQUIRES(mutex_) GPEMU_NOT_ANALYSED;

  sim::Clock& clock_;
  Mutex mutex_;
  Condition released_;  ///< a line is not in use any more.
  std::map<Number, Line> lines_ GPEMU_GUARDED_BY(mutex_);
  Number next_ GPEMU_GUARDED_BY(mutex_) = 1;
  bool stops_ GPEMU_GUARDED_BY(mutex_) = false;
  FileDescriptor bell_;  ///< an eventfd, made with the thread.
  std::thread thread_;
};

/// Returns that of this process. Requires: the process has attached.
[[nodiscard]] inline Carrier& carrier() {
  static constinit process::MadeOnce<Carrier> made;
  return made.get(*process::process().clock);
}

}  // namespace gpemu::ranks
