// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/calibrate/step_times.hpp"
#include "gpemu/cost/operation_time.hpp"
#include "gpemu/profile/database.hpp"
#include "gpemu/step/host_times.hpp"
#include "gpemu/step/recording.hpp"

namespace gpemu::calibrate {

/// The recordings of several models at several batches, in the form that fits need.
struct JoinedRecordings {
  std::vector<std::string> models;
  std::vector<int> batches;
  std::vector<step::RecordedOperation> operations;  ///< of all models.
  std::vector<std::vector<Phase>> steps;            ///< by model; forward, then backward.
};

/// Batches at which models are compared with measurements.
inline constexpr auto kBatches =
    std::to_array<int>({1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256});

/// Joins recordings, each of one model with the phases "forward" and "backward".
///
/// Errors: kInvalidArgument for a recording without them, or for a model that occurs twice.
[[nodiscard]] Result<JoinedRecordings> join(std::span<const step::Recording> recordings,
                                            std::span<const int> batches = kBatches);

using step::host_cost;

/// The host's parameters, for StepTimes.
[[nodiscard]] HostParameters host_parameters();

/// Prices recorded operations on one GPU by cost::operation_seconds().
class RecordedTimes final : public OperationTimes {
 public:
  RecordedTimes(const JoinedRecordings& recorded, const profile::GpuSpec& spec);

  [[nodiscard]] int operations() const override { return operations_; }
  [[nodiscard]] int batches() const override { return batches_; }
  void price(std::span<const double> logarithms, std::span<double> seconds,
             std::span<Slopes> slopes) const override;

 private:
  int operations_, batches_;
  cost::GpuRates rates_;
  std::vector<cost::OperationWork> works_;  ///< (operations, batches)
};

/// Returns the steps of the recorded models that were measured on a GPU, or lie between measured
/// batches. Models that were not measured are left out, and all of a GPU that was measured at
/// several precisions.
///
/// Errors: those of reading the database.
[[nodiscard]] Result<std::vector<StepTime>> measured_steps(const JoinedRecordings& recorded,
                                                           const profile::Database& database,
                                                           std::string_view gpu);

}  // namespace gpemu::calibrate
