// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "gpemu/base/condition.hpp"
#include "gpemu/base/mutex.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/device/moment.hpp"
#include "gpemu/kernels/kernel_work.hpp"
#include "gpemu/process/made_once.hpp"
#include "gpemu/process/process.hpp"

namespace gpemu::streams {

using kernels::Access;

/// Returns whether one of some ranges shares bytes with one of others, and one of the two is
/// written. Takes n log n, because a batch of products writes a range for each row.
[[nodiscard]] bool overlap(std::span<const Access> some, std::span<const Access> others);

/// Moves the bytes of large copies while the program continues, as a GPU's copy engines do: one
/// thread per direction, started with its first copy.
///
/// All work on content has the same result as in the order in which it was given. If work overlaps
/// nothing unfinished, its caller does it at once; other work waits here until the overlapping work
/// is done. Thread safety: any thread; running work must not call back.
class Mover {
 public:
  enum class Lane : std::uint8_t { kToDevice, kToHost, kEither };
  using Work = std::move_only_function<void()>;

  struct Job {
    std::vector<Access> accesses;
    device::Moment end;  ///< on the timeline; a wait for that time waits for the job.
    Lane lane = Lane::kEither;
    Work work;
    std::function<bool()> may_begin = nullptr;  ///< null: it may.
    bool ends_with_overlapped = false;  ///< it ends with the last job that it overlaps instead.
  };

  Mover() = default;
  Mover(const Mover&) = delete;
  Mover& operator=(const Mover&) = delete;
  /// Drops jobs that have not begun.
  ~Mover();

  /// Returns whether anything is unfinished. The effects of finished jobs are visible to the
  /// caller.
  [[nodiscard]] bool busy() const { return unfinished_.load(std::memory_order_acquire) != 0; }

  /// Gives a job to a thread. Blocks only while too many are unfinished that wait for nothing but
  /// each other: host functions and other processes may need the caller to go on. If no thread can
  /// be started, the caller does it.
  void add(Job job) GPEMU_EXCLUDES(mutex_);

  /// Does work at once if it overlaps nothing unfinished, else leaves it to a thread: then it ends
  /// with the last job that it overlaps.
  template <typename Effect>
  void in_order(std::span<const Access> accesses, Effect&& effect) GPEMU_EXCLUDES(mutex_) {
    if (!busy() || !overlaps_any(accesses)) return std::forward<Effect>(effect)();
    add({.accesses = {accesses.begin(), accesses.end()},
         .lane = Lane::kEither,
         .work = std::forward<Effect>(effect),
         .ends_with_overlapped = true});
  }

  /// Starts jobs whose `may_begin` has become true.
  void look_again() GPEMU_EXCLUDES(mutex_);

  /// Blocks until all earlier jobs are done.
  void wait_for_all() GPEMU_EXCLUDES(mutex_);
  /// Blocks until all earlier jobs are done that end by `time`, which has passed.
  void wait_until(TimePoint time) GPEMU_EXCLUDES(mutex_);
  /// Returns whether wait_until would return at once.
  [[nodiscard]] bool is_done_until(TimePoint time) const GPEMU_EXCLUDES(mutex_);
  /// Blocks until all earlier jobs are done that overlap one of these.
  void wait_for(std::span<const Access> accesses) GPEMU_EXCLUDES(mutex_);
  [[nodiscard]] bool overlaps_any(std::span<const Access> accesses) const GPEMU_EXCLUDES(mutex_);

  /// For tests: no job begins until resume().
  void pause() GPEMU_EXCLUDES(mutex_);
  void resume() GPEMU_EXCLUDES(mutex_);

