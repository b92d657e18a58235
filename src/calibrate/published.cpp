// SPDX-License-Identifier: Apache-2.0
#include "gpemu/calibrate/published.hpp"

#include <algorithm>
#include <array>
#include <ceres/jet.h>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "gpemu/calibrate/coverage.hpp"
#include "gpemu/calibrate/fit.hpp"
#include "gpemu/calibrate/nearest_gpu.hpp"
#include "gpemu/cost/copy_cost.hpp"
#include "gpemu/cost/operation_cost.hpp"
#include "gpemu/cost/operation_time.hpp"
#include "gpemu/step/host_times.hpp"
#include "gpemu/step/listed_tensors.hpp"
#include "gpemu/step/phase_time.hpp"
#include "gpemu/step/step_bar.hpp"

namespace gpemu::calibrate {
namespace {

using step::PublishedStep;

/// The host's time to launch an operation once, in seconds.
struct LaunchTime {
  double forward = 0, backward = 0;
};

/// Returns the host's times to launch a step's operations. Their neighbours are not known, so that
/// biases that are added after convolutions count as operations of their own. What an optimizer
/// over lists costs depends on its tensors, in a host where that is known.
std::vector<LaunchTime> launch_times(const PublishedStep& step, const step::HostTimes& host) {
  step::ListedTensors listed;
  for (const auto& [operation, forward, backward] : step.operations) {
    listed.add(operation, forward + backward);
  }
  const std::optional<double> of_list = host.listed_launch(listed);
  std::vector<LaunchTime> times;
  for (const auto& [operation, forward, backward] : step.operations) {
    LaunchTime& time = times.emplace_back();
    if (step.is_operation) continue;
    if (of_list && operation.operation_class == kernels::OperationClass::kOptimizer) {
      time = {.forward = *of_list, .backward = *of_list};
      continue;
    }
    time = {.forward = host.launch(operation, {}, true),
            .backward = host.launch(operation, {}, false)};
  }
  return times;
}

/// Returns the host's time to launch a step, in seconds.
double host_seconds(const PublishedStep& step, std::span<const LaunchTime> launches) {
  double seconds = 0;
  for (std::size_t i = 0; i < launches.size(); ++i) {
    const auto& [operation, forward, backward] = step.operations[i];
    seconds += forward * launches[i].forward + backward * launches[i].backward;
  }
  return seconds;
}

/// Returns how long a step takes that finds the GPU idle, which runs each operation for `device`
/// seconds as soon as the host has launched it. Operations are in the order in which the step first
/// asks for them; those of the forward pass that it asks for again later come in the opposite order
/// then.
double queue_seconds(const PublishedStep& step, std::span<const LaunchTime> launches,
                     std::span<const double> device) {
  struct Part {
    double place = 0;  ///< in the step: below 1 in the forward pass.
    double launch = 0, device = 0;
    int count = 0;
  };
  double forwards = 0, backwards = 0;
  for (const auto& [operation, forward, backward] : step.operations) {
    forwards += forward;
    if (forward == 0) backwards += backward;
  }
  std::vector<Part> parts;
  double before_forward = 0, before_backward = 0;
  for (std::size_t i = 0; i < launches.size(); ++i) {
    const auto& [operation, forward, backward] = step.operations[i];
    const double place = forward > 0 ? before_forward / forwards : 0;
    if (forward > 0) parts.push_back({place, launches[i].forward, device[i], forward});
    if (backward > 0) {
      const double after = forward > 0 ? 1 - place : before_backward / backwards;
      parts.push_back({1 + after, launches[i].backward, device[i], backward});
    }
    before_forward += forward;
    if (forward == 0) before_backward += backward;
  }
  std::ranges::stable_sort(parts, {}, &Part::place);
  double rest = 0;
  for (const Part& part : parts) rest += part.count * part.device;
  // As step::phase_seconds(); between its first and its last operation, a part's sum is linear.
  double host = 0, longest = 0;
  for (const Part& part : parts) {
    longest = std::max(longest, host + part.launch + rest);
    host += part.count * part.launch;
    rest -= part.count * part.device;
    longest = std::max(longest, host + part.device + rest);
  }
  return longest;
}

std::optional<double> listed_tensor_of(const profile::GpuSpec& gpu) {
  return gpu.calibration ? gpu.calibration->listed_tensor : std::nullopt;
}

/// The time of the copy that a step waits for before its operations, in seconds.
double copy_seconds(const PublishedStep& step, const profile::GpuSpec& gpu) {
  if (step.copied == 0) return 0;
  const cost::CopyCost copy = cost::copy_cost(gpu);
  return to_seconds(copy.latency) +
         static_cast<double>(step.copied) / (gpu.pinned_copy_bytes_per_s * copy.pageable_share);
}

std::string part_of(const kernels::DescribedOperation& operation, const profile::GpuSpec& gpu) {
  const cost::OperationWork work = cost::operation_work(operation, gpu);
  if (work.is<cost::DepthwiseConvolutionWork>()) return "depthwise";
  if (const auto* const grouped = work.as<cost::GroupedConvolutionWork>()) {
    return grouped->direct ? "direct" : "grouped";
  }
  return std::string(kernels::kOperationClassNames.at(static_cast<int>(operation.operation_class)));
}

/// The parameters of a calibration that a fit chooses.
enum class Arithmetic : std::uint8_t {
  kAll,     ///< of all work, on a GPU whose calibration has those for one kind of arithmetic.
  kCommon,  ///< of work in 16 bits, and of what has no arithmetic.
  kTf32,    ///< of products, convolutions and attention.
  kFp32,
};

Arithmetic arithmetic_of(const cost::OperationWork& work) {
  if (!work.depends_on_arithmetic() || work.half) return Arithmetic::kCommon;
  return work.tensor_cores ? Arithmetic::kTf32 : Arithmetic::kFp32;
}

/// Steps that others measured differ in more than a model knows of: from here on, they count as
/// outliers. With 8, 15 and 25 %, steps that no fit uses are off by 7.2, 7.3 and 7.4 % (timm's on
/// an RTX 3090); with 8 %, single families are further off.
constexpr double kOutlier = 0.15;

/// What a single operation counts in a fit, beside a step: its conditions are simpler than those in
/// a step, and there are more of them.
constexpr double kOperationWeight = 0.5;

/// Published steps on one GPU, as far as they depend on parameters of some arithmetic.
class PublishedTimes final : public Measurements {
 public:
  PublishedTimes(const profile::GpuSpec& gpu, Arithmetic fitted)
      : rates_(cost::gpu_rates(gpu)), model_(gpu), fitted_(fitted) {}

