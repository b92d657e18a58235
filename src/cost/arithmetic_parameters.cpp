// SPDX-License-Identifier: Apache-2.0
#include "gpemu/cost/arithmetic_parameters.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "gpemu/cost/operation_time.hpp"

namespace gpemu::cost {
namespace {

using profile::Calibration;

/// The bars if a GPU's file has none: the mean of the GPUs. Source: `gpemu cost eval
/// evidence/packs/gpemu-vldb25/operations`: for steps of model families outside the fit (15 to 30
/// %), and for steps of GPUs outside it. These are bars of whole steps, in which errors of
/// operations partly cancel out.
constexpr double kUnseenModelError = 0.2;
constexpr double kOtherGpuError = 0.16;
/// Shares of rates that memory and multiprocessors limit together: the rates grow with the root of
/// the bandwidth if the multiprocessors stay the same. Source: on an H200, which has 1.43 times the
/// bandwidth of an H100 and the same multiprocessors, they are 1.05 (softmax), 1.10, 1.24
/// (normalization, forward and backward), 1.26 (pooling) and 1.28 times as large; what only copies
/// or adds, 1.37 times (catalog/gpus/H100-SXM5-80GB.toml and H200-SXM-141GB.toml).
constexpr std::array kHalfMemory = {kNormalizationForward, kNormalizationBackward, kSoftmax,
                                    kPoolingBackward, kReduction};

/// Where GPUs have tensor cores for groups, these have other parameters: see direct_group_flops().
void forget_groups(const Calibration& from, const profile::GpuSpec& spec, EvidencedParameters& to) {
  if (from.generation.grouped_tensor_cores == spec.generation.grouped_tensor_cores) return;
  for (const int i : {kGroupedLastData, kGroupedLastFilter}) {
    to.values.at(i) = kOperationParameters.at(i).typical;
  }
}

void set_errors(std::optional<double> unseen_model, double other_gpu,
                EvidencedParameters& parameters) {
  parameters.calibrated_error = unseen_model;
  if (!unseen_model) return;
  // A program is none of the models that were measured, either.
  // Not std::hypot, which would need glibc 2.35 at run time; the rest needs 2.34.
  parameters.transferred_error = std::sqrt(*unseen_model * *unseen_model + other_gpu * other_gpu);
}

void set_errors_of(const std::optional<Calibration>& calibration, EvidencedParameters& parameters) {
  const bool known = calibration && calibration->bars;
  set_errors(known ? calibration->bars->unseen_model : kUnseenModelError,
             known ? calibration->bars->other_gpu : kOtherGpuError, parameters);
}

/// Those of the GPU's calibration, or typical ones.
EvidencedParameters own_parameters(const profile::GpuSpec& spec) {
  EvidencedParameters own;
  std::ranges::transform(kOperationParameters, own.values.begin(), &profile::Parameter::typical);
  set_errors_of(spec.calibration, own);
  if (!spec.calibration) return own;
  const Calibration& calibration = *spec.calibration;
  own.values = calibration.parameters;
  if (calibration.gpu == spec.name) {
    const bool published = calibration.half && !calibration.tf32;
    own.evidence = published ? Evidence::kPublished : Evidence::kCalibrated;
    return own;
  }
  own.evidence = Evidence::kTransferred;
  forget_groups(calibration, spec, own);
  if (!profile::has_same_capability(spec, calibration)) return own;
  const double factor = std::sqrt(calibration.bytes_per_clock / profile::bytes_per_clock(spec));
  for (const int i : kHalfMemory) own.values.at(i) = std::min(own.values.at(i) * factor, 1.0);
  return own;
}

/// Takes what depends on the arithmetic from another GPU's calibration.
void take_arithmetic(const Calibration& from, const profile::GpuSpec& spec,
                     EvidencedParameters& to) {
  set_errors_of(from, to);
  to.evidence = Evidence::kTransferred;
  const bool own_is_half = spec.calibration && spec.calibration->half;
  const int last = from.half || own_is_half ? kConvolutionLast : kGroupedFilter;
  for (int i = kConvolutionForward; i <= last; ++i) to.values.at(i) = from.parameters.at(i);
  for (const int i : {kDepth, kMatmul, kMatmulUnaligned, kAttentionForward, kAttentionBackward}) {
    to.values.at(i) = from.parameters.at(i);
  }
  forget_groups(from, spec, to);
}

/// Scales what was measured in 16 bits on one GPU for another one: tensor cores that could do more
/// wait for their operands.
void scale_to_operands(const Calibration& measured, const profile::GpuSpec& spec,
                       EvidencedParameters& half) {
  const double tensor_rate = profile::tensor_rate(spec);
  const profile::GenerationFacts& from = measured.generation;
  const profile::GenerationFacts& to = spec.generation;
  const double convolutions = (1 + measured.tensor_rate / from.convolution_operand_rate) /
                              (1 + tensor_rate / to.convolution_operand_rate);
  for (const int i : {kConvolutionForward, kConvolutionData, kConvolutionFilter}) {
    half.values.at(i) *= convolutions;
  }
  const double products =
      (1 + measured.tensor_rate / from.operand_rate) / (1 + tensor_rate / to.operand_rate);
  for (const int i : {kMatmul, kAttentionForward, kAttentionBackward}) {
    half.values.at(i) *= products;
  }
}

}  // namespace

ArithmeticParameters arithmetic_parameters(const profile::GpuSpec& spec) {
  const EvidencedParameters own = own_parameters(spec);
  ArithmeticParameters all{.own = own,
                           .other = own,
                           .half = own,
                           .tf32 = own,
                           .tensor_cores = spec.calibration && spec.calibration->tensor_cores};
  if (spec.calibration && spec.calibration->has_all_arithmetic()) {
    all.other.values = *spec.calibration->fp32;
    all.tf32.values = spec.calibration->tf32.value_or(all.other.values);
    if (const auto& bars = spec.calibration->bars) {
      set_errors(bars->fp32, bars->other_gpu, all.other);
      set_errors(bars->tf32, bars->other_gpu, all.tf32);
    }
    return all;
  }
  all.other.evidence = Evidence::kAnalytic;
  if (spec.other_arithmetic) take_arithmetic(*spec.other_arithmetic, spec, all.other);
  if (spec.half) {
    take_arithmetic(*spec.half, spec, all.half);
    all.half.values[kMatmulBandwidth] = spec.half->parameters[kMatmulBandwidth];
  }
  const bool own_is_half = spec.calibration && spec.calibration->half;
  if (own_is_half || spec.half) {
    scale_to_operands(own_is_half ? *spec.calibration : *spec.half, spec, all.half);
  } else {
    all.half = all.tensor_cores ? all.own : all.other;
  }
  return all;
}

}  // namespace gpemu::cost
