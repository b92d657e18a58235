// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "gpemu/base/units.hpp"
#include "gpemu/train/trainer.hpp"

namespace gpemu::train {

/// Records what the engines and the host did, as a trace in Chrome's JSON format, which Perfetto
/// and chrome://tracing open. One process per GPU with a track per engine, one for the host.
///
/// Memory is bounded: once the text reaches its limit later steps are left out, and told.
/// Thread safety: none.
class TraceRecorder {
 public:
  static constexpr Bytes kDefaultMaxBytes = 64 * kMiB;

  explicit TraceRecorder(std::string gpu_name, Bytes max_bytes = kDefaultMaxBytes);

  void add(const ObservedStep& step);

  /// Returns how many steps were left out.
  [[nodiscard]] std::int64_t steps_left_out() const { return steps_left_out_; }

  /// Returns the whole trace. Units: microseconds since the first step's batch was asked for.
  /// `facts` is a JSON object that says how the run came about; `otherData.run` has it.
  [[nodiscard]] std::string json(std::string_view facts = "{}") const;

 private:
  struct Track;
  void name_tracks(int gpus);
  void add_interval(const Track& track, std::string_view name, const device::Interval& interval,
                    std::string_view arguments);

  std::string gpu_name_;
  Bytes max_bytes_;
  TimePoint origin_;
  std::string events_;
  std::int64_t steps_left_out_ = 0;
};

}  // namespace gpemu::train