 private:
  struct Entry;
  using Entries = std::list<Entry>;
  using Next = std::map<std::uint64_t, Entry*>;
  struct Entry {
    Job job;
    std::uint64_t number = 0;
    bool waits_outside = false;  ///< it or one that it overlaps had a `may_begin` when added.
    bool is_awaited = false;     ///< a thread waits until it is done.
    /// Those that wait for this one, because it is the last unfinished one that they overlap.
    Entry* first_blocked = nullptr;
    Entry* next_blocked = nullptr;    ///< in the list of what this one waits for.
    Entries::iterator position = {};  ///< its own.
    Next::node_type place = {};       ///< in next_; empty while it is there, and afterwards.
  };
  struct Thread {
    Lane lane = Lane::kEither;
    std::thread thread;
    Condition changed;     ///< it is not idle any more.
    bool is_idle = false;  ///< it waits for jobs that may begin.
  };
  /// Which threads to wake once the mutex is free: if they were woken before, they would wait for
  /// it.
  using Woken = std::array<bool, 2>;

  /// The most unfinished jobs, apart from those that wait for something else: more than programs
  /// usually have. Beyond it, the host waits, as for a driver's full queue.
  static constexpr std::size_t kMostJobs = 256;

  void run(Thread& thread);
  /// Makes an idle thread do a job, if there is one for it.
  void end_idleness(const Entry& entry, Woken& woken) GPEMU_REQUIRES(mutex_);
  /// Makes as many idle threads work as there are jobs for them that may begin. The caller, if it
  /// is one of the threads (else null), goes on to do one of the jobs itself.
  [[nodiscard]] Woken find_threads(const Thread* own) GPEMU_REQUIRES(mutex_);
  void wake(Woken woken);
  /// Returns a job for a thread that may begin, or null.
  Entry* find_ready(const Thread& thread) GPEMU_REQUIRES(mutex_);
  /// Returns whether a job waits for something other than unfinished ones.
  [[nodiscard]] bool waits_outside(const Job& job) const GPEMU_REQUIRES(mutex_);
  /// Returns the last end of the jobs that this one overlaps, and its own.
  [[nodiscard]] device::Moment last_end(const Job& job) const GPEMU_REQUIRES(mutex_);
  /// Lets a job wait for the last one before `end` that it overlaps, and returns whether there is
  /// one.
  bool block(Entry& entry, Entries::iterator end) GPEMU_REQUIRES(mutex_);
  [[nodiscard]] static bool may_begin(const Entry& entry) {
    return !entry.job.may_begin || entry.job.may_begin();
  }
  [[nodiscard]] static bool does(const Thread& thread, const Entry& entry) {
    return entry.job.lane == Lane::kEither || entry.job.lane == thread.lane;
  }
  /// Removes a job that is done, and returns whether others may begin because of that.
  [[nodiscard]] bool remove(Entry& done) GPEMU_REQUIRES(mutex_);
  /// Returns whether a thread for the lane runs or could be started.
  bool ensure_thread(Lane lane) GPEMU_REQUIRES(mutex_);

  /// Waits until no earlier job for which `concerns` is true is unfinished.
  template <typename Concerns>
  void wait_locked(Lock& lock, Concerns concerns) GPEMU_REQUIRES(mutex_);

  mutable Mutex mutex_;
  Condition done_;                            ///< a job was done that is awaited.
  Entries entries_ GPEMU_GUARDED_BY(mutex_);  ///< unfinished, in the order given.
  /// Those that wait for no earlier one and have not begun, by number: few of many in a chain.
  Next next_ GPEMU_GUARDED_BY(mutex_);
  std::size_t counted_ GPEMU_GUARDED_BY(mutex_) = 0;  ///< of these, towards kMostJobs.
  std::uint64_t next_number_ GPEMU_GUARDED_BY(mutex_) = 0;
  std::array<Thread, 2> threads_;
  int held_up_ GPEMU_GUARDED_BY(mutex_) = 0;  ///< threads that wait until few jobs are unfinished.
  bool paused_ GPEMU_GUARDED_BY(mutex_) = false;
  bool stopped_ GPEMU_GUARDED_BY(mutex_) = false;
  std::atomic<std::size_t> unfinished_{0};
};

/// Returns the mover of the process, whose threads run until the process ends.
[[nodiscard]] inline Mover& mover() {
  static constinit process::MadeOnce<Mover> made;
  return made.get();
}

}  // namespace gpemu::streams
