// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpemu/base/units.hpp"

namespace gpemu::profile {

/// A kind of GPU instance that Multi-Instance GPU (MIG) can make of a GPU, from the table `mig` of
/// the GPU's file (docs/reference/gpu-file.md). A number that nobody has published is absent.
/// No profile of these GPUs has an encoder.
struct MigProfile {
  std::string name;         ///< e.g. "3g.20gb", "1g.5gb+me".
  int id = 0;               ///< as nvidia-smi prints and takes it.
  int nvml_profile = 0;     ///< NVML's number, NVML_GPU_INSTANCE_PROFILE_*.
  int compute_slices = 0;   ///< of the GPU's 7, or 4.
  int memory_slices = 0;    ///< of the GPU's 8, or 4, which a placement occupies.
  std::vector<int> starts;  ///< the memory slices at which a placement may begin, in order.
  std::optional<int> multiprocessors;
  std::optional<Bytes> memory_bytes;
  int copy_engines = 0;
  std::optional<int> decoders;
  std::optional<int> jpegs;
  int ofas = 0;                   ///< optical flow accelerators.
  bool media_extensions = false;  ///< "+me": one instance of a GPU at most has them.

  /// Returns how many instances an empty GPU has room for.
  [[nodiscard]] int max_instances() const {
    return media_extensions ? 1 : static_cast<int>(starts.size());
  }
};

/// Returns how many memory slices a GPU with these profiles has. One profile takes all of them.
[[nodiscard]] inline int memory_slices_of(std::span<const MigProfile> profiles) {
  int slices = 0;
  for (const MigProfile& profile : profiles) slices = std::max(slices, profile.memory_slices);
  return slices;
}

}  // namespace gpemu::profile
