// SPDX-License-Identifier: Apache-2.0
#include "gpemu/run/skipper.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <limits>
#include <linux/futex.h>
#include <map>
#include <optional>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "gpemu/sim/shared_clock.hpp"

#include "wait_watch.hpp"

namespace gpemu::run {
namespace {

using sim::ClockPage;
using sim::TimedWait;
using sim::WaitKind;

/// Skipping less costs more than it saves.
constexpr std::int64_t kLeastSkipNs = 150'000;
/// The most that is skipped at once, because a page may contain any bytes.
constexpr std::int64_t kMostSkipNs = 24LL * 3600 * 1'000'000'000;
/// Timeouts of waits (not sleeps) that end within this time of each other end together.
constexpr std::int64_t kTogetherNs = 500'000;
/// How long before its end a sleep learns what was skipped meanwhile, so that it ends exactly.
constexpr std::int64_t kRearmNs = 5'000'000;
/// The shortest and the longest pause between two checks of all threads, and the pause while no
/// thread waits for a time.
constexpr std::int64_t kShortestPauseNs = 30'000, kLongestPauseNs = 500'000;
constexpr std::int64_t kIdlePauseNs = 20'000'000;
/// A wait that has been over for so long may belong to a thread that does not exist any more.
constexpr std::int64_t kOverdueNs = 2'000'000;

constexpr std::int64_t kForever = std::numeric_limits<std::int64_t>::max();

void futex_wake(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, std::numeric_limits<int>::max(), nullptr, nullptr, 0);
}

void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t seen, std::int64_t ns) {
  const timespec time{.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, seen, &time, nullptr, 0);
}

/// A WaitWatch keeps two files open for each thread.
void allow_many_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

class Skipper::Loop {
 public:
  Loop(ClockPage& page, Options options)
      : page_(page),
        options_(std::move(options)),
        clock_(page),
        watch_(options_.root, options_.segment.string()) {
    page_.skipping = 1;
  }

  void run() {
    // Its pauses are short and must not be extended by the default of 50 us.
    ::prctl(PR_SET_TIMERSLACK, 1UL);
    std::int64_t pause_ns = kShortestPauseNs;
    while (!stop_) {
      const std::uint32_t seen = page_.published;
      const Plan plan = make_plan();
      if (plan.waits == 0 || plan.held) {
        pause(seen, kIdlePauseNs);
        continue;
      }
      const bool tried = !plan.due && plan.next_ns - plan.now_ns >= kLeastSkipNs;
      if (tried && skip(plan.state)) {
        pause_ns = kShortestPauseNs;
        continue;
      }
      pause(seen, std::clamp(plan.next_stale_ns - plan.now_ns, kShortestPauseNs, pause_ns));
      pause_ns = std::min(pause_ns * 2, kLongestPauseNs);
    }
    page_.skipping = 0;
    for (TimedWait& wait : page_.waits) {
      if (wait.thread != 0 && wait.kind == static_cast<std::uint32_t>(WaitKind::kSleep)) wake(wait);
    }
  }

  void stop() {
    stop_ = true;
    ++page_.published;
    futex_wake(page_.published);
  }

  [[nodiscard]] Report report() const {
    Report report{.skipped = skipped_, .skips = skips_, .checks = watch_.counts().checks};
    std::uint64_t most = skips_;
    for (const auto& [who, count] : in_the_way_) {
      if (count <= most) continue;
      most = count;
      report.in_the_way = who;
    }
    return report;
  }

 private:
  /// The page's pending waits.
  struct Plan {
    std::uint64_t state = 0;  ///< of the page, read before everything else.
    std::int64_t now_ns = 0;
    int waits = 0;
    bool due = false;   ///< the wait of a thread is over: it is about to compute.
    bool held = false;  ///< by a timer of the kernel's.
    std::int64_t next_ns = kForever;
    std::int64_t next_stale_ns = kForever;  ///< when a thread must learn what was skipped.
  };

