// SPDX-License-Identifier: Apache-2.0
#include "gpemu/calibrate/fit.hpp"

#include <algorithm>
#include <ceres/ceres.h>
#include <ceres/evaluation_callback.h>
#include <cmath>
#include <future>
#include <ranges>

namespace gpemu::calibrate {
namespace {

/// Compares all of a GPU's measurements at once, when Ceres asks for the first of them.
class Comparison final : public ceres::EvaluationCallback {
 public:
  Comparison(const Measurements& gpu, std::span<const double> logarithms)
      : gpu_(gpu),
        logarithms_(logarithms),
        residuals_(gpu.count()),
        derivatives_(residuals_.size() * logarithms.size()) {}

  void PrepareForEvaluation(bool with_derivatives, bool new_point) override {
    if (!new_point && (derivatives_hold_ || !with_derivatives)) return;
    gpu_.compare(logarithms_, residuals_,
                 with_derivatives ? std::span<double>(derivatives_) : std::span<double>());
    derivatives_hold_ = with_derivatives;
  }

  [[nodiscard]] double residual(int index) const { return residuals_[index]; }
  [[nodiscard]] std::span<const double> derivatives(int index) const {
    return std::span(derivatives_).subspan(index * logarithms_.size(), logarithms_.size());
  }
  [[nodiscard]] bool is_finite() const {
    return std::ranges::all_of(residuals_, [](double value) { return std::isfinite(value); });
  }

 private:
  const Measurements& gpu_;
  std::span<const double> logarithms_;
  std::vector<double> residuals_, derivatives_;
  bool derivatives_hold_ = false;
};

/// One measurement's residual, in units of the expected noise.
class Residual final : public ceres::CostFunction {
 public:
  Residual(const Comparison& comparison, int index, int parameters, double noise)
      : comparison_(comparison), index_(index), noise_(noise) {
    set_num_residuals(1);
    mutable_parameter_block_sizes()->push_back(parameters);
  }

  bool Evaluate(const double* const* /*parameters*/, double* residuals,
                double** jacobians) const override {
    residuals[0] = comparison_.residual(index_) / noise_;
    if (jacobians != nullptr && jacobians[0] != nullptr) {
      std::ranges::transform(comparison_.derivatives(index_), jacobians[0],
                             [&](double value) { return value / noise_; });
    }
    return std::isfinite(residuals[0]);
  }

 private:
  const Comparison& comparison_;
  int index_;
  double noise_;
};

/// The distance of the parameters from their expected values, in standard deviations.
class Expectation final : public ceres::CostFunction {
 public:
  Expectation(std::vector<double> center, std::vector<double> spread)
      : center_(std::move(center)), spread_(std::move(spread)) {
    set_num_residuals(static_cast<int>(center_.size()));
    mutable_parameter_block_sizes()->push_back(num_residuals());
  }

  bool Evaluate(const double* const* parameters, double* residuals,
                double** jacobians) const override {
    const std::size_t count = center_.size();
    for (std::size_t i = 0; i < count; ++i) {
      residuals[i] = (parameters[0][i] - center_[i]) / spread_[i];
    }
    if (jacobians != nullptr && jacobians[0] != nullptr) {
      std::fill_n(jacobians[0], count * count, 0.0);
      for (std::size_t i = 0; i < count; ++i) jacobians[0][i * count + i] = 1 / spread_[i];
    }
    return true;
  }

