// SPDX-License-Identifier: Apache-2.0
#include "gpemu/device/device_config.hpp"

#include <algorithm>
#include <chrono>
#include <string_view>

#include "gpemu/profile/nvlink.hpp"

namespace gpemu::device {
namespace {

template <std::size_t Size>
void fill_text(char (&destination)[Size], std::string_view text) {
  text.copy(destination, std::min(text.size(), Size - 1));
}

/// Idle power as a share of the board's limit, where it is not known. Source: catalog/gpus/*.toml:
/// 0.10 of an A10, 0.13 of a V100-SXM2 and of an H100-SXM5, 0.17 of an H200.
constexpr double kTypicalIdleShare = 0.125;

GpuFacts gpu_facts(const profile::GpuSpec& spec) {
  const profile::GenerationFacts& generation = spec.generation;
  GpuFacts facts{.compute_capability_major = spec.compute_capability_major,
                 .compute_capability_minor = spec.compute_capability_minor,
                 .multiprocessors = spec.multiprocessors,
                 .cuda_cores = spec.cuda_cores,
                 .memory_bus_bits = spec.memory_bus_bits,
                 .pcie_generation = spec.pcie_generation,
                 .pcie_lanes = spec.pcie_lanes,
                 .nvlink_links = profile::nvlinks_of(spec),
                 .nvlink_gpus = spec.nvlink_gpus,
                 .nvlink_switches = generation.nvlink_switches ? 1 : 0,
                 .has_mig = spec.mig_profiles.empty() ? 0 : 1,
                 .nvml_architecture = generation.nvml_architecture,
                 .base_clock_mhz = spec.base_clock_mhz.value_or(0),
                 .boost_clock_mhz = spec.boost_clock_mhz,
                 .memory_clock_mhz = profile::memory_clock_mhz(spec),
                 .reserved_memory_bytes = spec.reserved_memory_bytes,
                 .nvlink_version = generation.nvlink_version,
                 .time_slices = time_slices(spec)};
  fill_text(facts.product_name, spec.product_name);
  fill_text(facts.architecture, spec.architecture);
  return facts;
}

}  // namespace

Bytes context_bytes(const profile::GpuSpec& spec) {
  const profile::GenerationFacts& facts = spec.generation;
  return static_cast<Bytes>(facts.context_mib) * kMiB +
         static_cast<Bytes>(spec.multiprocessors) *
             static_cast<Bytes>(facts.context_kib_per_multiprocessor) * kKiB;
}

TimeSliceRules time_slices(const profile::GpuSpec& spec) {
  return {.quantum = std::chrono::microseconds(spec.generation.time_slice_us),
          .context_switch = std::chrono::microseconds(spec.generation.context_switch_us)};
}

DeviceConfig device_config(const profile::GpuSpec& spec) {
  return {.gpu = spec.name,
          .memory_bytes = spec.memory_bytes,
          .max_power_w = spec.max_power_w,
          .idle_power_w = spec.idle_power_w.value_or(kTypicalIdleShare * spec.max_power_w),
          .facts = gpu_facts(spec)};
}

}  // namespace gpemu::device