  /// Adds a step unless too little of it depends on the parameters.
  void add(const PublishedStep& step, const profile::GpuSpec& gpu, double measured_seconds,
           double host_seconds) {
    Row row;
    row.measured = measured_seconds;
    row.host = host_seconds;
    row.copy = copy_seconds(step, gpu);
    row.weight = step.is_operation ? kOperationWeight : 1;
    double varied = 0;
    for (const auto& [operation, forward, backward] : step.operations) {
      const auto described = operation.at(1);
      const auto work = cost::operation_work(described, gpu);
      const double count = static_cast<double>(forward + backward);
      const bool varies = fitted_ == Arithmetic::kAll || fitted_ == arithmetic_of(work);
      if (varies) {
        row.works.push_back(
            {.work = work, .count = count, .least = cost::least_seconds(work, rates_)});
      }
      if (fitted_ == Arithmetic::kAll) continue;
      const double seconds = count * to_seconds(model_.price(described).estimate.time);
      (varies ? varied : row.constant) += seconds;
    }
    constexpr double kLittle = 0.3;
    const bool much = fitted_ == Arithmetic::kAll || varied > kLittle * (varied + row.constant);
    if (much) rows_.push_back(std::move(row));
  }

  [[nodiscard]] int count() const override { return static_cast<int>(rows_.size()); }
  [[nodiscard]] double weight(int index) const {
    return rows_[static_cast<std::size_t>(index)].weight;
  }

