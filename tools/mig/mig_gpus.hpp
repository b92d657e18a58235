// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/device/mig_layout.hpp"
#include "gpemu/device/node_view.hpp"
#include "gpemu/profile/gpu_spec.hpp"
#include "gpemu/profile/mig_profile.hpp"

#include "cli/world.hpp"

namespace gpemu::tools {

/// A GPU with what MIG has made of it.
struct MigGpu {
  int index = 0;
  std::string uuid;
  std::string product_name;
  std::vector<profile::MigProfile> profiles;
  device::MigLayout layout{{}};  ///< of these profiles.
};

/// Finds the specification of a kind of GPU: in the files that GPEMU_GPU_FILES names, or in the
/// database. Errors: kNotFound.
[[nodiscard]] Result<profile::GpuSpec> find_gpu_spec(const std::string& gpu, const World& world);

/// Returns the GPUs of a node that `ids` names, by index or UUID; all if it is empty. Errors:
/// kUnsupported if the node does not divide its GPUs; kNotFound.
[[nodiscard]] Result<std::vector<MigGpu>> read_mig_gpus(const device::NodeView& node,
                                                        std::span<const std::string> ids,
                                                        const World& world);

}  // namespace gpemu::tools
