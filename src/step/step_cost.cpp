// SPDX-License-Identifier: Apache-2.0
#include "gpemu/step/step_cost.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "gpemu/cost/published_bars.hpp"
#include "gpemu/step/step_bar.hpp"

#include "cost_curve.hpp"
#include "divided_step.hpp"
#include "priced_recording.hpp"

namespace gpemu::step {
namespace {

using profile::Curve;
using profile::MemoryLimit;
using profile::Quantity;

// Share of the memory that no allocator gets, if it was not calibrated: context, workspaces of
// cuDNN, fragmentation. Source: capacity less usable memory of the six GPUs of GPEmu (VLDB 2025,
// commit 27e9534) is 6.1 to 8.4 % of the capacity, on average 7 %. Of its 93 measured boundaries
// with measured peaks this rule misses half by less than 1.5 % of the batch and 19 % by more than 3
// %; the capacity alone misses all by more than 3 %.
constexpr double kUnusableShare = 0.07;

// Achieved rates on the same link differ by this much: 23.9 to 26.4 GB/s between eight RTX 4090 of
// one host (github.com/NVIDIA/nvbandwidth/issues/15), 25.1 to 26.2 between published A100. A copy
// across the sockets of the host can take three times as long, which is not modelled.
constexpr double kPinnedCopyError = 0.1;

// Peaks of one model and batch on two GPUs agree within 0.13 % in 9 of 10 cases. Source: all pairs
// of the six GPUs of GPEmu (VLDB 2025, commit 27e9534).
constexpr double kOtherGpuMemoryError = 0.002;

// The bar of the operation model if it was not evaluated; set by hand, like the bars of
// OperationCostModel.
constexpr double kUnknownBar = 0.6;

// Copies from pageable memory of the same batch on two of GPEmu's hosts differ by no more than this
// in 9 of 10 cases: all pairs of its six GPUs, batch 32 to 128 (VLDB 2025, commit 27e9534).
constexpr double kOtherHostCopyError = 1.0;

constexpr double kSampleElementBytes = sizeof(float);

Bytes from_mib(double mib) {
  return static_cast<Bytes>(std::llround(mib * static_cast<double>(kMiB)));
}

cost::Estimate to_estimate(const CostCurve::Value& value) {
  return {from_milliseconds(value.value), value.evidence, value.relative_error};
}

/// Up to which batch a model fits, and how much of the memory its peak may take.
struct MemoryFit {
  int largest_batch = 0;
  double usable_mib = 0;
};

/// If a batch was measured to run out of memory, that is the boundary, whatever the peaks say: the
/// libraries' workspaces differ between models by more than a batch.
MemoryFit fit_to_limit(const CostCurve& peak, double capacity_mib, int largest_measured) {
  // An edited specification may have less memory than the GPU that was measured.
  const int largest = std::min(largest_measured, peak.largest_batch_below(capacity_mib));
  if (largest == 0) return {0, capacity_mib};
  const double fits = peak.largest_up_to(largest);
  const double refused = peak.at(largest + 1).value;
  return {largest, std::clamp((fits + refused) / 2, fits, std::max(fits, capacity_mib))};
}

/// If every batch that was tried ran, the peak decides about larger ones.
MemoryFit fit_to_capacity(const CostCurve& peak, const profile::GpuSpec& gpu, double capacity_mib,
                          int largest_measured) {
  double usable_mib = gpu.usable_memory_bytes ? to_mib(*gpu.usable_memory_bytes)
                                              : capacity_mib * (1 - kUnusableShare);
  if (largest_measured > 0) {
    const double ran_mib = peak.largest_up_to(largest_measured);
    if (ran_mib <= capacity_mib) usable_mib = std::max(usable_mib, ran_mib);
  }
  return {peak.largest_batch_below(usable_mib), usable_mib};
}

Result<CostCurve> curve_of(const StepEvidence& known, Quantity quantity, const CurveTrend& trend) {
  const auto found = std::ranges::find_if(
      known.curves, [quantity](const Curve& curve) { return curve.key.quantity == quantity; });
  if (found == known.curves.end()) {
    return fail(ErrorCode::kUnsupported, "no {} of {} at {} was measured for {}",
                quantity_name(quantity), known.model.name, known.precision, known.gpu.name);
  }
  return CostCurve::create(*found, trend);
}

Result<void> check_records(const StepEvidence& known) {
  for (const int extent : known.model.input_shape) {
    if (extent < 1) {
      return fail(ErrorCode::kCorruptData, "model {} has no input shape", known.model.name);
    }
  }
  if (!known.limit) return {};
  const MemoryLimit& limit = *known.limit;
  if (limit.largest_batch_measured < 1 ||
      limit.first_batch_out_of_memory.value_or(limit.largest_batch_measured + 1) <=
          limit.largest_batch_measured) {
    return fail(ErrorCode::kCorruptData,
                "memory limit of {} on {} in pack {}: largest batch {}, first out of memory {}",
                limit.model, limit.gpu, limit.pack, limit.largest_batch_measured,
                limit.first_batch_out_of_memory.value_or(0));
  }
  return {};
}

std::string joined(const std::vector<std::string>& words) {
  return words.empty() ? "nothing" : fmt::format("{}", fmt::join(words, ", "));
}

/// Returns the precision at which PyTorch trains FP32 models on a GPU by default.
std::string default_precision(const profile::GpuSpec& gpu) {
  return gpu.tf32_tensor_flops ? "tf32" : "fp32";
}

/// Returns the precision to use, checked against the measurements or else the recording.
Result<std::string> choose_precision(const profile::Database& database, const StepEvidence& known,
                                     std::string_view asked) {
  const std::string& model = known.model.name;
  const std::string& gpu = known.gpu.name;
  GPEMU_ASSIGN(const std::vector<std::string> measured, database.precisions(model, gpu));
  if (measured.empty() && known.recording) {
    std::string precision = default_precision(known.gpu);
    if (asked.empty() || asked == precision) return precision;
    return fail(ErrorCode::kUnsupported,
                "{} was not measured on {}, and its recording runs there at {}, not {}", model, gpu,
                precision, asked);
  }
  if (measured.empty()) {
    std::vector<std::string> gpus;
    GPEMU_ASSIGN(const std::vector<profile::CurveKey> keys, database.curve_keys(model));
    for (const profile::CurveKey& key : keys) {
      if (std::ranges::find(gpus, key.gpu) == gpus.end()) gpus.push_back(key.gpu);
    }
    return fail(ErrorCode::kUnsupported, "{} was not measured on {}, only on: {}", model, gpu,
                joined(gpus));
  }
  if (asked.empty() && measured.size() == 1) return measured.front();
  if (asked.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "{} on {} was measured at several precisions; name one: {}", model, gpu,
                joined(measured));
  }
  if (std::ranges::find(measured, asked) == measured.end()) {
    return fail(ErrorCode::kUnsupported, "{} on {} was not measured at precision {}, only at: {}",
                model, gpu, asked, joined(measured));
  }
  return std::string(asked);
}

/// Returns the GPU with a link most like this one's of those on which a model's input copy was
/// measured; empty if it was on none.
Result<std::string> likest_link(const profile::Database& database, const StepEvidence& known) {
  GPEMU_ASSIGN(const std::vector<profile::CurveKey> keys, database.curve_keys(known.model.name));
  std::string likest;
  double least = std::numeric_limits<double>::infinity();
  for (const profile::CurveKey& key : keys) {
    if (key.quantity != Quantity::kInputCopyPageable || key.gpu == likest) continue;
    GPEMU_ASSIGN(const profile::GpuSpec gpu, database.gpu(key.gpu));
    const double distance =
        std::abs(std::log(gpu.pinned_copy_bytes_per_s / known.gpu.pinned_copy_bytes_per_s));
    if (!(distance < least)) continue;
    likest = key.gpu;
    least = distance;
  }
  return likest;
}

/// If no input copy was measured on this GPU, takes the one measured with the GPU whose parameters
/// this one uses, or else with the one whose link is most like this one's.
Result<void> borrow_copy(const profile::Database& database, StepEvidence& known) {
  constexpr Quantity kCopy = Quantity::kInputCopyPageable;
  const bool measured = std::ranges::any_of(
      known.curves, [](const Curve& curve) { return curve.key.quantity == kCopy; });
  if (measured || !known.recording) return {};
  if (!known.gpu.calibration) {
    return fail(ErrorCode::kUnsupported,
                "{} was not measured on {}, and the GPU's file does not say which GPU's parameters "
                "to use: add a table [calibration] with like = \"NAME\", the most similar GPU of "
                "`gpemu profile list`",
                known.model.name, known.gpu.name);
  }
  std::string gpu = known.gpu.calibration->gpu;
  GPEMU_ASSIGN(std::vector<std::string> precisions, database.precisions(known.model.name, gpu));
  if (precisions.empty()) {
    GPEMU_ASSIGN(gpu, likest_link(database, known));
    if (gpu.empty()) return {};
    GPEMU_ASSIGN(precisions, database.precisions(known.model.name, gpu));
  }
  GPEMU_ASSIGN(std::optional<Curve> curve,
               database.curve({known.model.name, gpu, precisions.front(), kCopy}));
  if (curve) known.curves.push_back(*std::move(curve));
  return {};
}

/// Returns the curve or, for memory, the best measured one of another GPU; nothing if there is
/// neither.
Result<std::optional<Curve>> find_curve(const profile::Database& database,
                                        const profile::CurveKey& key) {
  GPEMU_ASSIGN(std::optional<Curve> curve, database.curve(key));
  const bool is_memory =
      key.quantity == Quantity::kPeakMemory || key.quantity == Quantity::kPersistentMemory;
  if (!is_memory || (curve && curve->points.size() >= 2)) return curve;
  curve.reset();  // A single point does not show how memory grows.
  GPEMU_ASSIGN(const std::vector<profile::CurveKey> keys, database.curve_keys(key.model));
  for (const profile::CurveKey& other : keys) {
    if (other.quantity != key.quantity || other.precision != key.precision) continue;
    GPEMU_ASSIGN(std::optional<Curve> candidate, database.curve(other));
    if (!candidate || candidate->points.size() < 2) continue;
    const bool reaches_further =
        !curve || candidate->points.back().batch > curve->points.back().batch;
    if (reaches_further) curve = std::move(candidate);
  }
  return curve;
}

/// One of a step's phases: its measured curve, and the correction from its last measured batch.
struct PhaseCost {
  std::optional<CostCurve> curve;
  PhaseScale scale;
};

/// The evidence and the bars of the operation model's answers.
struct ModelEvidence {
  cost::Evidence evidence = cost::Evidence::kAnalytic;
  double bar = kUnknownBar;         ///< of a model that was not measured on the GPU,
  double scaled_bar = kUnknownBar;  ///< and of one that was, at other batches.
  bool of_device = false;           ///< `bar` is of the device's time alone.

