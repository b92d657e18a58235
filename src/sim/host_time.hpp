// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ctime>
#include <sys/prctl.h>

#include "gpemu/base/units.hpp"

namespace gpemu::sim {

/// Returns a time as the kernel takes it.
[[nodiscard]] inline timespec to_timespec(TimePoint time) {
  const auto ns = to_ns(time);
  return {.tv_sec = static_cast<time_t>(ns / 1'000'000'000),
          .tv_nsec = static_cast<long>(ns % 1'000'000'000)};
}

/// Has the calling thread wake up on time: the default slack would make every sleep late by 50 us.
inline void minimise_timer_slack() {
  thread_local const bool done = ::prctl(PR_SET_TIMERSLACK, 1UL) == 0;
  static_cast<void>(done);
}

/// Keeps the processor until a time has come. The other thread of the core gets its share.
template <typename Clock>
void spin_until(const Clock& clock, TimePoint time) {
  while (clock.now() < time) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
}

}  // namespace gpemu::sim
