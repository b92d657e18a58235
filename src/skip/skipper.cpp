// SPDX-License-Identifier: Apache-2.0
#include "gpemu/skip/skipper.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <limits>
#include <linux/futex.h>
#include <map>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "gpemu/base/thread.hpp"
#include "gpemu/sim/clock.hpp"
#include "gpemu/sim/shared_clock.hpp"

#include "real_process_view.hpp"
#include "skip_plan.hpp"
#include "wait_watch.hpp"

namespace gpemu::skip {
namespace {

using sim::ClockPage;
using sim::TimedWait;
using sim::WaitKind;

/// The shortest and the longest pause between two checks of all threads, and the pause while no
/// thread waits for a time. Only the last one ends when a thread starts to wait: threads that talk
/// to each other do so thousands of times a second.
constexpr std::int64_t kShortestPauseNs = 30'000, kLongestPauseNs = 200'000;
constexpr std::int64_t kIdlePauseNs = 20'000'000;

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
        watch_(options_.root, options_.segment.string(), view_, options_.host_clock) {
    page_.skipping = 1;
  }

  void run() {
    // Its pauses are short and must not be extended by the default of 50 us.
    ::prctl(PR_SET_TIMERSLACK, 1UL);
    std::int64_t pause_ns = kShortestPauseNs;
    while (!stop_) {
      const std::uint32_t seen = page_.published;
      const std::uint64_t state = page_.state;
      const SkipPlan plan = make_plan();
      if (carry_out(plan)) continue;
      if (plan.timed.empty() || plan.held) {
        await_wait(seen);
        continue;
      }
      if (plan.skip_us > 0 && skip(plan.timed, state)) {
        pause_ns = kShortestPauseNs;
        continue;
      }
      std::this_thread::sleep_for(
          Duration(std::clamp(page_.pace.to_host(plan.stale_in_ns), kShortestPauseNs, pause_ns)));
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
  /// Reads all waits and plans by them.
  SkipPlan make_plan() {
    const std::int64_t now_ns = to_ns(clock_.now());
    const std::uint64_t skipped_us = page_.skipped_us();
    waits_.clear();
    for (std::size_t place = 0; place < ClockPage::kWaits; ++place) {
      const TimedWait& wait = page_.waits[place];
      const pid_t thread = wait.thread;
      if (thread == 0) continue;
      const auto kind = static_cast<WaitKind>(wait.kind.load());
      waits_.push_back({place, thread, kind, wait.until_ns, wait.armed_us});
    }
    return plan_skip(waits_, now_ns, skipped_us, page_.pace);
  }

  /// Wakes, signals and frees as planned. Returns whether it freed the place of a dead thread: then
  /// the plan is out of date.
  bool carry_out(const SkipPlan& plan) {
    bool freed = false;
    for (const SeenWait& seen : plan.to_check) {
      if (forget_if_dead(page_.waits[seen.place], seen.thread)) freed = true;
    }
    for (const SeenWait& seen : plan.to_free) {
      TimedWait& wait = page_.waits[seen.place];
      if (wait.until_ns == seen.until_ns) wait.thread = 0;
    }
    for (const SeenWait& seen : plan.to_wake) wake(page_.waits[seen.place]);
    for (const SeenWait& seen : plan.to_signal) signal(seen);
    return freed;
  }

  /// Skips to the next time for which a thread waits, if all threads wait.
  ///
  /// `state` is the page's before `timed`, the threads that wait until a time, was read: a wait
  /// that has ended since makes the exchange at the end fail.
  bool skip(const std::set<pid_t>& timed, std::uint64_t state) {
    if (!watch_.all_wait([&timed](pid_t thread) { return timed.contains(thread); })) {
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
    const SkipPlan plan = make_plan();
    if (carry_out(plan) || plan.skip_us == 0) return false;
    const auto step_us = static_cast<std::uint64_t>(plan.skip_us);
    if (!page_.state.compare_exchange_strong(state, state + step_us)) return false;
    skipped_ += std::chrono::microseconds(plan.skip_us);
    ++skips_;
    carry_out(make_plan());  // Wakes the threads whose waits are over.
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

  void signal(const SeenWait& seen) {
    TimedWait& wait = page_.waits[seen.place];
    // Only once: a thread that misses it wakes when the host's time has come.
    wait.armed_us = page_.skipped_us();
    const pid_t process = watch_.process_of(seen.thread);
    if (process == 0) return;
    wait.signalling = 1;
    if (wait.thread == seen.thread && wait.until_ns == seen.until_ns) {
      ::syscall(SYS_tgkill, process, seen.thread, sim::kWakeSignal);
    }
    wait.signalling = 0;
  }

  /// Pauses until a thread starts to wait for a time.
  void await_wait(std::uint32_t seen) {
    page_.listening = 1;
    if (!stop_) futex_wait(page_.published, seen, kIdlePauseNs);
    page_.listening = 0;
  }

  ClockPage& page_;
  Options options_;
  sim::SharedClock clock_;
  RealProcessView view_;
  WaitWatch watch_;
  std::atomic<bool> stop_{false};
  std::vector<SeenWait> waits_;  ///< kept only for its memory.
  Duration skipped_{};
  std::uint64_t skips_ = 0;
  std::map<std::string, std::uint64_t> in_the_way_;
};

Result<std::unique_ptr<Skipper>> Skipper::start(ClockPage& page, Options options) {
  allow_many_files();
  std::unique_ptr<Skipper> skipper(new Skipper(std::make_unique<Loop>(page, std::move(options))));
  if (skipper->thread_.joinable()) return skipper;
  // Ends at once, and lets all who sleep go on.
  skipper->loop_->stop();
  skipper->loop_->run();
  return fail(ErrorCode::kResourceLimit,
              "cannot start the thread that skips waiting, so the run takes its real time");
}

Skipper::Skipper(std::unique_ptr<Loop> loop)
    : loop_(std::move(loop)), thread_(start_thread("gpemu-skip", [this] { loop_->run(); })) {}

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

}  // namespace gpemu::skip