  void compare(std::span<const double> logarithms, std::span<double> residuals,
               std::span<double> derivatives) const override {
    std::array<double, cost::kOperationParameterCount> values{};
    std::ranges::transform(logarithms, values.begin(),
                           [](double logarithm) { return std::exp(logarithm); });
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const Row& row = rows_[i];
      std::span<double> slopes;
      if (!derivatives.empty())
        slopes =
            derivatives.subspan(i * cost::kOperationParameterCount, cost::kOperationParameterCount);
      std::ranges::fill(slopes, 0.0);
      const double device = device_seconds(row, values, slopes);
      const double predicted = row.copy + std::max(device, row.host);
      residuals[i] = row.weight * std::log(predicted / row.measured);
      for (double& slope : slopes) {
        slope = device < row.host ? 0 : row.weight * slope / predicted;
      }
    }
  }

 private:
  struct CountedWork {
    cost::OperationWork work;
    double count = 0;
    double least = 0;  ///< in seconds.
  };
  struct Row {
    double measured = 0, host = 0, copy = 0;
    double constant = 0;  ///< of operations that do not depend on the parameters, in seconds.
    double weight = 1;
    std::vector<CountedWork> works;
  };

  /// Returns the sum of the operations, and adds its derivatives to `slopes` unless that is empty.
  [[nodiscard]] double device_seconds(
      const Row& row, const std::array<double, cost::kOperationParameterCount>& values,
      std::span<double> slopes) const {
    using Jet = ceres::Jet<double, cost::kMostParameters>;
    std::array<Jet, cost::kOperationParameterCount> parameters;
    if (!slopes.empty()) {
      std::ranges::transform(values, parameters.begin(), [](double value) { return Jet(value); });
    }
    double sum = row.constant;
    for (const auto& [work, count, least] : row.works) {
      if (slopes.empty()) {
        sum += count * std::max(cost::operation_seconds(work, rates_, values.data()), least);
        continue;
      }
      const cost::ParameterList list = cost::parameters_of(work);
      for (int j = 0; j < list.count; ++j) {
        parameters[list.indices[j]].v[j] = values[list.indices[j]];
      }
      const Jet time = cost::operation_seconds(work, rates_, parameters.data());
      sum += count * std::max(time.a, least);
      for (int j = 0; j < list.count; ++j) {
        if (time.a > least) slopes[list.indices[j]] += count * time.v[j];
        parameters[list.indices[j]].v[j] = 0;
      }
    }
    return sum;
  }

  cost::GpuRates rates_;
  cost::OperationCostModel model_;
  Arithmetic fitted_;
  std::vector<Row> rows_;
};

}  // namespace

std::string_view published_family(std::string_view model) {
  constexpr std::array<std::string_view, 10> kPorts = {
      "gluon_", "tf_", "tv_", "swsl_", "ssl_", "ig_", "legacy_", "adv_", "ens_", "eca_"};
  for (const std::string_view port : kPorts) {
    if (model.starts_with(port)) model.remove_prefix(port.size());
  }
  const auto end = std::ranges::find_if(model, [](char c) { return c < 'a' || c > 'z'; });
  return model.substr(0, static_cast<std::size_t>(end - model.begin()));
}

bool is_held_out(std::string_view family) {
  std::uint64_t hash = 14695981039346656037U;  // FNV-1a.
  for (const char c : family) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return (hash >> 32) % 4 == 0;
}

double PublishedAnswer::miss() const {
  const double ratio = predicted_seconds / measured_seconds;
  return std::max(ratio, 1 / ratio) - 1;
}

