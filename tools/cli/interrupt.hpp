// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <csignal>

namespace gpemu::tools {

/// While a guard exists, the first Ctrl-C or SIGTERM raises a flag instead of ending the process; a
/// second one ends it. At most one guard exists at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  ~InterruptGuard();

  [[nodiscard]] const std::atomic<bool>& flag() const;

 private:
  struct sigaction old_interrupt_{};
  struct sigaction old_terminate_{};
};

}  // namespace gpemu::tools
