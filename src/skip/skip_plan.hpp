// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <span>
#include <sys/types.h>
#include <vector>

#include "gpemu/sim/clock_page.hpp"

namespace gpemu::skip {

/// A place of the page, as it was read. The page may contain any bytes.
struct SeenWait {
  std::size_t place = 0;  ///< in ClockPage::waits.
  pid_t thread = 0;       ///< not 0; of a kHold, the process.
  sim::WaitKind kind = sim::WaitKind::kSleep;
  std::int64_t until_ns = 0;
  std::uint64_t armed_us = 0;
};

/// What a Skipper does about the waits that it has seen.
struct SkipPlan {
  /// How far the time may jump if all threads wait; 0: not at all.
  std::int64_t skip_us = 0;
  std::set<pid_t> timed;  ///< the threads that wait until a time.
  bool held = false;      ///< a timer of the kernel's runs, unless its process is dead.
  /// When a further thread must learn what was skipped, from now; the greatest value: never.
  std::int64_t stale_in_ns = std::numeric_limits<std::int64_t>::max();

  std::vector<SeenWait> to_wake, to_signal;  ///< they must learn now what was skipped.
  std::vector<SeenWait> to_check;            ///< to free if the thread is dead.
  std::vector<SeenWait> to_free;             ///< timers that have ended.
};

/// Plans by the waits of all threads, the node's time and the pace of its host. It is a pure
/// function; docs/design/shared-clock.md has the rules.
[[nodiscard]] SkipPlan plan_skip(std::span<const SeenWait> waits, std::int64_t now_ns,
                                 std::uint64_t skipped_us, const sim::HostPace& pace);

}  // namespace gpemu::skip
