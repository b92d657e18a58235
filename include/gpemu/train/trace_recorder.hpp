// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "gpemu/base/units.hpp"
#include "gpemu/train/step_plan.hpp"
#include "gpemu/train/trainer.hpp"

namespace gpemu::train {

/// Records the work of the engines and the host as a trace in Chrome's JSON format, which Perfetto
/// and chrome://tracing open. One process per device of the trainer, which may stand for several
/// GPUs, with a track per engine and, with several GPUs, one for their exchanges; and one process
/// for the host.
///
/// Memory is bounded: once the text reaches its limit, later steps are left out and counted. Thread
/// safety: none.
class TraceRecorder {
 public:
  static constexpr Bytes kDefaultMaxBytes = 64 * kMiB;

  TraceRecorder(std::string gpu_name, StepPlan plan, Bytes max_bytes = kDefaultMaxBytes);

  void add(const ObservedStep& step);

  /// Returns how many steps were left out.
  [[nodiscard]] std::int64_t steps_left_out() const { return steps_left_out_; }

  /// Returns the whole trace. Units: microseconds since the request for the first step's batch.
  /// `facts` is a JSON object that describes how the run was made; it goes to `otherData.run`.
  [[nodiscard]] std::string json(std::string_view facts = "{}") const;

 private:
  struct Track;
  void name_tracks(int devices);
  void add_parts(const ObservedStep& step, std::size_t device, std::string_view arguments);
  void add_interval(const Track& track, std::string_view name, const device::Interval& interval,
                    std::string_view arguments);

  std::string gpu_name_;
  StepPlan plan_;
  Bytes max_bytes_;
  TimePoint origin_;
  std::string events_;
  std::int64_t steps_left_out_ = 0;
};

}  // namespace gpemu::train
