// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>

#include "gpemu/device/mig_layout.hpp"

#include "mig/mig_gpus.hpp"

namespace gpemu::tools {

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
/// A line of `nvidia-smi -L`: the MIG device of that number on its GPU.
[[nodiscard]] std::string mig_device_line(const device::MigDevice& device, int number);
/// `nvidia-smi -L`: the GPUs, each with its MIG devices.
[[nodiscard]] std::string mig_devices_text(std::span<const MigGpu> gpus);

}  // namespace gpemu::tools
