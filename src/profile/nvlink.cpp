// SPDX-License-Identifier: Apache-2.0
#include "gpemu/profile/nvlink.hpp"

#include <cmath>

namespace gpemu::profile {

double nvlink_rate(const GpuSpec& gpu) {
  // Source: NVIDIA's architecture whitepapers of GP100 (20 GB/s), GV100, GA100 and GH100 (25 GB/s),
  // GA102 (14.0625 GB/s) and Blackwell (50 GB/s).
  const int capability = gpu.compute_capability_major * 10 + gpu.compute_capability_minor;
  if (capability >= 100) return 50e9;
  if (capability == 86) return 14.0625e9;
  return capability == 60 ? 20e9 : 25e9;
}

int nvlinks_of(const GpuSpec& gpu) {
  return static_cast<int>(std::lround(gpu.nvlink_bytes_per_s.value_or(0) / nvlink_rate(gpu)));
}

}  // namespace gpemu::profile
