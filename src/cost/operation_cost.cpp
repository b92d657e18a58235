// SPDX-License-Identifier: Apache-2.0
#include "gpemu/cost/operation_cost.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "gpemu/cost/operation_time.hpp"
#include "gpemu/cost/published_bars.hpp"
#include "gpemu/kernels/kernel_traits.hpp"

namespace gpemu::cost {
namespace {

/// Set by hand: for prices from datasheets alone, and for unknown work.
constexpr double kAnalyticError = 0.6;
constexpr double kUnknownWorkError = 1.0;

/// Returns whether measured steps contain this kind of operation, and its work is known.
bool is_fitted(gpemu_operation_kind kind) {
  switch (kind) {
    case GPEMU_OPERATION_MATMUL:
    case GPEMU_OPERATION_CONVOLUTION_FORWARD:
    case GPEMU_OPERATION_CONVOLUTION_BACKWARD_DATA:
    case GPEMU_OPERATION_CONVOLUTION_BACKWARD_FILTER:
    case GPEMU_OPERATION_NORMALIZATION_FORWARD:
    case GPEMU_OPERATION_NORMALIZATION_BACKWARD:
    case GPEMU_OPERATION_POOLING:
    case GPEMU_OPERATION_POOLING_BACKWARD:
    case GPEMU_OPERATION_ELEMENTWISE:
    case GPEMU_OPERATION_REDUCTION:
    case GPEMU_OPERATION_COPY_ON_DEVICE:
    case GPEMU_OPERATION_SET:
      return true;
    default:
      return false;
  }
}

bool is_product(const OperationWork& work) {
  return work.is<ConvolutionWork, GroupedConvolutionWork, MatmulWork, AttentionWork>();
}

/// Returns whether parameters for an attention kernel come from measured ones.
bool knows_attention(const profile::GpuSpec& spec) {
  return spec.calibration && spec.calibration->has_all_arithmetic() && spec.calibration->tf32;
}

/// Returns whether products were measured in this type's arithmetic: TF32 on tensor cores, FP32
/// without.
bool is_measured_type(const gpemu_operation& operation, const OperationWork& work) {
  const gpemu_data_type type =
      operation.compute_type == GPEMU_TYPE_UNKNOWN ? operation.type : operation.compute_type;
  return work.tensor_cores ? type == GPEMU_TYPE_TF32
                           : type != GPEMU_TYPE_FP64 && type != GPEMU_TYPE_COMPLEX128;
}

/// Returns whether numbers have 16 bits or less, in memory or in the arithmetic.
bool is_half(const gpemu_operation& operation) {
  const auto half = [](gpemu_data_type type) {
    return type == GPEMU_TYPE_FP16 || type == GPEMU_TYPE_BF16 || type == GPEMU_TYPE_FP8;
  };
  return half(operation.type) || half(operation.compute_type);
}

/// Returns the least bar for a price from parameters that published steps of this GPU gave.
double least_published_error(const OperationWork& work) {
  const auto* const grouped = work.as<GroupedConvolutionWork>();
  if (grouped != nullptr && grouped->direct) return kDirectBar;
  return work.is<DepthwiseConvolutionWork>() ? kDepthwiseBar : 0;
}

/// Returns the bar for a price from parameters that are not the GPU's own for this arithmetic.
/// Steps in the same arithmetic are off by `transferred` on other GPUs, and by `known` on the GPU
/// of the parameters, if that is not 0.
double transferred_bar(const gpemu_operation& operation, const OperationWork& work,
                       const profile::GpuSpec& spec, double transferred, double known) {
  const bool convolution = work.is_convolution();
  const auto at_least = [transferred](double bar) { return std::max(bar, transferred); };
  if (!is_half(operation)) {
    const bool fp32 = !work.tensor_cores && is_measured_type(operation, work);
    if (work.is<MatmulWork>() && fp32) return std::max(kOtherGpuProductBar, known);
    return convolution ? at_least(kOtherGpuConvolutionBar) : transferred;
  }
  const bool like_half = spec.calibration && spec.calibration->half;
  if (like_half) return at_least(std::max(kLikeHalfBar, least_published_error(work)));
  const profile::GenerationFacts& facts = spec.generation;
  if (const auto* const grouped = work.as<GroupedConvolutionWork>()) {
    return at_least(grouped->direct ? facts.half_direct_bar : facts.half_grouped_bar);
  }
  return at_least(convolution ? facts.half_convolution_bar : kHalfBar);
}

profile::GpuSpec with_multiprocessors(profile::GpuSpec spec) {
  spec.multiprocessors = std::max(spec.multiprocessors, 1);
  return spec;
}

}  // namespace

OperationCostModel::OperationCostModel(profile::GpuSpec spec)
    : spec_(with_multiprocessors(std::move(spec))), parameters_(arithmetic_parameters(spec_)) {}

const EvidencedParameters& OperationCostModel::parameters_for(const OperationWork& work) const {
  if (spec_.calibration && spec_.calibration->has_all_arithmetic()) {
    if (!work.depends_on_arithmetic() || work.half) return parameters_.half;
    return work.tensor_cores ? parameters_.tf32 : parameters_.other;
  }
  if (work.half) return parameters_.half;
  const bool depends = is_product(work) || (spec_.calibration && spec_.calibration->half &&
                                            work.is<DepthwiseConvolutionWork>());
  const bool measured = !depends || work.tensor_cores == parameters_.tensor_cores;
  return measured ? parameters_.own : parameters_.other;
}

double OperationCostModel::seconds_of(const OperationWork& work,
                                      const EvidencedParameters& parameters) const {
  const GpuRates rates = gpu_rates(spec_);
  return std::max(operation_seconds(work, rates, parameters.values.data()),
                  least_seconds(work, rates));
}

OperationCost OperationCostModel::price(const gpemu_operation& operation) const {
  return price(kernels::describe_operation(operation));
}

OperationCost OperationCostModel::price(const kernels::DescribedOperation& described) const {
  return price(described.operation, described.operation_class);
}

OperationCost OperationCostModel::price(const gpemu_operation& operation,
                                        kernels::OperationClass operation_class) const {
  const OperationWork work = operation_work(operation, operation_class, spec_);
  const EvidencedParameters& parameters = parameters_for(work);
  const bool fitted =
      is_fitted(operation.kind) || (work.is<AttentionWork>() && knows_attention(spec_));
  Evidence evidence = fitted ? parameters.evidence : Evidence::kAnalytic;
  const bool all = spec_.calibration && spec_.calibration->has_all_arithmetic();
  const bool half_only = spec_.calibration && spec_.calibration->half && !all;
  const bool other_type = work.depends_on_arithmetic() && !work.half &&
                          (half_only || !is_measured_type(operation, work));
  const bool own = evidence == Evidence::kCalibrated || evidence == Evidence::kPublished;
  if (own && (other_type || (is_half(operation) && !half_only && !all))) {
    evidence = Evidence::kTransferred;
  }
  const bool published = evidence == Evidence::kPublished;
  const double seconds = seconds_of(work, parameters);
  // Shapes come from programs; more than an hour makes no sense, and the ledger must not overflow.
  constexpr double kLongestSeconds = 3600;
  double error = kAnalyticError;
  if (published || evidence == Evidence::kCalibrated) {
    error = parameters.calibrated_error
                ? *parameters.calibrated_error
                : transferred_bar(operation, work, spec_, parameters.transferred_error, 0);
    if (published || all) error = std::max(error, least_published_error(work));
  }
  if (evidence == Evidence::kTransferred) {
    const double known = all ? parameters.calibrated_error.value_or(0) : 0;
    error = transferred_bar(operation, work, spec_, parameters.transferred_error, known);
  }
  double training_error = error;
  const bool of_others = evidence == Evidence::kTransferred || !parameters.calibrated_error;
  if (of_others && work.is<MatmulWork>() && !work.tensor_cores &&
      is_measured_type(operation, work) && !is_half(operation)) {
    training_error = std::max(error, kOtherGpuTrainedProductBar);
  }
  if (operation.kind == GPEMU_OPERATION_KERNEL) evidence = Evidence::kGuessed;
  if (operation.kind == GPEMU_OPERATION_KERNEL || operation.kind == GPEMU_OPERATION_OTHER) {
    error = training_error = kUnknownWorkError;
  }
  return {.estimate = {.time = from_seconds(seconds < kLongestSeconds ? seconds : kLongestSeconds),
                       .evidence = evidence,
                       .relative_error = error},
          .training_error = training_error,
          .operation_class = operation_class,
          .memory_share =
              seconds > 0 ? work.bytes / (spec_.memory_bandwidth_bytes_per_s * seconds) : 0};
}

Limit OperationCostModel::limit(const kernels::DescribedOperation& described) const {
  // Memory's part is the time that goes away without the bytes; latency is what remains without
  // bytes and arithmetic; the rest is compute.
  OperationWork part = operation_work(described, spec_);
  const EvidencedParameters& parameters = parameters_for(part);
  const double seconds = seconds_of(part, parameters);
  const GpuRates rates = gpu_rates(spec_);
  part.drop_bytes();
  const double memory = seconds - operation_seconds(part, rates, parameters.values.data());
  part.drop_arithmetic();
  const double latency = operation_seconds(part, rates, parameters.values.data());
  const double compute = seconds - memory - latency;
  if (latency >= std::max(compute, memory)) return Limit::kLatency;
  return compute >= memory ? Limit::kCompute : Limit::kMemory;
}

}  // namespace gpemu::cost
