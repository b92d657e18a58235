// SPDX-License-Identifier: Apache-2.0
#include "settler.hpp"

#include <cstdint>
#include <ctime>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

#include "gpemu/base/saturate.hpp"
#include "gpemu/base/thread.hpp"

namespace gpemu::device {
namespace {

/// How often a thread with open rounds checks whether the missing parties live: at least once in
/// this period, but not more often than twice if it wakes for something else.
constexpr Duration kFailurePeriod = std::chrono::milliseconds(20);

/// The shortest possible slice. Source: Linux, sched_setattr(2) and kernel/sched/syscalls.c (6.12).
constexpr std::uint64_t kSliceNs = 100'000;

/// struct sched_attr of linux/sched/types.h, which cannot be included beside sched.h.
struct SchedulingAttributes {
  std::uint32_t size = sizeof(SchedulingAttributes);
  std::uint32_t policy = 0;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime = 0;
  std::uint64_t deadline = 0;
  std::uint64_t period = 0;
};
static_assert(sizeof(SchedulingAttributes) == 48);

/// Makes the calling thread run soon after it wakes up although others compute: the scheduler
/// prefers threads with short time slices. Kernels before Linux 6.12 ignore it.
void ask_for_short_slice() {
  SchedulingAttributes attributes;
  if (::syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) return;
  attributes.runtime = kSliceNs;
  ::syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace

Settler::Settler(Look look, layout::ProcessRecord& own, sim::Clock& clock,
                 std::function<void()> rung)
    : look_(std::move(look)),
      rung_(std::move(rung)),
      own_(own),
      clock_(clock),
      thread_(start_thread("gpemu settle", [this, last = own.bell.load()] { run(last); })) {}

Settler::~Settler() {
  stops_ = true;
  ++own_.bell;
  sim::wake_all(own_.bell);
  if (thread_.joinable()) thread_.join();
}

Duration Settler::cpu_time() {
  clockid_t clock{};
  timespec used{};
  if (!thread_.joinable()) return {};
  if (::pthread_getcpuclockid(thread_.native_handle(), &clock) != 0) return {};
  ::clock_gettime(clock, &used);
  return std::chrono::seconds(used.tv_sec) + Duration(used.tv_nsec);
}

void Settler::run(std::uint32_t last) {
  ask_for_short_slice();
  while (true) {
    // Before anything is read: a process that changes something increments this afterwards.
    const std::uint32_t seen = own_.bell;
    if (stops_) return;
    const bool has_rung = std::exchange(last, seen) != seen;
    const Schedule::NextLook next = look_(clock_.now(), has_rung);
    // Not only then: a process may be killed after it has changed something, and before it rings.
    if (rung_) rung_();
    // Others may have come before they could see that this thread listens, so it looks once more.
    if (next.listens && own_.listening.exchange(1) == 0) continue;
    clock_.wait_for_change(own_.bell, seen, next.time);
  }
}

Settler::Look look_at(Schedule& schedule) {
  return [&schedule, looked_for_failures = TimePoint()](TimePoint now, bool has_rung) mutable {
    const Lock lock(schedule.mutex);
    schedule.advance(now);
    // What others have published may change until when this process's threads wait.
    if (has_rung) schedule.news.tell();
    if (now >= saturating_add(looked_for_failures, kFailurePeriod / 2)) {
      schedule.find_failures();
      looked_for_failures = now;
    }
    return schedule.plan_look(now, saturating_add(looked_for_failures, kFailurePeriod));
  };
}

}  // namespace gpemu::device