Result<profile::GpuSpec> without_own_steps(
    profile::GpuSpec gpu, const std::function<Result<profile::GpuSpec>(std::string_view)>& find) {
  using Pair = std::pair<std::string_view, std::string_view>;
  constexpr std::string_view kA100 = "A100-SXM4-40GB", kH200 = "H200-SXM-141GB";
  constexpr std::string_view kH100 = "H100-SXM5-80GB";
  constexpr std::string_view kTitanRtx = "TITAN-RTX", k2080Ti = "RTX-2080-Ti";
  constexpr std::array kNearest = {Pair{kA100, kH200},       Pair{kH200, kH100},
                                   Pair{kH100, kH200},       Pair{profile::kHalfGpu, kA100},
                                   Pair{kTitanRtx, k2080Ti}, Pair{k2080Ti, kTitanRtx}};
  if (!gpu.calibration || gpu.calibration->gpu != gpu.name) return gpu;
  const auto found = std::ranges::find(kNearest, gpu.name, &Pair::first);
  const std::string_view nearest = found == kNearest.end() ? nearest_gpu(gpu.name) : found->second;
  if (nearest.empty()) return gpu;
  GPEMU_ASSIGN(profile::GpuSpec like, find(nearest));
  if (like.half && like.half->gpu == gpu.name) {
    GPEMU_ASSIGN(const profile::GpuSpec other, find(kH200));
    like.half = other.calibration;
  }
  profile::take_host(*gpu.calibration, *like.calibration);
  gpu.calibration = std::move(like.calibration);
  gpu.other_arithmetic = std::move(like.other_arithmetic);
  gpu.half = std::move(like.half);
  return gpu;
}

PublishedAnswer predict_published(const PublishedStep& step, const profile::GpuSpec& gpu) {
  const cost::OperationCostModel model(gpu);
  double busy = 0, slack = 0, unfitted = 0;
  std::vector<double> device;
  PublishedAnswer answer;
  for (const auto& [recorded, forward, backward] : step.operations) {
    const kernels::DescribedOperation operation = recorded.at(1);
    const cost::OperationCost cost = model.price(operation);
    const cost::Estimate& estimate = cost.estimate;
    device.push_back(to_seconds(estimate.time));
    const double seconds = (forward + backward) * device.back();
    busy += seconds;
    slack += seconds * (step.training ? cost.training_error : estimate.relative_error);
    const bool is_fitted = estimate.evidence != cost::Evidence::kAnalytic &&
                           estimate.evidence != cost::Evidence::kGuessed;
    if (!is_fitted) unfitted += seconds;
    answer.parts[part_of(operation, gpu)] += seconds;
  }
  const std::vector<LaunchTime> launches = launch_times(step, step::HostTimes(gpu));
  const double host = host_seconds(step, launches);
  const double copy = copy_seconds(step, gpu);
  if (copy > 0) answer.parts["copy from host"] = copy;
  // The host waits for the copy, so that the GPU has nothing to do then. Other programs ask for the
  // next step while the GPU works on this one: the slower of the two is never idle.
  const double seconds =
      copy + (copy > 0 ? queue_seconds(step, launches, device) : std::max(busy, host));
  for (auto& [name, part] : answer.parts) part /= seconds;
  answer.predicted_seconds = seconds;
  // The copy, and what the GPU and its host wait for each other, are assumed to err like the rest.
  const double mean = busy > 0 ? slack / busy : 0;
  answer.bar = step::bar_of_longer(
      {.time = busy, .bar = step.is_operation ? mean : step::bar_of_mixed(mean)},
      {.time = host, .bar = step::kHostError});
  answer.host_share = host / seconds;
  answer.busy_share = busy / seconds;
  answer.unfitted_share = unfitted / seconds;
  return answer;
}

std::unique_ptr<Measurements> operation_times(std::span<const step::PublishedStep> operations,
                                              const profile::GpuSpec& gpu) {
  auto times = std::make_unique<PublishedTimes>(gpu, Arithmetic::kAll);
  for (const step::PublishedStep& operation : operations) {
    for (const auto& [name, seconds] : operation.seconds) {
      if (name == gpu.name) times->add(operation, gpu, seconds, 0);
    }
  }
  return times;
}

