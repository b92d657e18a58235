// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include "gpemu/base/units.hpp"
#include "gpemu/device/node_state.hpp"

#include "device_sharing.hpp"

namespace gpemu::device {

/// What a process that is held back sees of the processes of its device that are not.
struct LaunchView {
  TimePoint now{};
  /// What a kernel of theirs needs that the engine works on, or would if it were their turn;
  /// nothing while they want nothing.
  std::optional<KernelNeeds> running{};
  TimePoint next_change{};  ///< when that kernel ends, as far as is known, if there is one.
  TimePoint idle_from{};    ///< when their last kernel ended, if there is none.
  Duration queued{};        ///< what all kernels that they have ever queued take.
  Duration in_flight{};     ///< what the kernels take that this process has launched and that run.
};

/// When a process may launch its kernels, to the benefit of others on its device
/// (docs/design/launch-policies.md). Each process that is held back has an object of its own, which
/// it asks before each launch.
class LaunchPolicy {
 public:
  LaunchPolicy() = default;
  LaunchPolicy(const LaunchPolicy&) = delete;
  LaunchPolicy& operator=(const LaunchPolicy&) = delete;
  virtual ~LaunchPolicy() = default;

  /// Returns when a kernel may be launched: not after `view.now` if at once; else when to ask
  /// again.
  [[nodiscard]] virtual TimePoint launch_from(const LaunchView& view,
                                              const KernelLaunch& kernel) = 0;
  /// Notes that a kernel is launched, as launch_from() allowed.
  virtual void note_launch(const KernelLaunch& /*kernel*/) {}

  /// Returns whether kernels of all processes run side by side. Then the engine knows what each
  /// kernel needs, and prefers those of processes that are not held back.
  [[nodiscard]] virtual bool is_side_by_side() const { return false; }
};

/// Each in the file of its name. `rules`: of the node.
[[nodiscard]] std::unique_ptr<LaunchPolicy> make_antman(const TimeSliceRules& rules);
[[nodiscard]] std::unique_ptr<LaunchPolicy> make_tgs();
[[nodiscard]] std::unique_ptr<LaunchPolicy> make_orion();

/// Returns null if the policy holds no process back.
[[nodiscard]] std::unique_ptr<LaunchPolicy> make_launch_policy(SharingPolicy policy,
                                                               const TimeSliceRules& rules);

}  // namespace gpemu::device
