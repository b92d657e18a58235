// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <pthread.h>
#include <span>
#include <utility>
#include <vector>

#include "gpemu/base/units.hpp"
#include "gpemu/device/moment.hpp"

#include "process.hpp"

namespace gpemu::cuda {

/// A range of addresses that work on content reads, or writes.
struct Access {
  std::uint64_t start = 0;
  Bytes bytes = 0;
  bool writes = false;
};

/// Moves the bytes of large copies while the program goes on, as a GPU's copy engines do: one
/// thread for each direction, started with its first copy.
///
/// All work on content is done as if in the order in which it was given. Work that overlaps
/// nothing unfinished is done at once by its caller; the rest waits here for what it overlaps.
/// Thread safety: any thread; work that is under way must not call back.
class Mover {
 public:
  enum class Lane : std::uint8_t { kToDevice, kToHost, kEither };
  using Work = std::move_only_function<void()>;

  struct Job {
    std::vector<Access> accesses;
    device::Moment end;  ///< on the timeline; who waits for that time waits for the job.
    Lane lane = Lane::kEither;
    Work work;
    std::function<bool()> may_begin = nullptr;  ///< null: it may.
    bool ends_with_overlapped = false;          ///< it ends with the last that it overlaps instead.
  };

  Mover() = default;
  Mover(const Mover&) = delete;
  Mover& operator=(const Mover&) = delete;
  /// Drops what has not begun.
  ~Mover();

  /// Whether anything is unfinished. What was finished before is visible to the caller.
  [[nodiscard]] bool busy() const { return unfinished_.load(std::memory_order_acquire) != 0; }

  /// Has a thread do a job. Blocks only while too many are unfinished. Where no thread can be
  /// started, the caller does it.
  void add(Job job);

  /// Does work at once if it overlaps nothing unfinished, else leaves it to a thread: then it
  /// counts as ending with the last that it overlaps.
  template <typename Effect>
  void in_order(std::span<const Access> accesses, Effect&& effect) {
    if (!busy() || !overlaps_any(accesses)) return std::forward<Effect>(effect)();
    add({.accesses = {accesses.begin(), accesses.end()},
         .lane = Lane::kEither,
         .work = std::forward<Effect>(effect),
         .ends_with_overlapped = true});
  }

  /// Has jobs begin whose `may_begin` has become true.
  void look_again();

  /// Blocks until all jobs are done that were given before.
  void wait_for_all();
  /// Blocks until all jobs are done that were given before and end until `time`, which has passed.
  void wait_until(TimePoint time);
  /// Whether wait_until would return at once.
  [[nodiscard]] bool is_done_until(TimePoint time) const;
  /// Blocks until all jobs are done that were given before and overlap one of these.
  void wait_for(std::span<const Access> accesses);
  [[nodiscard]] bool overlaps_any(std::span<const Access> accesses) const;

  /// For tests: no job begins until resume().
  void pause();
  void resume();

 private:
  struct Entry {
    Job job;
    std::uint64_t number = 0;
    bool running = false;
  };
  using Entries = std::list<Entry>;
  struct Thread {
    Mover* mover = nullptr;
    Lane lane = Lane::kEither;
    bool started = false;
    pthread_t id{};
    std::condition_variable changed;  ///< a job of its lane may begin.
  };

  /// More than programs have unfinished; then the host waits, as it does for a driver's full queue.
  static constexpr std::size_t kMostJobs = 256;

  static void* start(void* thread);
  void run(Thread& thread);
  /// Wakes the threads that do jobs of a lane.
  void wake(Lane lane);
  /// Returns a job that may begin, or the end. Requires: the lock.
  Entries::iterator find_ready(Lane lane);
  /// Whether a thread for the lane runs or could be started. Requires: the lock.
  bool ensure_thread(Lane lane);

  /// Waits until no unfinished job that was given before is one that `concerns` says. Requires:
  /// the lock.
  template <typename Concerns>
  void wait_locked(std::unique_lock<std::mutex>& lock, Concerns concerns);

  mutable std::mutex mutex_;
  std::condition_variable done_;  ///< a job was done.
  Entries entries_;               ///< unfinished, in the order given; guarded by mutex_.
  std::uint64_t next_number_ = 0;
  std::array<Thread, 2> threads_;
  bool paused_ = false;
  bool stopped_ = false;
  std::atomic<std::size_t> unfinished_{0};
};

/// That of the process, whose threads run until the process ends.
[[nodiscard]] inline Mover& mover() {
  return process().mover.get();
}

}  // namespace gpemu::cuda