namespace {

struct PublishedFit {
  std::span<const PublishedStep> steps;
  const std::function<bool(const PublishedStep&)>& chosen;
  std::map<std::string, int> models;
  int count = 0;
};

/// Fits the parameters of some arithmetic to the steps on a GPU, from those in its calibration.
Result<profile::OperationParameters> fit_parameters(PublishedFit& fit, const profile::GpuSpec& gpu,
                                                    Arithmetic arithmetic,
                                                    const profile::OperationParameters& start,
                                                    double* error) {
  PublishedTimes times(gpu, arithmetic);
  for (const PublishedStep& step : fit.steps) {
    const auto time =
        std::ranges::find(step.seconds, gpu.name, &decltype(step.seconds)::value_type::first);
    if (time == step.seconds.end() || !fit.chosen(step)) continue;
    if (arithmetic == Arithmetic::kAll && step.precision == "fp32") continue;
    const int before = times.count();
    times.add(
        step, gpu, time->second,
        host_seconds(step, launch_times(step, step::HostTimes(start, listed_tensor_of(gpu)))));
    if (times.count() > before && !step.is_operation) {
      ++fit.models[step.model];
      ++fit.count;
    }
  }
  if (times.count() == 0) {
    return fail(ErrorCode::kNotFound, "no published step of this arithmetic ran on {}", gpu.name);
  }
  // How far the GPU may be from the measured one: as one GPU from all; and as these from typical if
  // that one was not measured in this arithmetic.
  std::vector<profile::Parameter> parameters(cost::kOperationParameters.begin(),
                                             cost::kOperationParameters.end());
  for (profile::Parameter& parameter : parameters) {
    // Not std::hypot, which would need glibc 2.35 at run time; the rest needs 2.34.
    const double both = std::sqrt(parameter.shared_spread * parameter.shared_spread +
                                  parameter.own_spread * parameter.own_spread);
    parameter.shared_spread = gpu.tf32_tensor_flops ? both : parameter.own_spread;
  }
  const bool products = arithmetic == Arithmetic::kTf32 || arithmetic == Arithmetic::kFp32;
  std::vector<int> chosen(static_cast<std::size_t>(products ? profile::kFirstCommonParameter
                                                            : profile::kFirstHostParameter));
  std::iota(chosen.begin(), chosen.end(), 0);
  std::vector<double> logarithms;
  for (const double value : start) logarithms.push_back(std::log(value));
  GPEMU_ASSIGN(const std::vector<double> fitted,
               refit(parameters, times, logarithms, chosen, {.outlier = kOutlier}));
  profile::OperationParameters result{};
  std::ranges::transform(fitted, result.begin(),
                         [](double logarithm) { return std::exp(logarithm); });
  std::vector<double> residuals(static_cast<std::size_t>(times.count()));
  times.compare(fitted, residuals, {});
  *error = 0;
  for (int i = 0; i < times.count(); ++i) {
    *error += std::abs(std::exp(residuals[static_cast<std::size_t>(i)] / times.weight(i)) - 1) /
              times.count();
  }
  return result;
}

}  // namespace

Result<profile::GpuSpec> start_of_fit(
    const profile::GpuSpec& gpu,
    const std::function<Result<profile::GpuSpec>(std::string_view)>& find) {
  const auto calibrated = [&](std::string_view name) -> Result<profile::GpuSpec> {
    GPEMU_ASSIGN(profile::GpuSpec found, find(name));
    if (found.calibration) return found;
    return fail(ErrorCode::kNotFound, "{} has no parameters to start from", name);
  };
  const std::string_view of_generation = gpu.generation.fit_start;
  std::string_view expected = gpu.tf32_tensor_flops ? "A100-SXM4-40GB" : "Quadro-RTX-6000";
  if (!of_generation.empty() && gpu.name != of_generation) expected = of_generation;
  GPEMU_ASSIGN(profile::GpuSpec start, calibrated(expected));
  profile::Calibration& calibration = *start.calibration;
  if (!gpu.tf32_tensor_flops) {
    GPEMU_ASSIGN(const profile::GpuSpec half, calibrated(profile::kHalfGpu));
    calibration.fp32 = calibration.parameters;
    std::copy_n(half.calibration->parameters.begin(), profile::kFirstCommonParameter,
                calibration.parameters.begin());
  }
  if (gpu.calibration && gpu.calibration->gpu == gpu.name) {
    profile::take_host(*gpu.calibration, calibration);
  }
  return start;
}