  /// Returns the bar of a phase of a model that was not measured on the GPU.
  [[nodiscard]] double bar_of(const PhaseTimes& phase) const {
    if (!of_device) return bar;
    const auto sum = [](const std::vector<double>& times) {
      return std::accumulate(times.begin(), times.end(), 0.0);
    };
    return bar_of_longer({.time = sum(phase.operations), .bar = bar},
                         {.time = sum(phase.launches) + phase.wait, .bar = kHostError});
  }
};

/// Recorded models run in TF32, or in FP32 where there is none. Bars are of steps with their hosts,
/// but for parameters that were fitted to published steps: those have bars by arithmetic, from
/// steps that the host cannot limit.
ModelEvidence evidence_of(const profile::GpuSpec& gpu) {
  if (!gpu.calibration) return {};
  const profile::Calibration& calibration = *gpu.calibration;
  const bool all = calibration.has_all_arithmetic();
  const bool own = calibration.gpu == gpu.name && (all || !calibration.half);
  const cost::Evidence of_own =
      all && !calibration.tf32 ? cost::Evidence::kPublished : cost::Evidence::kCalibrated;
  ModelEvidence found{.evidence = own ? of_own : cost::Evidence::kTransferred,
                      .of_device = calibration.half || calibration.other_host || !own};
  if (!calibration.bars) return found;
  const profile::CalibrationBars& bars = *calibration.bars;
  const std::optional<double> of_arithmetic = gpu.tf32_tensor_flops ? bars.tf32 : bars.fp32;
  const double other_gpu =
      std::max({bars.other_gpu, cost::kOtherGpuConvolutionBar, of_arithmetic.value_or(0)});
  found.bar = found.scaled_bar = other_gpu;
  if (own && all) {
    found.bar = found.scaled_bar = of_arithmetic.value_or(other_gpu);
  } else if (own) {
    found.bar = bars.unseen_model;
    found.scaled_bar = bars.known_batch;
  }
  return found;
}

/// Returns a phase's curve if it was measured or if there is no other source of its times.
Result<PhaseCost> phase_of(const StepEvidence& known, Quantity quantity,
                           const std::optional<PricedRecording>& recorded, int phase) {
  const bool measured = std::ranges::any_of(
      known.curves, [&](const Curve& curve) { return curve.key.quantity == quantity; });
  PhaseCost cost;
  if (!measured && recorded) return cost;
  GPEMU_ASSIGN(cost.curve, curve_of(known, quantity, time_trend()));
  if (recorded) {
    const int last = cost.curve->last_batch();
    cost.scale = scale_to(recorded->phase(phase, last), cost.curve->at(last).value * 1e-3);
  }
  return cost;
}

}  // namespace

