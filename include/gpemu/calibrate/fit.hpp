// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/profile/calibration.hpp"

namespace gpemu::calibrate {

using profile::Parameter;

/// What was measured on one GPU, and a model of it with parameters.
class Measurements {
 public:
  virtual ~Measurements() = default;

  /// Returns how many there are.
  [[nodiscard]] virtual int count() const = 0;

  /// Writes log(predicted / measured) of each to `residuals`, shape (count), and unless
  /// `derivatives` is empty their derivatives by the parameters' logarithms, shape
  /// (count, parameters), row by row. `logarithms` has one entry per parameter.
  virtual void compare(std::span<const double> logarithms, std::span<double> residuals,
                       std::span<double> derivatives) const = 0;
};

struct FitOptions {
  /// Standard deviation of a residual that is expected of a good model: how much data counts
  /// against what is expected of the parameters.
  double noise = 0.05;
  /// Residuals beyond it count by their size and not by their square (Huber's loss).
  double outlier = 0.08;
  int rounds = 4;  ///< of fitting each GPU, then what they share.
};

/// Logarithms of parameters, in the order of the parameters.
struct Fit {
  std::vector<double> shared;
  std::vector<std::vector<double>> own;  ///< one per GPU, in the order of the measurements.
};

/// Fits the parameters of several GPUs together: each GPU's by its measurements and by what the
/// GPUs share, what they share by their values and by what is typical. A GPU without evidence for
/// a parameter takes the shared value. Deterministic; GPUs are fitted on as many threads as
/// the host has, which changes nothing.
///
/// Errors: kInvalidArgument when a parameter's bounds or spreads make no sense, or the model gives
/// a residual that is not a number for the typical values; kUnsupported when gpemu was built
/// without GPEMU_FIT.
[[nodiscard]] Result<Fit> fit(std::span<const Parameter> parameters,
                              std::span<const Measurements* const> gpus,
                              const FitOptions& options = {});

/// Fits only the parameters that `chosen` names by their indices, on one GPU, and keeps the others
/// at `logarithms`; each chosen one is expected where `logarithms` has it. Errors: as fit().
[[nodiscard]] Result<std::vector<double>> refit(std::span<const Parameter> parameters,
                                                const Measurements& gpu,
                                                std::span<const double> logarithms,
                                                std::span<const int> chosen,
                                                const FitOptions& options = {});

}  // namespace gpemu::calibrate
