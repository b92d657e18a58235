// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>

#include "gpemu/sim/clock.hpp"

#include "layout.hpp"
#include "schedule.hpp"

namespace gpemu::device {

/// The thread of a process that settles its open rounds while its other threads compute.
class Settler {
 public:
  /// Settles what is due, and returns when to look again. `has_rung`: whether another process has
  /// rung since the last look.
  using Look = std::function<Schedule::NextLook(TimePoint now, bool has_rung)>;

  /// Starts the thread. It also looks when the bell of `own`, the process's record, rings. After
  /// each look, it calls `rung`, if that is not null, without a lock.
  Settler(Look look, layout::ProcessRecord& own, sim::Clock& clock,
          std::function<void()> rung = nullptr);
  Settler(const Settler&) = delete;
  Settler& operator=(const Settler&) = delete;
  ~Settler();

  /// Returns the CPU time that the thread has used.
  [[nodiscard]] Duration cpu_time();

 private:
  /// `last`: the bell when the settler was made.
  void run(std::uint32_t last);

  Look look_;
  std::function<void()> rung_;
  layout::ProcessRecord& own_;
  sim::Clock& clock_;
  std::atomic<bool> stops_{false};
  std::thread thread_;
};

/// Returns a Settler's look at a schedule. While rounds are open, it checks every 20 ms whether the
/// missing parties live.
[[nodiscard]] Settler::Look look_at(Schedule& schedule);

}  // namespace gpemu::device
