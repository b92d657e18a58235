// SPDX-License-Identifier: Apache-2.0
#include "gpemu/profile/mig_device.hpp"

#include <cmath>
#include <optional>

namespace gpemu::profile {

GpuSpec with_multiprocessors(const GpuSpec& gpu, int multiprocessors) {
  GpuSpec spec = gpu;
  const double compute = static_cast<double>(multiprocessors) / gpu.multiprocessors;
  const auto scale = [compute](std::optional<double>& rate) {
    if (rate) *rate *= compute;
  };
  spec.multiprocessors = multiprocessors;
  spec.cuda_cores = gpu.cuda_cores / gpu.multiprocessors * multiprocessors;
  spec.fp32_flops *= compute;
  scale(spec.fp32_product_flops);
  scale(spec.fp64_flops);
  scale(spec.fp64_tensor_flops);
  scale(spec.tf32_tensor_flops);
  scale(spec.fp16_tensor_flops);
  scale(spec.fp16_product_flops);
  scale(spec.bf16_tensor_flops);
  scale(spec.fp8_tensor_flops);
  return spec;
}

GpuSpec mig_device_spec(const GpuSpec& gpu, const MigShare& share) {
  GpuSpec spec = with_multiprocessors(gpu, share.multiprocessors);
  const double memory =
      static_cast<double>(share.memory_slices) / memory_slices_of(gpu.mig_profiles);
  spec.name = fmt::format("{} MIG {}", gpu.name, share.name);
  spec.product_name = fmt::format("{} MIG {}", gpu.product_name, share.name);
  spec.aliases.clear();
  spec.mig_profiles.clear();
  spec.memory_bytes = share.memory_bytes;
  spec.usable_memory_bytes = std::nullopt;
  spec.memory_bandwidth_bytes_per_s *= memory;
  spec.memory_bus_bits = static_cast<int>(std::lround(gpu.memory_bus_bits * memory));
  spec.l2_cache_bytes =
      static_cast<Bytes>(std::llround(static_cast<double>(gpu.l2_cache_bytes) * memory));
  spec.nvlink_bytes_per_s = std::nullopt;
  spec.nvlink_gpus = 1;
  return spec;
}

}  // namespace gpemu::profile
