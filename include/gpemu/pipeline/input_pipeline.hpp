// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "gpemu/base/units.hpp"
#include "gpemu/data/dataset.hpp"
#include "gpemu/pipeline/cache.hpp"
#include "gpemu/pipeline/node_caches.hpp"
#include "gpemu/profile/host_spec.hpp"
#include "gpemu/profile/storage_spec.hpp"

namespace gpemu::pipeline {

/// Training on described hosts, all alike: how each loads its data, and how long its GPUs compute.
struct PipelineSetup {
  profile::HostCpu cpu;
  profile::HostLoader loader;
  profile::StorageSpec storage;
  profile::HostNetwork network;  ///< matters if peers cache for each other.
  std::vector<std::uint32_t> file_bytes;
  int samples_per_file = 1;  ///< groups hold several.
  /// A real data set, whose order of samples counts; file_bytes are those of its parts. Where it
  /// has its images in larger files, its parts are read ahead (`window` of them, or two).
  std::shared_ptr<const data::Dataset> dataset;
  std::size_t window = 16;
  int nodes = 1;
  int workers = 1;           ///< processes that prepare batches, on each node.
  int prefetch_batches = 2;  ///< of each worker; of all, if they share batches.
  int batch = 256;           ///< samples of each node's step.
  int epochs = 2;
  std::uint64_t seed = 0;
  NodeCaches::Options cache;  ///< its number of nodes is that above.
  /// If above 0: the files of so many batches of a worker are read at the same time, in the order
  /// of their places on the disk, while it decodes the batches before them.
  int superbatch = 0;
  bool pin = true;  ///< a thread copies batches from shared memory into pinned memory.
  /// How many batches fit into shared memory; 0: all. One leaves it when it is pinned or, without
  /// that, when its step has ended.
  int shared_memory_batches = 0;
  double copy_s = 0;  ///< of a batch to the GPUs.
  double step_s = 0;  ///< of the GPUs, for a batch.
};

/// Puts a real data set into a setup: its parts, and its order.
void use_dataset(PipelineSetup& setup, std::shared_ptr<const data::Dataset> dataset);

/// What one epoch took. Times are means over the nodes, in seconds, and add up to `epoch_s`.
struct EpochResult {
  double epoch_s = 0;
  double wait_s = 0;        ///< of the training loop, for batches.
  double first_wait_s = 0;  ///< of it, for the first one: workers start and fill the pipeline.
  double copy_s = 0;
  double step_s = 0;
  double others_s = 0;  ///< of waiting for other nodes.
  // Over all nodes:
  std::uint64_t samples = 0;
  std::uint64_t cache_reads = 0;    ///< files from the node's own cache,
  std::uint64_t peer_reads = 0;     ///< from those of peers,
  std::uint64_t storage_reads = 0;  ///< and from storage.
  std::uint64_t storage_bytes = 0;
};

/// A batch that the training loop has taken from the nodes' loaders.
struct TakenBatch {
  double ready_s = 0;         ///< when all nodes had theirs.
  std::uint64_t samples = 0;  ///< of all nodes.
  double read_s = 0;          ///< that workers waited for files, and
  double prepare_s = 0;       ///< that they prepared samples, summed over them.
  std::uint64_t storage_bytes = 0;
};

/// The loaders of described hosts for a training loop elsewhere, which takes its batches in virtual
/// time. Thread safety: none.
class DescribedLoaders {
 public:
  /// The setup's copies and steps do not matter. Requires: as simulate().
  explicit DescribedLoaders(PipelineSetup setup);
  DescribedLoaders(DescribedLoaders&&) noexcept;
  DescribedLoaders& operator=(DescribedLoaders&&) noexcept;
  ~DescribedLoaders();

  /// Starts an epoch: begins to prepare its batches. Requires: the one before has ended.
  void start_epoch(std::uint64_t epoch, double now_s);
  /// Takes the next batch of each node, as soon as all have one; nothing at the end of the epoch.
  ///
  /// Requires: not before the time of the last call, and of the last batch.
  [[nodiscard]] std::optional<TakenBatch> take(double now_s);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Simulates the input pipeline (docs/design/data-path.md) and returns what each epoch took.
/// Deterministic: the same setup gives the same result. Complexity: linear in the files read, but
/// for logarithms. Memory: that of the files' numbers and sizes, and of what caches hold.
///
/// `stop` may end it early, with fewer epochs. Requires: counts above zero, and files.
[[nodiscard]] std::vector<EpochResult> simulate(const PipelineSetup& setup,
                                                const std::atomic<bool>* stop = nullptr);

}  // namespace gpemu::pipeline
