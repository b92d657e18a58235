// SPDX-License-Identifier: Apache-2.0
#include "device_info.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <string_view>

#include "gpemu/base/log.hpp"

namespace gpemu::process {
namespace {

/// Limits by compute capability. Source: CUDA C++ Programming Guide, table "Technical
/// Specifications per Compute Capability".
struct Capability {
  int number;  ///< 10 * major + minor.
  int threads_per_multiprocessor, blocks_per_multiprocessor;
  int shared_kib_per_multiprocessor, shared_kib_optin;
};
constexpr std::array kCapabilities = {
    Capability{37, 2048, 16, 112, 48},   Capability{52, 2048, 32, 96, 48},
    Capability{60, 2048, 32, 64, 48},    Capability{61, 2048, 32, 96, 48},
    Capability{70, 2048, 32, 96, 96},    Capability{75, 1024, 16, 64, 64},
    Capability{80, 2048, 32, 164, 163},  Capability{86, 1536, 16, 100, 99},
    Capability{87, 1536, 16, 164, 163},  Capability{89, 1536, 24, 100, 99},
    Capability{90, 2048, 32, 228, 227},  Capability{100, 2048, 32, 228, 227},
    Capability{103, 2048, 32, 228, 227}, Capability{110, 1536, 24, 228, 227},
    Capability{120, 1536, 24, 100, 99}};

/// Returns the entry of the device's capability, or else the newest one that is not newer.
const Capability& capability_of(const profile::GpuSpec& spec) {
  const int number = spec.compute_capability_major * 10 + spec.compute_capability_minor;
  const Capability* best = &kCapabilities.front();
  for (const Capability& entry : kCapabilities) {
    if (entry.number <= number) best = &entry;
  }
  if (best->number != number) {
    log(LogLevel::kWarning,
        "the limits of compute capability {}.{} are not known; {} has those of {}.{}", number / 10,
        number % 10, spec.product_name, best->number / 10, best->number % 10);
  }
  return *best;
}

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
  const Capability& capability = capability_of(spec);
  const bool ampere = spec.compute_capability_major >= 8;
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
  info.shared_memory_per_block_optin = static_cast<Bytes>(capability.shared_kib_optin) * kKiB;
  info.shared_memory_per_multiprocessor =
      static_cast<Bytes>(capability.shared_kib_per_multiprocessor) * kKiB;
  info.reserved_shared_memory_per_block = ampere ? kKiB : 0;
  info.registers_per_block = 65536;
  info.registers_per_multiprocessor = capability.number == 37 ? 131072 : 65536;
  info.max_threads_per_block = 1024;
  info.max_threads_per_multiprocessor = capability.threads_per_multiprocessor;
  info.max_blocks_per_multiprocessor = capability.blocks_per_multiprocessor;
  info.max_block[0] = info.max_block[1] = 1024;
  info.max_block[2] = 64;
  info.max_grid[0] = 2147483647;
  info.max_grid[1] = info.max_grid[2] = 65535;
  info.constant_memory = 64 * kKiB;
  // Source: deviceQuery of A100 boards, and measured on an H200, driver 580.159: three engines.
  const bool large_chip = capability.number == 80 || capability.number >= 90;
  info.copy_engines = large_chip && capability.number <= 103 ? 3 : 2;
  info.cooperative_launch = spec.compute_capability_major >= 6;
  info.managed_memory = 1;
  // Source: CUDA C++ Programming Guide, "Unified Memory": since Pascal, on Linux.
  info.concurrent_managed_access = spec.compute_capability_major >= 6;
  info.can_map_host_memory = 1;
  info.memory_pools = 1;
  info.concurrent_kernels = 1;
  info.cluster_launch = spec.compute_capability_major >= 9;
  info.fp64_to_fp32 = spec.fp64_flops.value_or(spec.fp32_flops / 32) / spec.fp32_flops;
  return info;
}

}  // namespace gpemu::process
