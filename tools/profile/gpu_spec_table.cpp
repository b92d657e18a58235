// SPDX-License-Identifier: Apache-2.0
#include "profile/gpu_spec_table.hpp"

#include <optional>

namespace gpemu::tools {
namespace {

constexpr double kGiga = 1e9;
constexpr double kTera = 1e12;

std::optional<double> scaled(std::optional<double> value, double unit) {
  if (!value) return std::nullopt;
  return *value / unit;
}

}  // namespace

std::vector<SpecNumber> spec_numbers(const profile::GpuSpec& spec) {
  struct Field {
    std::string_view path;
    std::optional<double> value;
  };
  const double capability = spec.compute_capability_major + spec.compute_capability_minor / 10.0;
  const std::optional<double> usable_mib =
      spec.usable_memory_bytes ? std::optional(to_mib(*spec.usable_memory_bytes)) : std::nullopt;
  const Field fields[] = {
      {"compute.capability", capability},
      {"compute.multiprocessors", spec.multiprocessors},
      {"compute.cuda_cores", spec.cuda_cores},
      {"compute.base_clock_mhz", spec.base_clock_mhz},
      {"compute.boost_clock_mhz", spec.boost_clock_mhz},
      {"compute.sustained_clock_mhz", spec.sustained_clock_mhz},
      {"compute.fp32_tflops", spec.fp32_flops / kTera},
      {"compute.fp32_product_tflops", scaled(spec.fp32_product_flops, kTera)},
      {"compute.fp64_tflops", scaled(spec.fp64_flops, kTera)},
      {"compute.fp64_tensor_tflops", scaled(spec.fp64_tensor_flops, kTera)},
      {"compute.tf32_tensor_tflops", scaled(spec.tf32_tensor_flops, kTera)},
      {"compute.fp16_tensor_tflops", scaled(spec.fp16_tensor_flops, kTera)},
      {"compute.fp16_product_tflops", scaled(spec.fp16_product_flops, kTera)},
      {"compute.bf16_tensor_tflops", scaled(spec.bf16_tensor_flops, kTera)},
      {"compute.fp8_tensor_tflops", scaled(spec.fp8_tensor_flops, kTera)},
      {"memory.capacity_mib", to_mib(spec.memory_bytes + spec.reserved_memory_bytes)},
      {"memory.reserved_mib", to_mib(spec.reserved_memory_bytes)},
      {"memory.usable_mib", usable_mib},
      {"memory.bandwidth_gb_per_s", spec.memory_bandwidth_bytes_per_s / kGiga},
      {"memory.bus_bits", spec.memory_bus_bits},
      {"memory.clock_mhz", spec.memory_clock_mhz},
      {"memory.l2_cache_mib", to_mib(spec.l2_cache_bytes)},
      {"power.max_w", spec.max_power_w},
      {"power.idle_w", spec.idle_power_w},
      {"links.pcie_generation", spec.pcie_generation},
      {"links.pcie_lanes", spec.pcie_lanes},
      {"links.pinned_copy_gb_per_s", spec.pinned_copy_bytes_per_s / kGiga},
      {"links.nvlink_gb_per_s", scaled(spec.nvlink_bytes_per_s, kGiga)},
      {"links.nvlink_gpus", spec.nvlink_gpus},
  };
  std::vector<SpecNumber> numbers;
  for (const Field& field : fields) {
    const auto source = spec.sources.find(std::string(field.path));
    if (field.value && source != spec.sources.end()) {
      numbers.push_back({field.path, *field.value, source->second});
    }
  }
  return numbers;
}

}  // namespace gpemu::tools