std::string_view StepCost::compute_evidence() const {
  return cost::evidence_name(std::max(forward.evidence, backward_optimizer.evidence));
}

double StepCost::compute_relative_error() const {
  const auto slack = [](const cost::Estimate& estimate) {
    return to_seconds(estimate.time) * estimate.relative_error;
  };
  return (slack(forward) + slack(backward_optimizer)) / to_seconds(compute());
}

struct StepCostModel::State {
  StepEvidence known;  ///< without curves and recording, which are the members below.
  std::array<PhaseCost, PricedRecording::kPhases> phases;
  std::optional<PricedRecording> recorded;
  ModelEvidence model_evidence;
  CostCurve copy_pageable;
  bool copy_of_other_host = false;
  CostCurve peak;
  CostCurve persistent;
  bool memory_of_other_gpu = false;
  MemoryFit fit;
  Bytes reserved = 0;
  double pinned_seconds_per_sample = 0;

  [[nodiscard]] cost::Estimate phase(int index, int batch) const;
  [[nodiscard]] cost::Estimate pageable_copy(int batch) const;
  [[nodiscard]] MemoryCost memory(int batch) const;
  [[nodiscard]] std::unexpected<Error> out_of_memory(int batch) const;
  [[nodiscard]] Result<void> check_recorded() const;
};

