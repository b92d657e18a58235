// SPDX-License-Identifier: Apache-2.0
#include "gpemu/calibrate/evaluate.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <set>

#include "gpemu/calibrate/nearest_gpu.hpp"
#include "gpemu/calibrate/published.hpp"

namespace gpemu::calibrate {
namespace {

/// The batch at which the one-batch protocol knows a model, and how many groups of models are left
/// out in turn.
constexpr int kKnownBatch = 32;
constexpr int kGroups = 12;
/// The largest batch to which the host parameters of a left-out GPU are fitted.
constexpr int kHostBatch = 2;

using Rows = std::vector<StepTime>;

/// The GPUs, with the data that prices their steps.
class Bench {
 public:
  Bench(const JoinedRecordings& recorded, const std::vector<CalibratedGpu>& gpus)
      : recorded_(recorded), gpus_(gpus) {
    times_.reserve(gpus.size());
    for (const CalibratedGpu& gpu : gpus) {
      times_.emplace_back(recorded, gpu.spec);
      operations_.push_back(operation_times(gpu.operations, gpu.spec));
    }
  }

  [[nodiscard]] std::size_t size() const { return gpus_.size(); }
  [[nodiscard]] const JoinedRecordings& recorded() const { return recorded_; }
  [[nodiscard]] const CalibratedGpu& gpu(std::size_t index) const { return gpus_[index]; }
  [[nodiscard]] int batch_of(const StepTime& row) const { return recorded_.batches[row.batch]; }

  [[nodiscard]] StepTimes steps(std::size_t gpu, Rows rows) const {
    return {recorded_.steps, times_[gpu], std::move(rows), host_parameters()};
  }

  /// Returns the rows of a GPU that fit a condition.
  template <typename Condition>
  [[nodiscard]] Rows rows(std::size_t gpu, Condition condition) const {
    Rows chosen;
    std::ranges::copy_if(gpus_[gpu].measured, std::back_inserter(chosen), condition);
    return chosen;
  }

  /// Fits the GPUs of `indices` to their rows that fit a condition.
  template <typename Condition>
  [[nodiscard]] Result<Fit> fit_rows(const std::vector<std::size_t>& indices,
                                     Condition condition) const {
    std::vector<StepTimes> steps;
    std::vector<JoinedMeasurements> joined;
    std::vector<const Measurements*> measurements;
    steps.reserve(indices.size());
    joined.reserve(indices.size());
    for (const std::size_t gpu : indices) {
      steps.push_back(this->steps(gpu, rows(gpu, condition)));
      measurements.push_back(&joined.emplace_back(steps.back(), *operations_[gpu]));
    }
    return fit(cost::kOperationParameters, measurements);
  }

  [[nodiscard]] std::vector<PredictedStep> predict(std::size_t gpu, const Rows& rows,
                                                   std::span<const double> logarithms) const {
    return compared(gpu, rows, steps(gpu, rows).predict(logarithms));
  }

  /// The same if the steps of `known` are known, at most one for each model.
  [[nodiscard]] std::vector<PredictedStep> predict_from(std::size_t gpu, const Rows& rows,
                                                        std::span<const double> logarithms,
                                                        const Rows& known) const {
    return compared(gpu, rows, steps(gpu, rows).predict_from(logarithms, known, recorded_.batches));
  }

 private:
  [[nodiscard]] std::vector<PredictedStep> compared(
      std::size_t gpu, const Rows& rows, const std::vector<std::vector<double>>& predicted) const {
    std::vector<PredictedStep> steps;
    steps.reserve(rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      PredictedStep& step = steps.emplace_back();
      step.gpu = static_cast<int>(gpu);
      step.model = rows[i].step;
      step.batch = batch_of(rows[i]);
      std::ranges::copy(rows[i].phase_seconds, step.measured_seconds.begin());
      std::ranges::copy(predicted[i], step.predicted_seconds.begin());
    }
    return steps;
  }