  /// Reads all waits, and wakes the threads that must learn what was skipped.
  Plan make_plan() {
    Plan plan{.state = page_.state};
    plan.now_ns = clock_.now().time_since_epoch().count();
    const std::uint64_t skipped_us = page_.skipped_us();
    std::int64_t first_sleep = kForever;
    limits_.clear();
    timed_.clear();
    for (TimedWait& wait : page_.waits) {
      const pid_t thread = wait.thread;
      if (thread == 0) continue;
      const auto kind = static_cast<WaitKind>(wait.kind.load());
      const std::int64_t until = wait.until_ns;
      if (kind == WaitKind::kHold) {
        plan.held = plan.held || (until > plan.now_ns && !forget_if_dead(wait, thread));
        if (until <= plan.now_ns && until != sim::kNotYet) wait.thread.store(0);
        continue;
      }
      ++plan.waits;
      timed_.insert(thread);
      if (until <= plan.now_ns) {
        plan.due = true;
        if (until < plan.now_ns - kOverdueNs) forget_if_dead(wait, thread);
      } else if (kind == WaitKind::kSleep) {
        first_sleep = std::min(first_sleep, until);
      } else {
        limits_.push_back(until);
      }
      if (wait.armed_us == skipped_us || until == sim::kNotYet) continue;
      const std::int64_t tell_at = kind == WaitKind::kSleep ? until - kRearmNs : until;
      if (tell_at <= plan.now_ns) {
        if (kind == WaitKind::kSleep) {
          wake(wait);
        } else {
          signal(wait, thread, skipped_us);
        }
      } else {
        plan.next_stale_ns = std::min(plan.next_stale_ns, tell_at);
      }
    }
    const auto first_limit = std::ranges::min_element(limits_);
    std::int64_t limit = first_limit == limits_.end() ? kForever : *first_limit;
    for (const std::int64_t until : limits_) {
      if (until <= *first_limit + kTogetherNs) limit = std::max(limit, until);
    }
    plan.next_ns = std::min(first_sleep, limit);
    return plan;
  }

  /// Skips to the next time for which a thread waits, if all threads wait.
  ///
  /// `state` is the page's before `timed_` was read: a wait that has ended since makes the exchange
  /// at the end fail.
  bool skip(std::uint64_t state) {
    if (!watch_.all_wait([this](pid_t thread) { return timed_.contains(thread); })) {
      if (!watch_.one_runs()) ++in_the_way_[watch_.who_computes()];
      return false;
    }
    if (options_.has_all && !options_.has_all(watch_.processes())) {
      ++in_the_way_["a process that was not started by the run uses the node"];
      return false;
    }
    for (TimedWait& wait : page_.waits) {
      if (pid_t thread = wait.thread; thread != 0 && !watch_.is_alive(thread)) {
        wait.thread.compare_exchange_strong(thread, 0);
      }
    }
    // Every thread that sleeps now has published its wait, possibly after the first plan.
    const Plan plan = make_plan();
    if (plan.waits == 0 || plan.held || plan.due) return false;
    const std::int64_t step_us = std::min(plan.next_ns - plan.now_ns, kMostSkipNs) / 1000;
    if (step_us * 1000 < kLeastSkipNs) return false;
    if (!page_.state.compare_exchange_strong(state, state + static_cast<std::uint64_t>(step_us))) {
      return false;
    }
    skipped_ += std::chrono::microseconds(step_us);
    ++skips_;
    static_cast<void>(make_plan());  // Wakes the threads whose waits are over.
    return true;
  }

  /// Frees the place of a thread that does not exist any more.
  static bool forget_if_dead(TimedWait& wait, pid_t thread) {
    if (::syscall(SYS_tkill, thread, 0) == 0 || errno != ESRCH) return false;
    return wait.thread.compare_exchange_strong(thread, 0);
  }

  static void wake(TimedWait& wait) {
    ++wait.woken;
    futex_wake(wait.woken);
  }

  void signal(TimedWait& wait, pid_t thread, std::uint64_t skipped_us) {
    // Only once: a thread that misses it wakes when the host's time has come.
    wait.armed_us = skipped_us;
    const pid_t process = watch_.process_of(thread);
    if (process == 0) return;
    wait.signalling = 1;
    if (wait.thread == thread && wait.until_ns != sim::kNotYet) {
      ::syscall(SYS_tgkill, process, thread, sim::kWakeSignal);
    }
    wait.signalling = 0;
  }

  void pause(std::uint32_t seen, std::int64_t ns) {
    page_.listening = 1;
    if (!stop_) futex_wait(page_.published, seen, ns);
    page_.listening = 0;
  }

  ClockPage& page_;
  Options options_;
  sim::SharedClock clock_;
  WaitWatch watch_;
  std::atomic<bool> stop_{false};
  std::set<pid_t> timed_;  ///< threads that wait until a time.
  std::vector<std::int64_t> limits_;
  Duration skipped_{};
  std::uint64_t skips_ = 0;
  std::map<std::string, std::uint64_t> in_the_way_;
};

Skipper::Skipper(ClockPage& page, Options options) {
  allow_many_files();
  loop_ = std::make_unique<Loop>(page, std::move(options));
  thread_ = std::thread([this] { loop_->run(); });
}

Skipper::~Skipper() {
  stop();
}

const Skipper::Report& Skipper::stop() {
  if (!thread_.joinable()) return report_;
  loop_->stop();
  thread_.join();
  report_ = loop_->report();
  return report_;
}

}  // namespace gpemu::run
