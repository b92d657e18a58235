// SPDX-License-Identifier: Apache-2.0
// Replaces fit.cpp if GPEMU_FIT is off: it refuses every fit.
#include "gpemu/calibrate/fit.hpp"

namespace gpemu::calibrate {
namespace {

std::unexpected<Error> no_solver() {
  return fail(ErrorCode::kUnsupported,
              "this gpemu was built without the Ceres solver, so it cannot fit; build it with "
              "`cmake -DGPEMU_FIT=ON`, as the preset dev does");
}

}  // namespace

Result<Fit> fit(std::span<const Parameter> /*parameters*/,
                std::span<const Measurements* const> /*gpus*/, const FitOptions& /*options*/) {
  return no_solver();
}

Result<std::vector<double>> refit(std::span<const Parameter> /*parameters*/,
                                  const Measurements& /*gpu*/,
                                  std::span<const double> /*logarithms*/,
                                  std::span<const int> /*chosen*/, const FitOptions& /*options*/) {
  return no_solver();
}

}  // namespace gpemu::calibrate
