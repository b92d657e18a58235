// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "gpemu/base/units.hpp"
#include "gpemu/device/device.hpp"
#include "gpemu/device/node.hpp"
#include "gpemu/profile/fault_plan.hpp"
#include "gpemu/train/run_failure.hpp"
#include "gpemu/train/step_plan.hpp"

namespace gpemu::train {

/// What the faults of a node do to the GPUs of a run. That slow GPUs take longer is not among it:
/// their devices do so by themselves. Nothing at all for a node without faults.
class RunFaults {
 public:
  /// `devices`: of one node, which outlives this.
  RunFaults(const StepPlan& plan, std::span<device::Device* const> devices);

  /// Counts an exchange that all GPUs ask for at a time: faults may begin with it. What is queued
  /// already keeps its times.
  void count_exchange(TimePoint time);

  /// Returns what is left of the rate of the slowest link between GPUs of one machine.
  [[nodiscard]] double link_share(TimePoint now) const;

  /// Returns why GPUs cannot exchange anything at a time, because links are broken.
  [[nodiscard]] std::optional<RunFailure> broken_link(TimePoint now) const;

  /// Returns the first GPU that is killed or lost from one time up to before another.
  [[nodiscard]] std::optional<RunFailure> first_between(TimePoint from, TimePoint end) const;

 private:
  /// A fault that concerns a GPU of the run.
  struct Known {
    profile::Fault fault;
    int gpu = 0;   ///< in the run.
    int peer = 0;  ///< likewise, of a link: a GPU of the same machine at its other end.
  };

  const device::Node* node_ = nullptr;
  profile::GpuLink link_;
  std::vector<int> devices_;  ///< by GPU of the run: its index in the node.
  std::vector<Known> faults_;
};

}  // namespace gpemu::train
