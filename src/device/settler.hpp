// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <thread>

#include "gpemu/sim/clock.hpp"

#include "schedule.hpp"
#include "segment.hpp"

namespace gpemu::device {

/// The thread of a process that settles its open rounds while its other threads compute.
class Settler {
 public:
  Settler(Schedule& schedule, Segment& segment, sim::Clock& clock);
  Settler(const Settler&) = delete;
  Settler& operator=(const Settler&) = delete;
  ~Settler();

  /// Returns the CPU time that the thread has used.
  [[nodiscard]] Duration cpu_time();

 private:
  void run();
  [[nodiscard]] Schedule::NextLook look(TimePoint now);

  Schedule& schedule_;
  layout::ProcessRecord& own_;
  sim::Clock& clock_;
  TimePoint looked_for_failures_{};
  std::atomic<bool> stops_{false};
  std::thread thread_;
};

}  // namespace gpemu::device
