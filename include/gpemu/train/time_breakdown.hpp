// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "gpemu/base/units.hpp"
#include "gpemu/data/loader.hpp"
#include "gpemu/device/device.hpp"

namespace gpemu::train {

/// Where the time of one GPU went. The parts are disjoint and sum to the time accounted for.
struct TimeBreakdown {
  Duration compute{};        ///< forward, backward and optimizer.
  Duration communication{};  ///< exchanges with the other GPUs, and nothing of the above.
  Duration copy{};           ///< a copy of input runs, and nothing of the above.
  Duration fetch_wait{};     ///< idle, waiting for a batch: the share of reading files.
  Duration prep_wait{};      ///< idle, waiting for a batch: the share of decoding and transforming.
  Duration other{};  ///< idle for another reason: a slower GPU, another process, a late host.

  /// Exchanges beside computation. Not a part: it is in `compute`.
  Duration hidden_communication{};

  [[nodiscard]] Duration total() const {
    return compute + communication + copy + fetch_wait + prep_wait + other;
  }
  TimeBreakdown& operator+=(const TimeBreakdown& more);
  TimeBreakdown& operator-=(const TimeBreakdown& less);
  friend bool operator==(const TimeBreakdown&, const TimeBreakdown&) = default;
};

/// When the work of one step ran on one GPU. For missing work, start equals end.
struct GpuStep {
  device::Interval copy;
  std::vector<device::Interval> compute;  ///< in order, as the plan's parts that compute.
  /// When its engine worked on these, in order, without the times in which it worked for other
  /// processes.
  std::vector<device::Interval> turns;
};

/// Accounts for every moment of one GPU, step by step in the order in which they run.
///
/// A moment with several activities counts for the first of: compute, communication, copy, waiting
/// for a batch, other. Idle time between the parts of one step is other. Waiting is divided between
/// fetch and prep in proportion to the time that the workers spent on each for that batch. In
/// integer nanoseconds, the parts sum exactly to the time from the start to the end of the last
/// step.
class StallAccount {
 public:
  explicit StallAccount(TimePoint start) : start_(start), accounted_until_(start) {}

  /// Adds the time up to the end of a step and returns it. `exchanges` are those between the GPUs.
  /// `batch_wait` is when the host was waiting for the step's batch. Requires: steps in order; one
  /// stream of compute, one of exchanges.
  TimeBreakdown add_step(const GpuStep& step, std::span<const device::Interval> exchanges,
                         const device::Interval& batch_wait, const data::BatchWork& work);

  /// Adds idle time up to `end` if that is later than the last step.
  void finish(TimePoint end);

  [[nodiscard]] const TimeBreakdown& time() const { return time_; }
  [[nodiscard]] TimePoint start() const { return start_; }
  [[nodiscard]] TimePoint accounted_until() const { return accounted_until_; }

 private:
  TimePoint start_;
  TimePoint accounted_until_;
  TimeBreakdown time_;
};

}  // namespace gpemu::train
