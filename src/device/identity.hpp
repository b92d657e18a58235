// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace gpemu::device {

/// Returns a device's UUID as NVML writes it: the same for the same node name and index.
[[nodiscard]] std::string device_uuid(std::string_view node_name, std::size_t index);

/// Returns the UUID of a compute instance as NVML writes it, "MIG-…".
[[nodiscard]] std::string mig_uuid(std::string_view gpu_uuid, int gpu_instance,
                                   int compute_instance);

/// Returns a device's PCI address as NVML writes it, "domain:bus:device.function".
[[nodiscard]] std::string device_pci_bus_id(std::size_t index);

/// Returns a random number of 54 bits, not 0: another one in each call of any process.
[[nodiscard]] std::uint64_t unique_number();

}  // namespace gpemu::device
