// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "gpemu/calibrate/fit.hpp"
#include "gpemu/cost/operation_time.hpp"
#include "gpemu/step/phase_time.hpp"

namespace gpemu::calibrate {

using step::Launch;
using step::Phase;

/// Indices of the parameters of a host.
struct HostParameters {
  int scale = 0;  ///< the time of a launch in s if its host_cost is 1.
  /// The time to start a phase and to wait for the GPU at its end, in s; one per phase.
  std::vector<int> synchronise;
};

/// A time's derivatives with respect to the logarithms of the few parameters on which it depends.
struct Slopes {
  std::array<int, cost::kMostParameters> parameters{};  ///< their indices;
  std::array<double, cost::kMostParameters> values{};   ///< 0 beyond the last.
};

/// Prices operations on one GPU at several batches, with parameters.
class OperationTimes {
 public:
  virtual ~OperationTimes() = default;
  /// Returns how many operations and batches there are.
  [[nodiscard]] virtual int operations() const = 0;
  [[nodiscard]] virtual int batches() const = 0;
  /// Writes the time of each operation at each batch, in seconds, shape (operations, batches), and,
  /// unless `slopes` is empty, the derivatives, of the same shape.
  virtual void price(std::span<const double> logarithms, std::span<double> seconds,
                     std::span<Slopes> slopes) const = 0;
};

/// The measured times of a step's phases at one batch.
struct StepTime {
  int step = 0;   ///< index of the step.
  int batch = 0;  ///< index of the batch.
  std::vector<double> phase_seconds;
};

/// The measured steps of one GPU as a fit compares them: each phase and, if there are several, the
/// step as a whole.
class StepTimes final : public Measurements {
 public:
  /// `steps` has the phases of each step. Keeps references to `steps` and `times`.
  StepTimes(std::span<const std::vector<Phase>> steps, const OperationTimes& times,
            std::vector<StepTime> measured, HostParameters host);

  [[nodiscard]] int count() const override;
  void compare(std::span<const double> logarithms, std::span<double> residuals,
               std::span<double> derivatives) const override;

  /// Returns the predicted times of each measured step's phases, in seconds.
  [[nodiscard]] std::vector<std::vector<double>> predict(std::span<const double> logarithms) const;

  /// The same if one batch of some steps, `known`, was measured: step::scale_to() and
  /// step::corrected_seconds() correct their phases. `batches` has the samples of each batch.
  [[nodiscard]] std::vector<std::vector<double>> predict_from(std::span<const double> logarithms,
                                                              std::span<const StepTime> known,
                                                              std::span<const int> batches) const;

  [[nodiscard]] std::span<const StepTime> measured() const { return measured_; }

 private:
  struct Prices;
  struct Prediction;
  [[nodiscard]] Prices price(std::span<const double> logarithms, bool with_derivatives) const;
  [[nodiscard]] std::size_t configuration(const Launch& launch, int batch) const;
  [[nodiscard]] step::PhaseTimes phase_times(const StepTime& time, std::size_t index,
                                             const Prices& prices) const;
  [[nodiscard]] Prediction predict_phase(const StepTime& time, std::size_t index,
                                         const Prices& prices) const;

  std::span<const std::vector<Phase>> steps_;
  const OperationTimes& times_;
  std::vector<StepTime> measured_;
  HostParameters host_;
};

}  // namespace gpemu::calibrate