Result<profile::Calibration> calibrate_published(
    std::span<const PublishedStep> steps, profile::GpuSpec gpu, const profile::Calibration& start,
    const std::function<bool(const PublishedStep&)>& chosen) {
  profile::Calibration calibration = start;
  calibration.gpu = gpu.name;
  calibration.other_host = false;
  calibration.tensor_cores = calibration.half = true;
  calibration.tensor_rate = profile::tensor_rate(gpu);
  calibration.compute_capability = profile::compute_capability(gpu);
  calibration.bytes_per_clock = profile::bytes_per_clock(gpu);
  calibration.generation = gpu.generation;
  const auto ran = [&](bool half) {
    return std::ranges::any_of(steps, [&](const PublishedStep& step) {
      const bool is_half = step.precision != "fp32" && step.precision != "tf32";
      return is_half == half &&
             std::ranges::find(step.seconds, gpu.name,
                               &decltype(step.seconds)::value_type::first) != step.seconds.end();
    });
  };
  if (!ran(true)) {
    return fail(ErrorCode::kNotFound, "no published step in 16 bits ran on {}", gpu.name);
  }
  // Where something was measured in FP32, all kinds of arithmetic were that the GPU has.
  const bool all = ran(false);
  PublishedFit fit{.steps = steps, .chosen = chosen};
  if (!all) {
    gpu.calibration = calibration;
    GPEMU_ASSIGN(calibration.parameters,
                 fit_parameters(fit, gpu, Arithmetic::kAll, start.parameters, &calibration.error));
  } else {
    if (!gpu.tf32_tensor_flops) {
      calibration.tf32.reset();
    } else if (!calibration.tf32) {
      calibration.tf32 = start.parameters;
    }
    if (!calibration.fp32) calibration.fp32 = start.parameters;
    gpu.calibration = calibration;
    double ignored = 0;
    GPEMU_ASSIGN(calibration.parameters, fit_parameters(fit, gpu, Arithmetic::kCommon,
                                                        start.parameters, &calibration.error));
    const auto with_common = [&](profile::OperationParameters products) {
      std::copy(calibration.parameters.begin() + profile::kFirstCommonParameter,
                calibration.parameters.end(), products.begin() + profile::kFirstCommonParameter);
      return products;
    };
    if (calibration.tf32) calibration.tf32 = with_common(*calibration.tf32);
    calibration.fp32 = with_common(*calibration.fp32);
    gpu.calibration = calibration;
    GPEMU_ASSIGN(calibration.fp32,
                 fit_parameters(fit, gpu, Arithmetic::kFp32, *calibration.fp32, &ignored));
    if (calibration.tf32) {
      gpu.calibration = calibration;
      GPEMU_ASSIGN(calibration.tf32,
                   fit_parameters(fit, gpu, Arithmetic::kTf32, *calibration.tf32, &ignored));
    }
  }
  calibration.models = std::max(static_cast<int>(fit.models.size()), 1);
  calibration.steps = std::max(fit.count, 1);
  return calibration;
}

