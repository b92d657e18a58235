// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "gpemu/base/saturate.hpp"

#include "launch_policy.hpp"
#include "solo_rate.hpp"

namespace gpemu::device {
namespace {

/// AntMan (OSDI 2020): an opportunistic job launches kernels while the guaranteed job leaves the
/// GPU idle. Idle time is inserted before them, and becomes longer as long as the mini-batches of
/// the guaranteed job take longer than alone.
class AntMan final : public LaunchPolicy {
 public:
  explicit AntMan(const TimeSliceRules& rules)
      : first_wait_(std::max(rules.context_switch, kTick)) {}

  TimePoint launch_from(const LaunchView& view, const KernelLaunch& /*kernel*/) override {
    if (rate_.update(view.now, view.queued) && rate_.is_measured()) adjust();
    if (!rate_.is_measured()) return std::max(rate_.period_end(), view.now + kLook);
    if (view.running) return std::max(view.next_change, view.now + Duration(1));
    if (const TimePoint from = saturating_add(view.idle_from, wait_); from > view.now) return from;
    // What is launched cannot be called back when the guaranteed job returns.
    if (view.in_flight > kMostInFlight) return view.now + (view.in_flight - kMostInFlight);
    return view.now;
  }

 private:
  /// The slow-down that is tolerated. Source: as SoloRate, whose measurements are no better.
  static constexpr double kTolerance = 0.03;
  /// gpemu's own: some kernels, so that the GPU does not wait for the host of the opportunistic
  /// job.
  static constexpr Duration kMostInFlight = std::chrono::microseconds(200);
  /// How often it looks whether a period ends that is overdue.
  static constexpr Duration kLook = std::chrono::milliseconds(1);
  static constexpr Duration kTick = std::chrono::microseconds(10);
  static constexpr Duration kLongestWait = std::chrono::milliseconds(100);

  void adjust() {
    if (rate_.loss() > kTolerance && !rate_.is_idle()) {
      wait_ = std::min(std::max(2 * wait_, first_wait_), kLongestWait);
    } else {
      wait_ -= wait_ / 8;
    }
  }

  Duration first_wait_;
  SoloRate rate_;
  Duration wait_{};  ///< how long the guaranteed job must have been idle.
};

}  // namespace

std::unique_ptr<LaunchPolicy> make_antman(const TimeSliceRules& rules) {
  return std::make_unique<AntMan>(rules);
}

}  // namespace gpemu::device