Result<StepCostModel> StepCostModel::from_evidence(StepEvidence known) {
  GPEMU_TRY(check_records(known));
  std::optional<PricedRecording> recorded;
  if (known.recording) {
    GPEMU_ASSIGN(recorded, PricedRecording::create(*std::move(known.recording), known.gpu,
                                                   known.model.parameters));
    known.recording.reset();
  }
  GPEMU_ASSIGN(PhaseCost forward, phase_of(known, Quantity::kForward, recorded, 0));
  GPEMU_ASSIGN(PhaseCost backward, phase_of(known, Quantity::kBackwardOptimizer, recorded, 1));
  GPEMU_ASSIGN(auto copy, curve_of(known, Quantity::kInputCopyPageable, copy_trend()));
  GPEMU_ASSIGN(auto peak, curve_of(known, Quantity::kPeakMemory, memory_trend()));
  GPEMU_ASSIGN(auto persistent, curve_of(known, Quantity::kPersistentMemory, memory_trend()));

  const double capacity_mib = to_mib(known.gpu.memory_bytes);
  const std::optional<MemoryLimit>& limit = known.limit;
  const bool limit_is_known = limit && limit->first_batch_out_of_memory;
  const int largest_measured = std::max(forward.curve ? forward.curve->last_batch() : 0,
                                        limit ? limit->largest_batch_measured : 0);
  const MemoryFit fit = limit_is_known
                            ? fit_to_limit(peak, capacity_mib, limit->largest_batch_measured)
                            : fit_to_capacity(peak, known.gpu, capacity_mib, largest_measured);

  const auto& [channels, height, width] = known.model.input_shape;
  const double sample_bytes = kSampleElementBytes * channels * height * width;
  const auto is_of_other_gpu = [&known](Quantity quantity) {
    return std::ranges::any_of(known.curves, [&](const Curve& curve) {
      return curve.key.quantity == quantity && curve.key.gpu != known.gpu.name;
    });
  };
  const bool memory_of_other_gpu = is_of_other_gpu(Quantity::kPeakMemory);
  const bool copy_of_other_host = is_of_other_gpu(Quantity::kInputCopyPageable);
  known.curves.clear();
  const double pinned_seconds = sample_bytes / known.gpu.pinned_copy_bytes_per_s;
  const Bytes capacity = known.gpu.memory_bytes;
  const ModelEvidence model_evidence = evidence_of(known.gpu);
  return StepCostModel(std::make_unique<const State>(State{
      .known = std::move(known),
      .phases = {std::move(forward), std::move(backward)},
      .recorded = std::move(recorded),
      .model_evidence = model_evidence,
      .copy_pageable = std::move(copy),
      .copy_of_other_host = copy_of_other_host,
      .peak = std::move(peak),
      .persistent = std::move(persistent),
      .memory_of_other_gpu = memory_of_other_gpu,
      .fit = fit,
      .reserved = capacity - std::min(capacity, from_mib(fit.usable_mib)),
      .pinned_seconds_per_sample = pinned_seconds,
  }));
}

