// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/cost/estimate.hpp"
#include "gpemu/profile/database.hpp"
#include "gpemu/step/recording.hpp"
#include "gpemu/step/step_parts.hpp"

namespace gpemu::step {

/// Device memory that a training process holds at one batch size.
struct MemoryCost {
  Bytes persistent = 0;  ///< weights, gradients, optimizer state, input: held between steps.
  Bytes peak = 0;        ///< the most held during a step, as the framework's allocator counts.
  /// Outside the allocator: context, library workspaces, fragmentation. It is the device's capacity
  /// less the memory found usable for this model, so peak + reserved exceeds the capacity exactly
  /// for the batches that do not fit.
  Bytes reserved = 0;
  cost::Evidence evidence = cost::Evidence::kMeasured;
  double relative_error = 0;  ///< of `peak`; see Estimate.
};

/// What one training step of a model at one batch size costs on a GPU.
struct StepCost {
  int batch = 0;
  cost::Estimate forward;
  /// Loss, backward pass and optimizer step, which the published profiles measured as one.
  cost::Estimate backward_optimizer;
  cost::Estimate copy_pageable;  ///< of one batch of input, host to device; blocks the host.
  cost::Estimate copy_pinned;    ///< the same from page-locked memory.
  MemoryCost memory;

  [[nodiscard]] Duration compute() const { return forward.time + backward_optimizer.time; }
  /// Half the width of the 90 % interval of compute(), as a share of it, if both parts err in the
  /// same direction.
  [[nodiscard]] double compute_relative_error() const;
  /// Returns the name of the evidence on which compute() rests, that of the worse part.
  [[nodiscard]] std::string_view compute_evidence() const;
};

/// What is known about training one model on one GPU at one precision.
struct StepEvidence {
  profile::GpuSpec gpu;
  profile::ModelInfo model;
  std::string precision;
  /// One curve of each quantity. Those of memory may be of another GPU: peak memory follows from
  /// the lifetimes of tensors, not from the GPU.
  std::vector<profile::Curve> curves;
  std::optional<profile::MemoryLimit> limit;
  /// The model's recorded operations, which price batches and GPUs that were not measured.
  std::optional<Recording> recording;
};

/// The cost of training one model on one GPU at one precision, from measured profiles: measured
/// points and interpolations between them. If the model's operations are recorded, the operation
/// model gives the rest. Beyond the last measured batch, that batch corrects it
/// (Evidence::kScaled). On a GPU where the model was not measured, it uses the parameters fitted to
/// that GPU (kCalibrated) or those of the GPU that its file names (kTransferred).
/// docs/design/operation-costs.md explains the bars; both phases have the bar of a whole step.
///
/// Immutable after creation: a pure function of its inputs, with no clock, randomness or I/O.
/// Thread safety: const members may be called concurrently.
class StepCostModel {
 public:
  /// An empty `precision` means the one that was measured, if there is only one. A model that was
  /// not measured on the GPU, but is recorded, has the precision that PyTorch uses there by
  /// default.
  ///
  /// `host` names another GPU, in whose host this one is, as in profile::Database::gpu(): then the
  /// operation model answers, as for a model that was not measured. Empty: the GPU's own host.
  ///
  /// Errors: kNotFound if the GPU or model is unknown, kUnsupported if the pair was neither
  /// measured at that precision nor recorded, kInvalidArgument if it was measured at several and
  /// none is named. The message lists what was measured.
  [[nodiscard]] static Result<StepCostModel> create(const profile::Database& database,
                                                    std::string_view model, std::string_view gpu,
                                                    std::string_view precision = {},
                                                    std::string_view host = {});

  /// The same from given evidence, without a database.
  ///
  /// Errors: kUnsupported if a quantity has no curve or too few points, kCorruptData for records
  /// that contradict themselves.
  [[nodiscard]] static Result<StepCostModel> from_evidence(StepEvidence records);

  StepCostModel(StepCostModel&&) noexcept;
  StepCostModel& operator=(StepCostModel&&) noexcept;
  ~StepCostModel();

  /// Returns the cost of a step with `batch` samples.
  ///
  /// Errors: kInvalidArgument if batch < 1; kOutOfMemory if it does not fit, with the largest batch
  /// that does. Complexity: logarithmic in the number of measured points, no allocation on success.
  /// With the operation model: linear in the number of operations, less than a millisecond.
  [[nodiscard]] Result<StepCost> step(int batch) const;

  /// Returns what a step with `batch` samples consists of.
  ///
  /// Errors: those of step(); kUnsupported if the model's operations are not recorded, or are not
  /// those of all its parameters.
  [[nodiscard]] Result<StepParts> parts(int batch) const;

  /// Returns how long the fully connected layers at the network's end take, by the operation model.
  ///
  /// Errors: kUnsupported if the model's operations are not recorded.
  [[nodiscard]] Result<HeadTime> head(int batch) const;

  /// Returns the largest batch that fits: the largest that was measured to run if a larger one was
  /// measured to run out of memory, else the largest whose peak fits beside the reserved memory.
  /// step() refuses exactly the batches above it.
  [[nodiscard]] int largest_batch() const;

  [[nodiscard]] const profile::GpuSpec& gpu() const;
  [[nodiscard]] const profile::ModelInfo& model() const;
  [[nodiscard]] const std::string& precision() const;

 private:
  struct State;
  explicit StepCostModel(std::unique_ptr<const State> state);
  std::unique_ptr<const State> state_;
};

}  // namespace gpemu::step
