// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "gpemu/base/saturate.hpp"
#include "gpemu/device/mig_layout.hpp"
#include "gpemu/device/monitor.hpp"
#include "gpemu/profile/mig_profile.hpp"

namespace gpemu::tools {

/// A MIG device, as tools show it.
struct SmiMigDevice {
  device::MigDevice device;
  profile::MigProfile profile;  ///< of its GPU instance.
  Bytes memory_used = 0;        ///< of its GPU instance.
};

/// One device, as `gpemu smi` and nvidia-smi show it.
struct SmiDevice {
  std::string node;
  bool divided = false;  ///< MIG divides it.
  device::DeviceSnapshot now;
  device::DeviceLoad load;
  std::vector<SmiMigDevice> mig;

  /// Returns the MIG device that a process uses; null for none.
  [[nodiscard]] const SmiMigDevice* mig_of(const device::ProcessSnapshot& process) const {
    for (const SmiMigDevice& one : mig) {
      if (one.device.compute_place == process.mig_place) return &one;
    }
    return nullptr;
  }
};

/// Returns the word for whether MIG divides a device; "N/A" if it cannot.
[[nodiscard]] inline std::string mig_mode_text(const SmiDevice& device, bool divided) {
  if (divided) return "Enabled";
  return device.now.facts.has_mig != 0 ? "Disabled" : "N/A";
}

[[nodiscard]] inline std::string mig_mode_text(const SmiDevice& device) {
  return mig_mode_text(device, device.divided);
}

/// Returns the product's name or, if it is not known, the name of the specification.
[[nodiscard]] inline std::string name_of(const device::DeviceSnapshot& device) {
  return device.facts.product_name[0] == '\0' ? device.gpu : device.facts.product_name;
}

/// Returns the whole number of MiB, without the unit, as nvidia-smi does: rounded up. Source: that
/// of driver 580.159 shows 616 MiB for 644939776 bytes.
[[nodiscard]] inline std::string mib_text(Bytes bytes) {
  return fmt::format("{:.0f}", std::ceil(to_mib(bytes)));
}

/// Returns a power in watts, without the unit, as nvidia-smi does: that of NVML, in whole mW.
[[nodiscard]] inline std::string watts_text(double power) {
  return fmt::format("{:.2f}", std::round(1000 * power) / 1000);
}

/// Returns all memory of the board, also what the driver keeps: the total that nvidia-smi shows.
[[nodiscard]] inline Bytes board_memory(const device::DeviceSnapshot& device) {
  return device.memory_total + device.facts.reserved_memory_bytes;
}

/// Returns the pid, as PID@NAMESPACE if it belongs to another PID namespace.
[[nodiscard]] inline std::string pid_text(const device::ProcessSnapshot& process) {
  if (process.foreign_namespace == 0) return fmt::to_string(process.pid);
  return fmt::format("{}@{}", process.pid, process.foreign_namespace);
}

/// Returns the address as nvidia-smi writes it, in capitals.
[[nodiscard]] inline std::string bus_id_text(const device::DeviceSnapshot& device) {
  std::string id = device.pci_bus_id;
  std::ranges::transform(id, id.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return id;
}

/// The parts of a device's PCI address.
struct PciAddress {
  unsigned domain = 0, bus = 0, device = 0;
};
[[nodiscard]] inline PciAddress pci_of(const device::DeviceSnapshot& device) {
  PciAddress address;
  std::sscanf(device.pci_bus_id.c_str(), "%x:%x:%x", &address.domain, &address.bus,
              &address.device);
  return address;
}

/// Returns the word of `nvidia-smi -q` and of queries for a compute mode.
[[nodiscard]] inline std::string_view compute_mode_word(device::ComputeMode mode) {
  switch (mode) {
    case device::ComputeMode::kProhibited:
      return "Prohibited";
    case device::ComputeMode::kExclusiveProcess:
      return "Exclusive_Process";
    case device::ComputeMode::kDefault:
      break;
  }
  return "Default";
}

/// Returns for which share of the time copies used a device's memory, as NVML reports it.
[[nodiscard]] inline double copy_share(const device::DeviceLoad& load) {
  return std::max(load.copy_h2d, load.copy_d2h);
}

/// Why a device does not have a higher clock: the bits that NVML has for it, and that are
/// supported.
inline constexpr unsigned kGpuIdle = 1, kSwPowerCap = 4, kHwSlowdown = 8;
[[nodiscard]] inline unsigned clock_reasons(const SmiDevice& device) {
  const unsigned slowdown = device.now.health.clock < 1 ? kHwSlowdown : 0;
  if (device.load.compute == 0) return slowdown == 0 ? kGpuIdle : slowdown;
  return slowdown | (device.now.power.capped ? kSwPowerCap : 0);
}

/// Returns the type of a process, as nvidia-smi shows it: it computes, or does so by MPS.
[[nodiscard]] inline std::string_view type_text(const device::ProcessSnapshot& process) {
  return process.is_mps_client ? "M+C" : "C";
}

/// All devices at one time.
struct SmiSample {
  std::string time;  ///< local, "2026/01/31 23:59:59.123".
  std::string date;  ///< the same as "Sat Jan 31 23:59:59 2026".
  std::vector<SmiDevice> devices;
  std::optional<std::size_t> all{};  ///< how many there are, if not these.
};

/// Returns a sample without devices, with the local time.
[[nodiscard]] SmiSample sample_at(std::chrono::system_clock::time_point time);

/// Returns when to take a sample of a series with `period_s` seconds between samples, at most the
/// last representable time.
[[nodiscard]] inline TimePoint sample_time(TimePoint start, double period_s, std::int64_t number) {
  return saturating_add(start, from_seconds(period_s * static_cast<double>(number)));
}

}  // namespace gpemu::tools