Result<StepCostModel> StepCostModel::create(const profile::Database& database,
                                            std::string_view model, std::string_view gpu,
                                            std::string_view precision, std::string_view host) {
  StepEvidence known;
  GPEMU_ASSIGN(known.gpu, database.gpu(gpu, host));
  GPEMU_ASSIGN(known.model, database.model(model));
  GPEMU_ASSIGN(const std::optional<std::string> recording, database.recording(known.model.name));
  if (recording) {
    GPEMU_ASSIGN(known.recording, parse_recording(*recording, known.model.name));
  }
  GPEMU_ASSIGN(known.precision, choose_precision(database, known, precision));
  for (std::size_t i = 0; i < profile::kQuantityNames.size(); ++i) {
    GPEMU_ASSIGN(std::optional<Curve> curve,
                 find_curve(database, {known.model.name, known.gpu.name, known.precision,
                                       static_cast<Quantity>(i)}));
    if (curve) known.curves.push_back(*std::move(curve));
  }
  if (!host.empty()) {
    if (!known.recording) {
      return fail(ErrorCode::kUnsupported,
                  "the operations of {} are not recorded, so its times in another host are not "
                  "known",
                  known.model.name);
    }
    std::erase_if(known.curves, [](const Curve& curve) {
      return curve.key.quantity == Quantity::kForward ||
             curve.key.quantity == Quantity::kBackwardOptimizer;
    });
  }
  GPEMU_TRY(borrow_copy(database, known));
  GPEMU_ASSIGN(known.limit,
               database.memory_limit(known.model.name, known.gpu.name, known.precision));
  return from_evidence(std::move(known));
}

StepCostModel::StepCostModel(std::unique_ptr<const State> state) : state_(std::move(state)) {}
StepCostModel::StepCostModel(StepCostModel&&) noexcept = default;
StepCostModel& StepCostModel::operator=(StepCostModel&&) noexcept = default;
StepCostModel::~StepCostModel() = default;

