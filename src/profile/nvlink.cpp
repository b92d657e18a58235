// SPDX-License-Identifier: Apache-2.0
#include "gpemu/profile/nvlink.hpp"

#include <cmath>

namespace gpemu::profile {

double nvlink_rate(const GpuSpec& gpu) {
  return gpu.generation.nvlink_link_gb_per_s * 1e9;
}

int nvlinks_of(const GpuSpec& gpu) {
  if (!gpu.nvlink_bytes_per_s) return 0;
  return static_cast<int>(std::lround(*gpu.nvlink_bytes_per_s / nvlink_rate(gpu)));
}

}  // namespace gpemu::profile
