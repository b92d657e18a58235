// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/data/dataset.hpp"
#include "gpemu/data/loader.hpp"
#include "gpemu/peers/node_group.hpp"
#include "gpemu/peers/shared_cache.hpp"
#include "gpemu/train/batch_source.hpp"

namespace gpemu::train {

/// This node's batches of a group of nodes that train together, over several epochs.
///
/// Each step takes the next global batch of the epoch's order, which is the same on all nodes: a
/// batch for each of them. A step begins when all nodes have their part of it. If nodes leave, what
/// has not been done of the epoch is divided among the others. So each sample of an epoch is in
/// exactly one step.
class NodesSource final : public BatchSource {
 public:
  struct Options {
    int epochs = 1;
    std::optional<std::int64_t> max_steps;
    int batch = 1;  ///< samples of this node's part; as of the loader.
    std::uint64_t seed = 0;
    bool by_locality = false;  ///< nodes prepare what they cache, as far as all have as much.
    SampleLog log;             ///< of what was prepared, and which steps were done.
  };
  /// What passed in an epoch.
  struct Epoch {
    std::uint64_t samples = 0;  ///< of this node, in steps that were done.
    peers::SharedCache::Reads reads;
  };

  /// `cache`, which may be null, and the other references must outlive the source. After the stop
  /// of the group, the source ends. Requires: the loader keeps a last batch that is not full.
  NodesSource(data::Loader& loader, const data::Dataset& dataset, peers::SharedCache* cache,
              peers::NodeGroup& group, Options options);

  [[nodiscard]] Result<std::optional<SourceBatch>> next() override;

  [[nodiscard]] const std::vector<Epoch>& epochs() const { return epochs_; }

 private:
  [[nodiscard]] Result<std::optional<data::Batch>> prepare();
  void begin_epoch();
  void divide();
  [[nodiscard]] Result<void> count_step();
  void note_members();

  data::Loader& loader_;
  const data::Dataset& dataset_;
  peers::SharedCache* cache_;
  peers::NodeGroup& group_;
  Options options_;

  std::int64_t steps_left_;
  std::int64_t steps_done_ = 0;
  std::vector<std::uint32_t> order_;  ///< of the epoch.
  std::size_t taken_ = 0;             ///< of it, samples of steps that were done.
  std::vector<int> members_;          ///< of the plan.
  std::uint32_t view_ = 0;
  bool divided_ = false;         ///< there is a plan for the rest of the epoch.
  std::size_t own_batches_ = 0;  ///< of the plan that have not been prepared.
  std::vector<Epoch> epochs_;
  peers::SharedCache::Reads reads_before_;  ///< the epoch.
};

}  // namespace gpemu::train
