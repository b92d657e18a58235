// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpemu/device/mig_layout.hpp"
#include "gpemu/profile/mig_profile.hpp"

namespace gpemu::tools {

/// A GPU with what MIG has made of it.
struct MigGpu {
  int index = 0;
  std::string uuid;
  std::string product_name;
  std::vector<profile::MigProfile> profiles;
  device::MigLayout layout{{}};  ///< of these profiles.
};

/// Which instances to list; nothing: all.
struct MigFilter {
  std::optional<int> gpu_instance;
  std::optional<int> compute_instance;
};

/// What `nvidia-smi mig` prints. Source of the forms: listings of nvidia-smi 525 to 560 in NVIDIA's
/// MIG guide and in public issues. A number that is not known reads N/A.

/// -lgip: the GPU instance profiles, and how many instances of each can still be made.
[[nodiscard]] std::string mig_profiles_text(std::span<const MigGpu> gpus);
/// -lgipp: where instances of each profile may begin.
[[nodiscard]] std::string mig_placements_text(std::span<const MigGpu> gpus);
/// -lgi: the GPU instances.
[[nodiscard]] std::string mig_instances_text(std::span<const MigGpu> gpus);
/// -lcip: the compute instance profiles of each GPU instance.
[[nodiscard]] std::string mig_compute_profiles_text(std::span<const MigGpu> gpus,
                                                    const MigFilter& filter);
/// -lci: the compute instances.
[[nodiscard]] std::string mig_compute_instances_text(std::span<const MigGpu> gpus,
                                                     const MigFilter& filter);
/// `nvidia-smi -L`: the GPUs, each with its MIG devices.
[[nodiscard]] std::string mig_devices_text(std::span<const MigGpu> gpus);

}  // namespace gpemu::tools
