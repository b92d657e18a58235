// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/data/dataset.hpp"
#include "gpemu/data/loader.hpp"
#include "gpemu/device/device.hpp"
#include "gpemu/sim/clock.hpp"
#include "gpemu/step/step_cost.hpp"
#include "gpemu/train/trainer.hpp"

#include "cli/world.hpp"
#include "train/run_options.hpp"

namespace gpemu::tools {

/// The emulated GPUs of a run and what a step costs on them. Thread safety: none.
class TrainingSession {
 public:
  /// Opens the cost model, creates or attaches to the node, and allocates the device memory. Each
  /// GPU begins a step with `preprocessing`.
  ///
  /// Errors: faults in the options, naming them; kOutOfMemory; those of the node.
  [[nodiscard]] static Result<TrainingSession> create(const GpuOptions& options, bool virtual_clock,
                                                      const World& world,
                                                      Duration preprocessing = {});

  [[nodiscard]] Result<train::TrainResult> run(train::BatchSource& source,
                                               const std::atomic<bool>& stop,
                                               const train::Trainer::Observer& observer = {}) {
    return trainer_->run(source, stop, observer);
  }

  [[nodiscard]] const step::StepCostModel& model() const { return *model_; }
  [[nodiscard]] sim::Clock& clock() const { return *clock_; }
  [[nodiscard]] const train::StepPlan& plan() const { return plan_; }
  /// Returns what goes wrong with the node's devices, and when the node was made.
  [[nodiscard]] std::span<const profile::Fault> faults() const { return node_->faults().planned(); }
  /// Returns the host CPU time that waits have spent spinning.
  [[nodiscard]] Duration spun() const { return clock_->spun() - spun_before_; }

 private:
  TrainingSession() = default;
  Result<void> attach(const GpuOptions& options, const World& world);
  Result<void> make_plan(const GpuOptions& options, const World& world);
  Result<void> create_node(const GpuOptions& options, const World& world);
  Result<void> open_devices(const GpuOptions& options, const World& world);

  // Declared in dependency order.
  std::unique_ptr<sim::VirtualClock> virtual_clock_;  ///< if the run is in virtual time.
  sim::Clock* clock_ = nullptr;                       ///< that clock, the node's, or the world's.
  Duration spun_before_{};                            ///< by waits before this session.
  std::unique_ptr<step::StepCostModel> model_;
  train::StepPlan plan_;
  std::shared_ptr<device::Node> node_;
  std::vector<std::unique_ptr<device::Device>> devices_;
  std::unique_ptr<train::Trainer> trainer_;
};

/// Errors: kUnsupported if the model does not take square RGB images.
[[nodiscard]] Result<void> check_input(const profile::ModelInfo& model);

/// Returns an allocator of page-locked memory, or of any with `pageable`. It counts in `not_locked`
/// the bytes that the user's limit did not allow to lock.
[[nodiscard]] data::HostAllocator batch_allocator(bool pageable,
                                                  std::shared_ptr<std::atomic<Bytes>> not_locked);

/// A data set and the workers that load it.
struct DataPath {
  // Declared in dependency order.
  std::unique_ptr<data::Dataset> dataset;
  std::unique_ptr<data::StorageDevice> storage;  ///< null: as fast as the files are.
  std::unique_ptr<data::Loader> loader;
  /// Bytes of its pinned buffers that are not locked because the user's limit is too low.
  std::shared_ptr<std::atomic<Bytes>> not_locked;
};

/// What a loader of several nodes does differently.
struct LoaderHooks {
  data::PageCache page_cache = data::PageCache::kUsed;  ///< of the described storage, if any.
  /// Makes what the loader reads from, in place of the files; none: the files.
  std::function<data::SampleSource*(const data::Dataset& dataset, data::StorageDevice* storage)>
      source;
};

/// Opens the data set and starts a loader for it, into pinned memory unless `gpu.pageable`.
/// `world`, whose clock measures the loader's work, must outlive it. With `hooks`, it loads any
/// part of an epoch, in random order.
///
/// Errors: those of the data set, which `stop` ends, the storage and the loader; kInvalidArgument
/// if it holds less than a batch; kResourceLimit if the host is out of memory; kUnsupported if the
/// model's input is not a square image.
[[nodiscard]] Result<DataPath> open_data(const DataOptions& options, const GpuOptions& gpu,
                                         const profile::ModelInfo& model, const World& world,
                                         const std::atomic<bool>& stop,
                                         const LoaderHooks* hooks = nullptr);

}  // namespace gpemu::tools
