// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/cost/estimate.hpp"
#include "gpemu/data/loader.hpp"
#include "gpemu/device/device.hpp"
#include "gpemu/train/batch_source.hpp"
#include "gpemu/train/run_failure.hpp"
#include "gpemu/train/step_log.hpp"
#include "gpemu/train/step_plan.hpp"
#include "gpemu/train/time_breakdown.hpp"

namespace gpemu::train {

struct TrainOptions {
  /// Batches are in page-locked memory and are copied asynchronously; else a copy blocks the host.
  bool pinned = true;
  /// Copies run on their own stream, in parallel with the compute of the previous step. Else they
  /// are ordered after it, like PyTorch's `images.cuda(non_blocking=True)`. Requires: pinned.
  bool overlap_copy = false;
  /// How many steps may be queued or running before the host waits for the oldest. Source: CUDA
  /// queues about a thousand launches, two to three steps of a common network.
  int run_ahead = 2;
  /// Steps whose batches are on the device hold no host memory. They are queued further ahead, up
  /// to this much time, so that the GPU has work even if the host wakes up late. Source: wake-ups
  /// were late by up to 25 ms with four busy processes per core.
  Duration queued_time = std::chrono::milliseconds(100);
};

/// One step, as observers see it once it has ended.
struct ObservedStep {
  std::int64_t index = 0;  ///< from 0 over all epochs.
  int epoch = 0;
  int samples = 0;
  data::BatchWork work;
  bool copied = false;                      ///< the batch was copied to the devices.
  device::Interval batch_wait;              ///< the host waiting for the batch.
  device::Interval end_wait;                ///< the host waiting for the end of the step.
  std::vector<GpuStep> gpus;                ///< the trainer's devices.
  std::vector<device::Interval> exchanges;  ///< between all GPUs, as the plan's parts.
  TimePoint end;                            ///< when the last GPU has finished its part.
};

struct EpochSummary {
  int epoch = 0;  ///< from 0.
  std::int64_t steps = 0;
  std::int64_t samples = 0;
  TimeBreakdown time;  ///< of the first GPU.
};

/// What a run did and where its time went.
struct TrainResult {
  bool stopped = false;  ///< ended early by the stop flag.
  std::optional<RunFailure>
      failure;  ///< ended early by a fault; the step in progress is not counted.
  TimePoint start;
  Duration elapsed{};  ///< from the start to the end of the last step.
  std::int64_t samples = 0;
  StepLog steps;
  std::vector<EpochSummary> epochs;
  std::vector<TimeBreakdown> gpus;  ///< each sums to `elapsed`.
  /// By GPU: for how long the others stood still until it was ready for an exchange, as a mean.
  std::vector<Duration> waited_for;
  /// The first GPU's time up to the end of the first step, which also fills the pipeline.
  TimeBreakdown first_step;
  std::int64_t first_step_samples = 0;
  data::BatchWork work;  ///< over all batches.
  /// Emulated time of the first GPU by evidence; indexed by cost::Evidence.
  std::array<Duration, cost::kEvidenceNames.size()> evidence{};
  Bytes memory_peak = 0;  ///< held on each GPU.
  Bytes memory_capacity = 0;

  /// Returns the breakdown of the first GPU's time after the first step.
  [[nodiscard]] TimeBreakdown steady_time() const;
  /// Returns samples per second after the first step; of a single step, counting from the start.
  [[nodiscard]] double steady_samples_per_s() const;
};

/// Trains on emulated GPUs: takes batches from a source, puts their copies and steps on the
/// devices' timelines, and accounts for every moment of the devices.
///
/// The host waits only where a real one would: for a batch, for a pageable copy, and for the step
/// that is `run_ahead` steps back. So steps follow each other without gaps, and a late host costs
/// nothing. Holds the run's device memory while it lives. Thread safety: none. Deterministic on the
/// virtual clock with a deterministic source.
///
/// GPUs of a node on which nobody else works and that has no faults do the same at the same times,
/// except that the first can differ from the others. One device can stand for all GPUs that are
/// alike: a step then takes the host the same time whatever their number.
class Trainer {
 public:
  using Observer = std::function<void(const ObservedStep&)>;

  /// There must be as many `devices` as GPUs in the plan or, if nobody else uses them, as distinct
  /// ones, of which the last stands for all further GPUs. They share one clock and must outlive the
  /// trainer.
  ///
  /// Errors: kOutOfMemory if a device has less free memory than the plan needs; kInvalidArgument
  /// for options that exclude each other.
  [[nodiscard]] static Result<Trainer> create(const StepPlan& plan, const TrainOptions& options,
                                              std::span<device::Device* const> devices);

  Trainer(Trainer&&) noexcept;
  Trainer& operator=(Trainer&&) noexcept;
  /// Gives back the device memory.
  ~Trainer();

  /// Trains until the source ends, `stop` becomes true, which is checked before each step, or a
  /// fault of the node ends the run. Waits for the steps that are already queued.
  ///
  /// Errors: those of the source.
  [[nodiscard]] Result<TrainResult> run(BatchSource& source, const std::atomic<bool>& stop,
                                        const Observer& observer = {});

 private:
  struct State;
  explicit Trainer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace gpemu::train
