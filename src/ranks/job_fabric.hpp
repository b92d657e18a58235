// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/process/settings.hpp"
#include "gpemu/profile/gpu_spec.hpp"
#include "gpemu/profile/topology_spec.hpp"
#include "gpemu/topology/fabric.hpp"
#include "gpemu/topology/network.hpp"

namespace gpemu::ranks {

/// One of the equal machines on which the ranks of a job run.
struct JobMachine {
  const profile::GpuSpec& gpu;                      ///< all GPUs are of this kind.
  const profile::TopologySpec* topology = nullptr;  ///< null: as their kind says.
  std::vector<int> gpus;                            ///< their indices; empty: as many as needed.
  std::optional<topology::Network> network;  ///< that joins the machines; else, the adapters.
};

/// Describes what joins all ranks of a job. A machine has the ranks of one of the launcher's hosts,
/// on its first GPUs; if these are more than the machine has GPUs, it has as many as GPUs.
///
/// Errors: kInvalidArgument if the machines cannot have equally many ranks, or if there are several
/// and neither a network nor an adapter joins them.
[[nodiscard]] Result<topology::Fabric> fabric_of_job(const process::Job& job,
                                                     const JobMachine& machine);

}  // namespace gpemu::ranks
