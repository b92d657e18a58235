// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <ctime>

#include "gpemu/base/units.hpp"
#include "gpemu/sim/clock.hpp"
#include "gpemu/sim/clock_page.hpp"

namespace gpemu::sim {

/// The clock of a node: the host's, faster if the page says that the node's host is slower, plus
/// the time that was skipped while all processes waited.
///
/// While no skipper runs, it behaves like a RealClock. The page shows a skipper until when threads
/// wait. The page outlives the clock. Thread safety: any thread.
class SharedClock final : public Clock {
 public:
  explicit SharedClock(ClockPage& page, Duration spin = RealClock::kDefaultSpin);

  [[nodiscard]] TimePoint now() const override;
  void wait_until(TimePoint deadline) override;
  void wait_for_change(const std::atomic<std::uint32_t>& word, std::uint32_t seen,
                       TimePoint deadline) override;
  [[nodiscard]] bool runs_by_itself() const override { return true; }
  [[nodiscard]] Duration lead() const override {
    return Duration(page_.pace.to_node(spin_.count()));
  }
  [[nodiscard]] Duration spun() const override {
    return Duration(spun_ns_.load(std::memory_order_relaxed));
  }

  /// Returns the host's CLOCK_MONOTONIC, also in a program whose time functions follow the page.
  [[nodiscard]] TimePoint host_now() const;

  [[nodiscard]] ClockPage& page() const { return page_; }

 private:
  void sleep_until(TimePoint time);
  [[nodiscard]] TimedWait* publish_wait(WaitKind kind, TimePoint until);

  ClockPage& page_;
  Duration spin_;
  int (*read_)(clockid_t, timespec*);
  std::atomic<std::int64_t> spun_ns_{0};
};

}  // namespace gpemu::sim