namespace {

/// Returns the time that a step took on a GPU, or null if it did not run there.
const double* seconds_on(const PublishedStep& step, std::string_view gpu) {
  const auto found =
      std::ranges::find(step.seconds, gpu, &decltype(step.seconds)::value_type::first);
  return found == step.seconds.end() || step.is_operation ? nullptr : &found->second;
}

/// Returns in which arithmetic a step ran on a GPU: kCommon is 16 bits. Programs that ask for FP32
/// have TF32 where their products were recorded so and the GPU has it.
Arithmetic arithmetic_of(const PublishedStep& step, const profile::GpuSpec& gpu) {
  if (step.precision != "fp32" && step.precision != "tf32") return Arithmetic::kCommon;
  const bool asks = std::ranges::any_of(step.operations, [](const auto& counted) {
    return counted.operation.compute_type == GPEMU_TYPE_TF32;
  });
  return asks && gpu.tf32_tensor_flops ? Arithmetic::kTf32 : Arithmetic::kFp32;
}

/// Appends how far a step is off, unless its bar is that of its host or of work that has a bar of
/// its own.
void append_miss(const PublishedStep& step, double seconds, const profile::GpuSpec& gpu,
                 std::vector<double>& misses) {
  constexpr double kLittle = 0.1;
  PublishedAnswer answer = predict_published(step, gpu);
  answer.measured_seconds = seconds;
  const bool host_may_limit = answer.host_share * (1 + step::kHostError) > answer.busy_share;
  if (!host_may_limit && answer.parts["direct"] + answer.unfitted_share < kLittle) {
    misses.push_back(answer.miss());
  }
}

/// Returns the bar of the steps in one arithmetic, or nothing if too few ran on the GPU.
Result<std::optional<double>> published_bar(std::span<const PublishedStep> steps,
                                            const profile::GpuSpec& gpu,
                                            const profile::Calibration& start,
                                            Arithmetic arithmetic) {
  std::map<std::string_view, std::vector<const PublishedStep*>> families;
  std::vector<double> misses;
  std::size_t count = 0;
  for (const PublishedStep& step : steps) {
    const double* const seconds = seconds_on(step, gpu.name);
    if (seconds == nullptr || arithmetic_of(step, gpu) != arithmetic) continue;
    const std::string_view family = published_family(step.model);
    families[family].push_back(&step);
    ++count;
    if (is_held_out(family)) append_miss(step, *seconds, gpu, misses);
  }
  const auto bar_or_nothing = [](std::vector<double> of) {
    const double bar = bar_of(std::move(of));
    return std::isfinite(bar) ? std::optional(bar) : std::nullopt;
  };
  if (const std::optional<double> bar = bar_or_nothing(misses)) return bar;
  // One family alone has no other that tells its parameters.
  if (families.size() == 1 || !bar_or_nothing(std::vector<double>(count))) return std::nullopt;
  misses.clear();
  for (const auto& [family, of_family] : families) {
    const auto is_other = [family](const PublishedStep& step) {
      return published_family(step.model) != family;
    };
    auto calibration = calibrate_published(steps, gpu, start, is_other);
    if (!calibration && calibration.error().code == ErrorCode::kNotFound) return std::nullopt;
    profile::GpuSpec without = gpu;
    GPEMU_ASSIGN(without.calibration, std::move(calibration));
    for (const PublishedStep* const step : of_family) {
      append_miss(*step, *seconds_on(*step, gpu.name), without, misses);
    }
  }
  return bar_or_nothing(std::move(misses));
}

}  // namespace

Result<profile::CalibrationBars> published_bars(std::span<const PublishedStep> steps,
                                                const profile::GpuSpec& gpu,
                                                const profile::Calibration& start) {
  GPEMU_ASSIGN(const std::optional<double> half,
               published_bar(steps, gpu, start, Arithmetic::kCommon));
  if (!half) {
    return fail(ErrorCode::kNotFound, "too few published steps in 16 bits ran on {} to tell a bar",
                gpu.name);
  }
  profile::CalibrationBars bars{.unseen_model = *half,
                                .known_batch = *half,
                                .other_gpu = start.bars ? start.bars->other_gpu : *half};
  if (gpu.calibration->tf32) {
    GPEMU_ASSIGN(bars.tf32, published_bar(steps, gpu, start, Arithmetic::kTf32));
  }
  if (gpu.calibration->fp32) {
    GPEMU_ASSIGN(bars.fp32, published_bar(steps, gpu, start, Arithmetic::kFp32));
  }
  return bars;
}

}  // namespace gpemu::calibrate
