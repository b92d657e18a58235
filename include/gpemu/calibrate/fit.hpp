// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/profile/calibration.hpp"

namespace gpemu::calibrate {

using profile::Parameter;

/// The measurements on one GPU, and a model of them with parameters.
class Measurements {
 public:
  virtual ~Measurements() = default;

  /// Returns how many there are.
  [[nodiscard]] virtual int count() const = 0;

  /// Writes log(predicted / measured) of each to `residuals`, shape (count), and, unless
  /// `derivatives` is empty, the derivatives with respect to the parameters' logarithms, shape
  /// (count, parameters), row by row. `logarithms` has one entry per parameter.
  virtual void compare(std::span<const double> logarithms, std::span<double> residuals,
                       std::span<double> derivatives) const = 0;
};

/// Two kinds of measurements on one GPU, one after the other. Keeps references to them.
class JoinedMeasurements final : public Measurements {
 public:
  JoinedMeasurements(const Measurements& first, const Measurements& second)
      : first_(first), second_(second) {}

  [[nodiscard]] int count() const override { return first_.count() + second_.count(); }
  void compare(std::span<const double> logarithms, std::span<double> residuals,
               std::span<double> derivatives) const override {
    const auto rows = static_cast<std::size_t>(first_.count());
    const auto after = [](std::span<double> values, std::size_t count) {
      return values.empty() ? values : values.subspan(count);
    };
    first_.compare(logarithms, residuals, derivatives);
    second_.compare(logarithms, after(residuals, rows),
                    after(derivatives, rows * logarithms.size()));
  }

 private:
  const Measurements& first_;
  const Measurements& second_;
};

struct FitOptions {
  /// The expected standard deviation of a good model's residuals: it weighs the data against what
  /// is expected of the parameters.
  double noise = 0.05;
  /// Larger residuals count linearly instead of quadratically (Huber's loss).
  double outlier = 0.08;
  int rounds = 4;  ///< in each, first every GPU is fitted, then the shared values.
};

/// Logarithms of parameters, in the order of the parameters.
struct Fit {
  std::vector<double> shared;
  std::vector<std::vector<double>> own;  ///< one per GPU, in the order of the measurements.
};

/// Fits the parameters of several GPUs together: each GPU's parameters to its measurements and to
/// the shared values, the shared values to the GPUs' parameters and to the typical values. A GPU
/// without evidence for a parameter takes the shared value. Deterministic, whatever the number of
/// threads.
///
/// Errors: kInvalidArgument if a parameter's bounds or spreads make no sense, or if the model gives
/// a residual that is not a number for the typical values; kUnsupported if gpemu was built without
/// GPEMU_FIT.
[[nodiscard]] Result<Fit> fit(std::span<const Parameter> parameters,
                              std::span<const Measurements* const> gpus,
                              const FitOptions& options = {});

/// Fits only the parameters with the indices `chosen`, on one GPU, and keeps the others at
/// `logarithms`. The values in `logarithms` are also the expected ones. Errors: as fit().
[[nodiscard]] Result<std::vector<double>> refit(std::span<const Parameter> parameters,
                                                const Measurements& gpu,
                                                std::span<const double> logarithms,
                                                std::span<const int> chosen,
                                                const FitOptions& options = {});

}  // namespace gpemu::calibrate