 private:
  std::vector<double> center_, spread_;
};

struct Task {
  std::span<const Parameter> parameters;
  const Measurements& gpu;
  std::vector<double> center;  ///< logarithms that are expected,
  std::vector<double> spread;  ///< and how far from there is one standard deviation.
  std::vector<int> fixed;      ///< indices of parameters that stay.
};

/// Returns the logarithms that fit best, from `start`.
Result<std::vector<double>> solve(const Task& task, std::vector<double> start,
                                  const FitOptions& options) {
  const int count = static_cast<int>(start.size());
  for (int i = 0; i < count; ++i) {
    start[i] =
        std::clamp(start[i], std::log(task.parameters[i].least), std::log(task.parameters[i].most));
  }
  std::vector<double> logarithms = start;
  Comparison comparison(task.gpu, logarithms);
  comparison.PrepareForEvaluation(false, true);
  if (!comparison.is_finite()) {
    return fail(ErrorCode::kInvalidArgument,
                "the model gives no number for a measurement at the starting parameters");
  }
  ceres::Problem::Options problem_options;
  problem_options.evaluation_callback = &comparison;
  problem_options.loss_function_ownership = ceres::DO_NOT_TAKE_OWNERSHIP;
  ceres::HuberLoss loss(options.outlier / options.noise);
  ceres::Problem problem(problem_options);
  problem.AddParameterBlock(logarithms.data(), count);
  for (int i = 0; i < task.gpu.count(); ++i) {
    problem.AddResidualBlock(new Residual(comparison, i, count, options.noise), &loss,
                             logarithms.data());
  }
  problem.AddResidualBlock(new Expectation(task.center, task.spread), nullptr, logarithms.data());
  for (int i = 0; i < count; ++i) {
    problem.SetParameterLowerBound(logarithms.data(), i, std::log(task.parameters[i].least));
    problem.SetParameterUpperBound(logarithms.data(), i, std::log(task.parameters[i].most));
  }
  if (!task.fixed.empty()) {
    problem.SetManifold(logarithms.data(), new ceres::SubsetManifold(count, task.fixed));
  }
  ceres::Solver::Options solver;
  solver.linear_solver_type = ceres::DENSE_QR;
  solver.max_num_iterations = 50;
  solver.function_tolerance = 1e-6;
  // When bounds cut a step short, Ceres searches along the rest, by default with derivatives, which
  // were most of the work.
  solver.line_search_interpolation_type = ceres::QUADRATIC;
  solver.max_num_line_search_step_size_iterations = 4;
  solver.num_threads = 1;
  solver.logging_type = ceres::SILENT;
  ceres::Solver::Summary summary;
  ceres::Solve(solver, &problem, &summary);
  if (!summary.IsSolutionUsable()) {
    return fail(ErrorCode::kInvalidArgument, "the fit found nothing: {}", summary.message);
  }
  return logarithms;
}

Result<void> check(std::span<const Parameter> parameters) {
  for (const Parameter& parameter : parameters) {
    const bool good = parameter.least > 0 && parameter.least < parameter.most &&
                      parameter.typical > 0 && parameter.shared_spread > 0 &&
                      parameter.own_spread > 0;
    if (!good) {
      return fail(ErrorCode::kInvalidArgument,
                  "parameter {}: 0 < least < most must hold, and the typical value and the spreads "
                  "must be above 0",
                  parameter.name);
    }
  }
  return {};
}

std::vector<double> of_each(std::span<const Parameter> parameters,
                            double (*value)(const Parameter&)) {
  std::vector<double> values;
  values.reserve(parameters.size());
  for (const Parameter& parameter : parameters) values.push_back(value(parameter));
  return values;
}

/// Returns the shared values, from the GPUs' values and the typical ones, each weighted by its
/// precision.
std::vector<double> shared_of(std::span<const Parameter> parameters,
                              const std::vector<std::vector<double>>& own) {
  std::vector<double> shared;
  shared.reserve(parameters.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& parameter = parameters[i];
    const double typical_weight = 1 / (parameter.shared_spread * parameter.shared_spread);
    const double own_weight = 1 / (parameter.own_spread * parameter.own_spread);
    double sum = typical_weight * std::log(parameter.typical);
    for (const std::vector<double>& gpu : own) sum += own_weight * gpu[i];
    shared.push_back(sum / (typical_weight + own_weight * static_cast<double>(own.size())));
  }
  return shared;
}

}  // namespace

Result<Fit> fit(std::span<const Parameter> parameters, std::span<const Measurements* const> gpus,
                const FitOptions& options) {
  GPEMU_TRY(check(parameters));
  Fit result;
  result.shared = of_each(parameters, [](const Parameter& p) { return std::log(p.typical); });
  result.own.assign(gpus.size(), result.shared);
  for (int round = 0; round < options.rounds; ++round) {
    // At first the shared values are not known: a GPU may be as far from typical as both spreads
    // together.
    const std::vector<double> spread =
        round == 0
            ? of_each(parameters,
                      [](const Parameter& p) { return std::hypot(p.shared_spread, p.own_spread); })
            : of_each(parameters, [](const Parameter& p) { return p.own_spread; });
    std::vector<std::future<Result<std::vector<double>>>> fits;
    fits.reserve(gpus.size());
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      fits.push_back(std::async(std::launch::async, [&, i] {
        return solve({parameters, *gpus[i], result.shared, spread, {}}, result.own[i], options);
      }));
    }
    std::vector<std::vector<double>> own;
    for (auto& pending : fits) pending.wait();  // They use local variables, even if one fails.
    for (auto& pending : fits) {
      GPEMU_ASSIGN(std::vector<double> logarithms, pending.get());
      own.push_back(std::move(logarithms));
    }
    result.own = std::move(own);
    result.shared = shared_of(parameters, result.own);
  }
  return result;
}

Result<std::vector<double>> refit(std::span<const Parameter> parameters, const Measurements& gpu,
                                  std::span<const double> logarithms, std::span<const int> chosen,
                                  const FitOptions& options) {
  GPEMU_TRY(check(parameters));
  std::vector<int> fixed;
  for (int i = 0; i < static_cast<int>(parameters.size()); ++i) {
    if (std::ranges::find(chosen, i) == chosen.end()) fixed.push_back(i);
  }
  std::vector<double> start(logarithms.begin(), logarithms.end());
  return solve(
      {parameters, gpu, start,
       of_each(parameters, [](const Parameter& p) { return p.shared_spread; }), std::move(fixed)},
      start, options);
}

}  // namespace gpemu::calibrate