  const JoinedRecordings& recorded_;
  const std::vector<CalibratedGpu>& gpus_;
  std::vector<RecordedTimes> times_;
  std::vector<std::unique_ptr<Measurements>> operations_;
};

std::vector<std::size_t> all_of(const Bench& bench) {
  std::vector<std::size_t> indices(bench.size());
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

void append(std::vector<PredictedStep>& to, const std::vector<PredictedStep>& steps) {
  to.insert(to.end(), steps.begin(), steps.end());
}

/// Fits without the rows that fit `held_out`, and predicts those, on all GPUs.
template <typename Condition>
Result<void> hold_out(const Bench& bench, Condition held_out, std::vector<PredictedStep>& to) {
  const auto kept = [&](const StepTime& row) { return !held_out(row); };
  GPEMU_ASSIGN(const Fit fit, bench.fit_rows(all_of(bench), kept));
  for (std::size_t gpu = 0; gpu < bench.size(); ++gpu) {
    append(to, bench.predict(gpu, bench.rows(gpu, held_out), fit.own[gpu]));
  }
  return {};
}

/// Fits without the models of a group, and predicts each at other batches from its known one.
template <typename Condition>
Result<void> know_one_batch(const Bench& bench, Condition in_group,
                            std::vector<PredictedStep>& to) {
  const auto kept = [&](const StepTime& row) { return !in_group(row); };
  GPEMU_ASSIGN(const Fit fit, bench.fit_rows(all_of(bench), kept));
  const auto is_known = [&](const StepTime& row) {
    return in_group(row) && bench.batch_of(row) == kKnownBatch;
  };
  const auto is_asked = [&](const StepTime& row) {
    return in_group(row) && bench.batch_of(row) != kKnownBatch;
  };
  for (std::size_t gpu = 0; gpu < bench.size(); ++gpu) {
    append(to, bench.predict_from(gpu, bench.rows(gpu, is_asked), fit.own[gpu],
                                  bench.rows(gpu, is_known)));
  }
  return {};
}

Result<void> leave_gpu_out(const Bench& bench, std::size_t left_out,
                           std::vector<PredictedStep>& to) {
  const std::string_view nearest = nearest_gpu(bench.gpu(left_out).spec.name);
  std::vector<std::size_t> others = all_of(bench);
  std::erase(others, left_out);
  const auto like = std::ranges::find_if(
      others, [&](std::size_t other) { return bench.gpu(other).spec.name == nearest; });
  if (like == others.end()) return {};  // Nothing is near.
  GPEMU_ASSIGN(const Fit fit, bench.fit_rows(others, [](const StepTime&) { return true; }));
  const std::vector<double>& start = fit.own[like - others.begin()];
  const auto is_small = [&](const StepTime& row) { return bench.batch_of(row) <= kHostBatch; };
  std::vector<int> host(cost::kOperationParameterCount - cost::kHostConvolution);
  std::iota(host.begin(), host.end(), static_cast<int>(cost::kHostConvolution));
  const StepTimes small = bench.steps(left_out, bench.rows(left_out, is_small));
  GPEMU_ASSIGN(const std::vector<double> logarithms,
               refit(cost::kOperationParameters, small, start, host));
  const Rows rows = bench.rows(left_out, [&](const StepTime& row) { return !is_small(row); });
  append(to, bench.predict(left_out, rows, logarithms));
  return {};
}

}  // namespace

double PredictedStep::error() const {
  return (predicted_seconds[0] + predicted_seconds[1]) /
             (measured_seconds[0] + measured_seconds[1]) -
         1;
}

double PredictedStep::miss() const {
  const double ratio = 1 + error();
  return std::max(ratio, 1 / ratio) - 1;
}

std::string_view family_of(std::string_view model) {
  return model.substr(0, model.find_first_of("0123456789_"));
}

Result<std::vector<PredictedStep>> evaluate(const JoinedRecordings& recorded,
                                            const std::vector<CalibratedGpu>& gpus,
                                            Protocol protocol,
                                            const std::function<void(int, int)>& progress) {
  const Bench bench(recorded, gpus);
  std::vector<PredictedStep> steps;
  const auto tell = [&](std::size_t done, std::size_t all) {
    if (progress) progress(static_cast<int>(done), static_cast<int>(all));
  };
  switch (protocol) {
    case Protocol::kInSample: {
      const auto every = [](const StepTime&) { return true; };
      GPEMU_ASSIGN(const Fit fit, bench.fit_rows(all_of(bench), every));
      for (std::size_t gpu = 0; gpu < bench.size(); ++gpu) {
        append(steps, bench.predict(gpu, gpus[gpu].measured, fit.own[gpu]));
      }
      tell(1, 1);
      break;
    }
    case Protocol::kFamilyOut: {
      std::set<std::string_view> families;
      for (const std::string& model : recorded.models) families.insert(family_of(model));
      std::size_t done = 0;
      for (const std::string_view family : families) {
        const auto held_out = [&](const StepTime& row) {
          return family_of(recorded.models[row.step]) == family;
        };
        GPEMU_TRY(hold_out(bench, held_out, steps));
        tell(++done, families.size());
      }
      break;
    }
    case Protocol::kGpuOut:
      for (std::size_t gpu = 0; gpu < bench.size(); ++gpu) {
        GPEMU_TRY(leave_gpu_out(bench, gpu, steps));
        tell(gpu + 1, bench.size());
      }
      break;
    case Protocol::kOneBatch: {
      const int groups = std::min(kGroups, static_cast<int>(recorded.models.size()));
      for (int group = 0; group < groups; ++group) {
        const auto in_group = [&](const StepTime& row) { return row.step % kGroups == group; };
        GPEMU_TRY(know_one_batch(bench, in_group, steps));
        tell(group + 1, groups);
      }
      break;
    }
  }
  return steps;
}

}  // namespace gpemu::calibrate
