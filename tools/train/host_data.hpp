// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/pipeline/input_pipeline.hpp"

#include "cli/world.hpp"
#include "train/run_options.hpp"

namespace gpemu::tools {

/// The loaders of described hosts, and what they load.
struct HostPath {
  std::unique_ptr<pipeline::DescribedLoaders> loaders;
  std::size_t files = 0;
  Bytes bytes = 0;
  int cores = 0;  ///< of all nodes.
  std::int64_t batches_per_epoch = 0;
  Duration gpu_time{};  ///< of each GPU, for preprocessing its share of a batch.
};

/// Where described hosts find their files.
enum class HostFiles : std::uint8_t {
  kInStorage,  ///< their caches are empty in the beginning.
  kInMemory,   ///< all of them, so that reading takes no time.
};

/// Adds the options of a run on described hosts, and the one that real nodes have, too.
void add_host_options(Command command, RunOptions& options);
void add_peers_option(Command command, HostOptions& options);

/// Opens the loaders of the nodes of a run.
///
/// Errors: those of the host and of the data set, which `stop` ends; kInvalidArgument if they do
/// not fit each other or the GPUs; kUnsupported for what described hosts have no model of.
[[nodiscard]] Result<HostPath> open_host(const RunOptions& options, const World& world,
                                         const std::atomic<bool>& stop,
                                         HostFiles files = HostFiles::kInStorage);

}  // namespace gpemu::tools
