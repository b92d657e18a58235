// SPDX-License-Identifier: Apache-2.0
#include "gpemu/calibrate/joined_recordings.hpp"

#include <algorithm>
#include <ceres/jet.h>
#include <cmath>

#include "gpemu/step/step_cost.hpp"

namespace gpemu::calibrate {
namespace {

using step::RecordedOperation;

constexpr int kParameters = cost::kOperationParameterCount;

/// Returns whether two operations take the same time, whatever their names.
bool are_alike(const RecordedOperation& one, const RecordedOperation& other) {
  return one.kind == other.kind && one.operation_class == other.operation_class &&
         one.type == other.type && one.compute_type == other.compute_type &&
         one.access == other.access && one.channels_last == other.channels_last &&
         one.shape == other.shape;
}

/// Adds new operations, and returns the index of each.
std::vector<int> add_operations(const std::vector<RecordedOperation>& added,
                                std::vector<RecordedOperation>& operations) {
  std::vector<int> indices;
  indices.reserve(added.size());
  for (const RecordedOperation& operation : added) {
    const auto found = std::ranges::find_if(
        operations, [&](const RecordedOperation& other) { return are_alike(operation, other); });
    indices.push_back(static_cast<int>(found - operations.begin()));
    if (found == operations.end()) operations.push_back(operation);
  }
  return indices;
}

}  // namespace

HostParameters host_parameters() {
  return {.scale = cost::kHostLaunch, .synchronise = {cost::kHostForward, cost::kHostBackward}};
}

Result<JoinedRecordings> join(std::span<const step::Recording> recordings,
                              std::span<const int> batches) {
  JoinedRecordings joined;
  joined.batches.assign(batches.begin(), batches.end());
  for (const step::Recording& recording : recordings) {
    if (std::ranges::find(joined.models, recording.model) != joined.models.end()) {
      return fail(ErrorCode::kInvalidArgument, "there are two recordings of {}", recording.model);
    }
    const std::vector<int> indices = add_operations(recording.operations, joined.operations);
    GPEMU_ASSIGN(std::vector<Phase> step, step::step_phases(recording));
    for (Phase& phase : step) {
      for (Launch& launch : phase) launch.operation = indices[launch.operation];
    }
    joined.models.push_back(recording.model);
    joined.steps.push_back(std::move(step));
  }
  return joined;
}

RecordedTimes::RecordedTimes(const JoinedRecordings& recorded, const profile::GpuSpec& spec)
    : operations_(static_cast<int>(recorded.operations.size())),
      batches_(static_cast<int>(recorded.batches.size())),
      rates_(cost::gpu_rates(spec)) {
  works_.reserve(recorded.operations.size() * recorded.batches.size());
  for (const RecordedOperation& operation : recorded.operations) {
    for (const int batch : recorded.batches) {
      works_.push_back(cost::operation_work(operation.at(batch), spec));
    }
  }
}

void RecordedTimes::price(std::span<const double> logarithms, std::span<double> seconds,
                          std::span<Slopes> slopes) const {
  std::array<double, kParameters> values{};
  std::ranges::transform(logarithms, values.begin(),
                         [](double logarithm) { return std::exp(logarithm); });
  if (slopes.empty()) {
    for (std::size_t i = 0; i < works_.size(); ++i) {
      seconds[i] = cost::operation_seconds(works_[i], rates_, values.data());
    }
    return;
  }
  // Of the parameters only those that an operation depends on have derivatives.
  using Jet = ceres::Jet<double, cost::kMostParameters>;
  std::array<Jet, kParameters> parameters;
  std::ranges::transform(values, parameters.begin(), [](double value) { return Jet(value); });
  for (std::size_t i = 0; i < works_.size(); ++i) {
    const cost::ParameterList list = cost::parameters_of(works_[i]);
    Slopes& slope = slopes[i];
    for (int j = 0; j < list.count; ++j) {
      slope.parameters[j] = list.indices[j];
      parameters[list.indices[j]].v[j] = values[list.indices[j]];  // By the logarithm.
    }
    const Jet time = cost::operation_seconds(works_[i], rates_, parameters.data());
    seconds[i] = time.a;
    std::copy_n(time.v.data(), slope.values.size(), slope.values.begin());
    for (int j = 0; j < list.count; ++j) parameters[list.indices[j]].v[j] = 0;
  }
}

Result<std::vector<StepTime>> measured_steps(const JoinedRecordings& recorded,
                                             const profile::Database& database,
                                             std::string_view gpu) {
  std::vector<StepTime> steps;
  for (std::size_t i = 0; i < recorded.models.size(); ++i) {
    GPEMU_ASSIGN(const std::vector<std::string> precisions,
                 database.precisions(recorded.models[i], gpu));
    if (precisions.empty()) continue;
    // Such a GPU has steps of its own, with what they ask for (calibrate_published()).
    if (precisions.size() > 1) return std::vector<StepTime>{};
    const auto model = step::StepCostModel::create(database, recorded.models[i], gpu);
    if (!model) {
      const bool unknown = model.error().code == ErrorCode::kNotFound ||
                           model.error().code == ErrorCode::kUnsupported;
      if (unknown) continue;
      return std::unexpected(model.error());
    }
    for (std::size_t j = 0; j < recorded.batches.size(); ++j) {
      const Result<step::StepCost> step = model->step(recorded.batches[j]);
      if (!step) continue;  // It does not fit.
      const auto known = [](const cost::Estimate& estimate) {
        return estimate.evidence <= cost::Evidence::kInterpolated;
      };
      if (!known(step->forward) || !known(step->backward_optimizer)) continue;
      steps.push_back({.step = static_cast<int>(i),
                       .batch = static_cast<int>(j),
                       .phase_seconds = {to_seconds(step->forward.time),
                                         to_seconds(step->backward_optimizer.time)}});
    }
  }
  return steps;
}

}  // namespace gpemu::calibrate
