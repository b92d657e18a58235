// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "gpemu/base/units.hpp"
#include "gpemu/profile/gpu_spec.hpp"

namespace gpemu::profile {

/// The part of a GPU that a MIG device has.
struct MigShare {
  std::string_view name;    ///< e.g. "3g.20gb".
  int multiprocessors = 0;  ///< its own.
  int memory_slices = 0;    ///< of its GPU instance.
  Bytes memory_bytes = 0;   ///< of its GPU instance.
};

/// Returns the specification of a GPU of which kernels use only so many multiprocessors, as those
/// of a client of MPS: arithmetic rates in proportion, and all of its memory, with the whole
/// bandwidth.
[[nodiscard]] GpuSpec with_multiprocessors(const GpuSpec& gpu, int multiprocessors);

/// Returns the specification of a MIG device of a GPU: arithmetic rates in proportion to its
/// multiprocessors, memory bandwidth and L2 cache in proportion to its memory slices, the GPU's
/// link to the host, no NVLink. Its costs are transferred from the GPU: nobody has measured models
/// on instances in public. Not modelled: instances share the link to the host and the power limit.
/// Source of the shares: "NVIDIA Multi-Instance GPU User Guide", v580, 2025.
[[nodiscard]] GpuSpec mig_device_spec(const GpuSpec& gpu, const MigShare& share);

}  // namespace gpemu::profile
