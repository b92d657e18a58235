// SPDX-License-Identifier: Apache-2.0
#pragma once

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
};

/// Adds the options that describe hosts.
void add_host_options(Command command, HostOptions& options);

/// Opens the loaders of the nodes of a run.
///
/// Errors: those of the host and of the data set; kInvalidArgument if they do not fit each other or
/// the GPUs.
[[nodiscard]] Result<HostPath> open_host(const RunOptions& options, const World& world);

}  // namespace gpemu::tools
