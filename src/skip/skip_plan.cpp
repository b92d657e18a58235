// SPDX-License-Identifier: Apache-2.0
#include "skip_plan.hpp"

#include <algorithm>
#include <limits>

namespace gpemu::skip {
namespace {

using sim::WaitKind;

/// Skipping less of the host's time costs more than it saves.
constexpr std::int64_t kLeastSkipNs = 150'000;
/// The most that is skipped at once, because a page may contain any bytes.
constexpr std::int64_t kMostSkipNs = 24LL * 3600 * 1'000'000'000;
/// Timeouts of waits (not sleeps) that end within this time of each other end together.
constexpr std::int64_t kTogetherNs = 500'000;
/// How long before its end, in the host's time, a sleep learns what was skipped meanwhile, so that
/// it ends exactly.
constexpr std::int64_t kRearmNs = 5'000'000;
/// A wait that has been over for so long may belong to a thread that does not exist any more.
constexpr std::int64_t kOverdueNs = 2'000'000;

/// Returns when the next sleep ends or the next limits end together. Requires: no wait is over.
std::int64_t next_time(std::span<const SeenWait> waits) {
  std::int64_t first_sleep = std::numeric_limits<std::int64_t>::max(), first_limit = first_sleep;
  for (const SeenWait& wait : waits) {
    if (wait.kind == WaitKind::kHold) continue;
    std::int64_t& first = wait.kind == WaitKind::kSleep ? first_sleep : first_limit;
    first = std::min(first, wait.until_ns);
  }
  std::int64_t limit = first_limit;
  for (const SeenWait& wait : waits) {
    if (wait.kind == WaitKind::kHold || wait.kind == WaitKind::kSleep) continue;
    if (wait.until_ns - first_limit <= kTogetherNs) limit = std::max(limit, wait.until_ns);
  }
  return std::min(first_sleep, limit);
}

}  // namespace

SkipPlan plan_skip(std::span<const SeenWait> waits, std::int64_t now_ns, std::uint64_t skipped_us,
                   const sim::HostPace& pace) {
  SkipPlan plan;
  bool due = false;  // A thread's wait is over: it is about to compute.
  for (const SeenWait& wait : waits) {
    const bool over = wait.until_ns <= now_ns;
    if (wait.kind == WaitKind::kHold) {
      plan.held = plan.held || !over;
      if (!over) plan.to_check.push_back(wait);
      if (over && wait.until_ns != sim::kNotYet) plan.to_free.push_back(wait);
      continue;
    }
    plan.timed.insert(wait.thread);
    due = due || over;
    if (wait.until_ns < now_ns - kOverdueNs) plan.to_check.push_back(wait);
    if (wait.armed_us == skipped_us || wait.until_ns == sim::kNotYet) continue;
    const bool sleeps = wait.kind == WaitKind::kSleep;
    const std::int64_t early_ns = sleeps ? pace.to_node(kRearmNs) : 0;
    if (wait.until_ns <= now_ns + early_ns) {
      (sleeps ? plan.to_wake : plan.to_signal).push_back(wait);
    } else {
      plan.stale_in_ns = std::min(plan.stale_in_ns, wait.until_ns - early_ns - now_ns);
    }
  }
  if (plan.timed.empty() || plan.held || due) return plan;
  const std::int64_t ahead_ns = next_time(waits) - now_ns;
  if (ahead_ns >= pace.to_node(kLeastSkipNs)) plan.skip_us = std::min(ahead_ns, kMostSkipNs) / 1000;
  return plan;
}

}  // namespace gpemu::skip
