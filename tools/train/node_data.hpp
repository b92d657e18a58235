// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/peers/node_group.hpp"
#include "gpemu/peers/shared_cache.hpp"
#include "gpemu/pipeline/node_caches.hpp"
#include "gpemu/train/nodes_source.hpp"

#include "cli/world.hpp"
#include "train/run_options.hpp"
#include "train/training_session.hpp"

namespace gpemu::tools {

/// What a run of real nodes has besides its loader: its cache, if any, and the other nodes.
struct NodeData {
  // Declared in dependency order.
  train::SampleLog log;
  std::unique_ptr<peers::SharedCache> cache;
  std::unique_ptr<peers::NodeGroup> group;
  pipeline::Peers peers = pipeline::Peers::kNone;
};

/// Adds the option of runs that note samples.
void add_log_option(Command command, JoinOptions& options);

/// Opens a file for lines about samples; none if the path is empty. Errors: kIo.
[[nodiscard]] Result<train::SampleLog> open_sample_log(const std::filesystem::path& path);

/// Returns whether a run of real files caches them, or divides them among nodes.
[[nodiscard]] bool uses_nodes(const RunOptions& options);

/// Opens the data of such a run, and waits for the other nodes. `nodes` must outlive the path.
///
/// Errors: those of open_data() and of NodeGroup::join(); kInvalidArgument.
[[nodiscard]] Result<DataPath> open_node_data(const RunOptions& options,
                                              const profile::ModelInfo& model, const World& world,
                                              const std::atomic<bool>& stop, NodeData& nodes);

/// Makes the source of its batches.
[[nodiscard]] std::unique_ptr<train::NodesSource> make_nodes_source(const RunOptions& options,
                                                                    const DataPath& path,
                                                                    const NodeData& nodes);

/// What happened in it, for the report.
struct NodeFacts {
  int rank = 0;
  int nodes = 1;
  std::size_t left = 0;  ///< nodes that did not stay until the end.
  std::string cache;     ///< empty: none.
  Bytes capacity = 0;
  std::vector<train::NodesSource::Epoch> epochs;
};
[[nodiscard]] NodeFacts facts_of(const RunOptions& options, const NodeData& nodes,
                                 const train::NodesSource& source);

/// Returns the facts for people, as lines, and in JSON.
[[nodiscard]] std::string nodes_text(const NodeFacts& facts);
[[nodiscard]] nlohmann::ordered_json nodes_json(const NodeFacts& facts);

}  // namespace gpemu::tools
