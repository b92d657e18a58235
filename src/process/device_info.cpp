// SPDX-License-Identifier: Apache-2.0
#include "device_info.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <string_view>

namespace gpemu::process {
namespace {

template <std::size_t Size>
void copy_text(char (&destination)[Size], std::string_view text) {
  destination[text.copy(destination, Size - 1)] = '\0';
}

void fill_uuid(std::uint8_t (&bytes)[16], std::string_view text) {
  std::string digits;
  const bool prefixed = text.starts_with("GPU-") || text.starts_with("MIG-");
  for (const char c : text.substr(prefixed ? 4 : 0)) {
    if (c != '-') digits += c;
  }
  for (std::size_t i = 0; i < 16 && 2 * i + 2 <= digits.size(); ++i) {
    std::from_chars(digits.data() + 2 * i, digits.data() + 2 * i + 2, bytes[i], 16);
  }
}

}  // namespace

gpemu_cuda_device describe_device(const profile::GpuSpec& spec,
                                  const device::DeviceSnapshot& snapshot) {
  const profile::GenerationFacts& facts = spec.generation;
  const auto kib = [](int count) { return static_cast<Bytes>(count) * kKiB; };
  gpemu_cuda_device info{};
  copy_text(info.name, spec.product_name);
  fill_uuid(info.uuid, snapshot.uuid);
  // NVML writes the domain with eight digits, CUDA with four.
  const std::string_view bus = snapshot.pci_bus_id;
  copy_text(info.pci_bus_id, bus.size() > 12 ? bus.substr(4) : bus);
  unsigned domain = 0, pci_bus = 0, pci_device = 0;
  if (std::sscanf(snapshot.pci_bus_id.c_str(), "%x:%x:%x", &domain, &pci_bus, &pci_device) == 3) {
    info.pci_domain = static_cast<std::int32_t>(domain);
    info.pci_bus = static_cast<std::int32_t>(pci_bus);
    info.pci_device = static_cast<std::int32_t>(pci_device);
  }
  info.total_memory = snapshot.memory_total;
  info.major = spec.compute_capability_major;
  info.minor = spec.compute_capability_minor;
  info.multiprocessors = spec.multiprocessors;
  info.clock_khz = static_cast<std::int32_t>(spec.boost_clock_mhz * 1e3);
  info.memory_bus_bits = spec.memory_bus_bits;
  // A specification may have a bus that is too narrow for its bandwidth.
  constexpr double kMaxKhz = std::numeric_limits<std::int32_t>::max();
  info.memory_clock_khz =
      static_cast<std::int32_t>(std::min(profile::memory_clock_mhz(spec) * 1e3, kMaxKhz));
  info.l2_cache_bytes = spec.l2_cache_bytes;
  info.shared_memory_per_block = 48 * kKiB;
  info.shared_memory_per_block_optin = kib(facts.shared_kib_per_block);
  info.shared_memory_per_multiprocessor = kib(facts.shared_kib_per_multiprocessor);
  info.reserved_shared_memory_per_block = kib(facts.reserved_shared_kib_per_block);
  info.registers_per_block = 65536;
  info.registers_per_multiprocessor = facts.registers_per_multiprocessor;
  info.max_threads_per_block = 1024;
  info.max_threads_per_multiprocessor = facts.threads_per_multiprocessor;
  info.max_blocks_per_multiprocessor = facts.blocks_per_multiprocessor;
  info.max_block[0] = info.max_block[1] = 1024;
  info.max_block[2] = 64;
  info.max_grid[0] = 2147483647;
  info.max_grid[1] = info.max_grid[2] = 65535;
  info.constant_memory = 64 * kKiB;
  info.copy_engines = facts.copy_engines;
  info.cooperative_launch = facts.cooperative_launch ? 1 : 0;
  info.managed_memory = 1;
  info.concurrent_managed_access = facts.concurrent_managed_access ? 1 : 0;
  info.can_map_host_memory = 1;
  info.memory_pools = 1;
  info.concurrent_kernels = 1;
  info.cluster_launch = facts.cluster_launch ? 1 : 0;
  info.fp16_tensor_cores = spec.fp16_tensor_flops ? 1 : 0;
  info.tf32_tensor_cores = spec.tf32_tensor_flops ? 1 : 0;
  info.fp64_to_fp32 = spec.fp64_flops.value_or(spec.fp32_flops / 32) / spec.fp32_flops;
  return info;
}

}  // namespace gpemu::process
