// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/cost/shared_speed.hpp"
#include "gpemu/profile/pair_table.hpp"

namespace gpemu::calibrate {

using profile::MeasuredPair;
using profile::PairedJob;

/// The speeds of jobs beside each other on one GPU: log speed = constant + own(job) + other(job
/// beside) + models(its model, the model beside), fitted to measured pairs by least squares. Each
/// term but the first is drawn towards 0, the more the fewer pairs there are.
class JobFactors {
 public:
  /// Fits to the pairs of a GPU for which `is_used` holds, by their index. Deterministic.
  JobFactors(std::span<const MeasuredPair> pairs, std::string_view gpu,
             const std::vector<bool>& is_used);

  /// Returns the speed of a job beside another one. Nothing if there is no pair with one of them.
  [[nodiscard]] std::optional<double> speed(const PairedJob& job, const PairedJob& beside) const;
  /// Returns whether there is a pair with this job, and all such jobs by name.
  [[nodiscard]] bool knows(const PairedJob& job) const;
  [[nodiscard]] std::vector<std::string> jobs() const;
  /// Returns whether there is a pair of jobs of these models.
  [[nodiscard]] bool knows_models(const PairedJob& job, const PairedJob& beside) const;

 private:
  [[nodiscard]] std::size_t column(const std::string& term);

  std::map<std::string, std::size_t> columns_;  ///< by term.
  std::vector<double> values_;
};

/// A speed of a measured pair as predicted without that pair.
struct PredictedSpeed {
  std::size_t pair = 0;
  std::size_t job = 0;  ///< 0 or 1.
  double measured = 0, predicted = 0;
  double bar = 0;  ///< that of other pairs; as in cost::Estimate.

  /// As in PredictedStep.
  [[nodiscard]] double error() const { return predicted / measured - 1; }
  [[nodiscard]] double miss() const;
};

/// What is left out together when a pair is predicted.
enum class PairsOut : std::uint8_t {
  kThirds,  ///< a random third of the pairs of a GPU.
  kModels,  ///< all pairs of two models on a GPU.
};
inline constexpr std::array<std::string_view, 2> kPairsOutNames = {"a third of the pairs",
                                                                   "pairs of two models"};

/// Predicts each pair of a table from those of the same GPU that were not left out with it. Each
/// bar comes from the pairs that were left out at other times. `seed` decides which thirds.
/// Deterministic.
[[nodiscard]] std::vector<PredictedSpeed> evaluate_pairs(std::span<const MeasuredPair> pairs,
                                                         PairsOut protocol, std::uint64_t seed);

/// Returns the bar that evaluate_pairs() states for pairs of the given GPUs.
[[nodiscard]] double pairs_bar(std::span<const MeasuredPair> pairs,
                               std::span<const PredictedSpeed> predicted,
                               std::span<const std::string_view> gpus);

/// A job on a shared GPU: by the name under which it was measured, by its load, or by both.
struct SharingJob {
  PairedJob job;
  std::optional<cost::GpuLoad> load;
};

/// Returns the load that NVML's figures describe. Nothing if they are not known.
[[nodiscard]] std::optional<cost::GpuLoad> load_of(const PairedJob& job);

/// The speeds of two jobs on one GPU, by the best evidence: the pair was measured; both jobs were
/// measured on this GPU beside others (calibrated); or their loads are known (analytic).
class PairSpeeds {
 public:
  /// Fits to a table of measured pairs, and derives the bars from it.
  explicit PairSpeeds(std::vector<MeasuredPair> pairs);

  /// Returns the speed of `job` beside another one. `sharing` matters for loads only.
  ///
  /// Errors: kNotFound if nothing is known of them.
  [[nodiscard]] Result<cost::SpeedEstimate> speed(std::string_view gpu, const SharingJob& job,
                                                  const SharingJob& beside,
                                                  const cost::SharedGpu& sharing) const;

 private:
  /// What was measured on a GPU.
  struct Gpu {
    JobFactors factors;
    double measured_bar = 0;    ///< what measuring again may change: at most what the fit misses.
    double models_bar = 0;      ///< of jobs whose models were measured together.
    double new_models_bar = 0;  ///< of other jobs.
  };

  std::vector<MeasuredPair> pairs_;
  std::map<std::string, Gpu> gpus_;
};

}  // namespace gpemu::calibrate