Result<StepCost> StepCostModel::step(int batch) const {
  if (batch < 1) {
    return fail(ErrorCode::kInvalidArgument, "the batch size must be at least 1, not {}", batch);
  }
  if (batch > state_->fit.largest_batch) return state_->out_of_memory(batch);
  return StepCost{
      .batch = batch,
      .forward = state_->phase(PricedRecording::kForwardPhase, batch),
      .backward_optimizer = state_->phase(PricedRecording::kBackwardPhase, batch),
      .copy_pageable = state_->pageable_copy(batch),
      .copy_pinned = {from_seconds(batch * state_->pinned_seconds_per_sample),
                      cost::Evidence::kAnalytic, kPinnedCopyError},
      .memory = state_->memory(batch),
  };
}

cost::Estimate StepCostModel::State::phase(int index, int batch) const {
  const auto& [curve, scale] = phases.at(index);
  if (curve && (!recorded || batch <= curve->last_batch())) return to_estimate(curve->at(batch));
  GPEMU_CHECK(recorded.has_value(), "phase_of() needs a curve or a recording");
  const PhaseTimes times = recorded->phase(index, batch);
  if (!curve) {
    return {from_seconds(times.seconds()), model_evidence.evidence, model_evidence.bar_of(times)};
  }
  const int last = curve->last_batch();
  const double doublings = std::log2(static_cast<double>(batch) / last);
  // More work takes no less time, even if the correction fades faster than the work grows.
  const double seconds =
      std::max(corrected_seconds(times, scale, doublings), curve->at(last).value * 1e-3);
  const cost::Evidence evidence =
      curve->emulated() ? cost::Evidence::kEmulated : cost::Evidence::kScaled;
  return {from_seconds(seconds), evidence, model_evidence.scaled_bar};
}

cost::Estimate StepCostModel::State::pageable_copy(int batch) const {
  cost::Estimate estimate = to_estimate(copy_pageable.at(batch));
  if (copy_of_other_host) {
    if (!copy_pageable.emulated()) estimate.evidence = cost::Evidence::kTransferred;
    estimate.relative_error += kOtherHostCopyError;
  }
  return estimate;
}

MemoryCost StepCostModel::State::memory(int batch) const {
  const CostCurve::Value peak_value = peak.at(batch);
  MemoryCost memory{.persistent = from_mib(persistent.at(batch).value),
                    .peak = from_mib(peak_value.value),
                    .reserved = reserved,
                    .evidence = peak_value.evidence,
                    .relative_error = peak_value.relative_error};
  if (memory_of_other_gpu) {
    if (!peak.emulated()) memory.evidence = cost::Evidence::kExtrapolated;
    memory.relative_error += kOtherGpuMemoryError;
  }
  return memory;
}

std::unexpected<Error> StepCostModel::State::out_of_memory(int batch) const {
  return fail(
      ErrorCode::kOutOfMemory,
      "{} with batch {} does not fit in {}: it needs about {:.0f} MiB, and {:.0f} of {:.0f} "
      "MiB can be used; the largest batch that fits is {}",
      known.model.name, batch, known.gpu.name, peak.at(batch).value, fit.usable_mib,
      to_mib(known.gpu.memory_bytes), fit.largest_batch);
}

Result<void> StepCostModel::State::check_recorded() const {
  if (recorded) return {};
  return fail(ErrorCode::kUnsupported,
              "the operations of {} are not recorded, so it is not known when its gradients exist; "
              "`gpemu cost condense` records a model",
              known.model.name);
}

Result<StepParts> StepCostModel::parts(int batch) const {
  GPEMU_ASSIGN(const StepCost cost, step(batch));
  GPEMU_TRY(state_->check_recorded());
  return divided_step(*state_->recorded, batch, cost.backward_optimizer.time,
                      state_->known.model.parameters);
}

Result<HeadTime> StepCostModel::head(int batch) const {
  GPEMU_TRY(state_->check_recorded());
  return head_time(*state_->recorded, batch);
}

int StepCostModel::largest_batch() const {
  return state_->fit.largest_batch;
}

const profile::GpuSpec& StepCostModel::gpu() const {
  return state_->known.gpu;
}

const profile::ModelInfo& StepCostModel::model() const {
  return state_->known.model;
}

const std::string& StepCostModel::precision() const {
  return state_->known.precision;
}

}  // namespace gpemu::step
