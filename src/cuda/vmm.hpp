// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "gpemu/process/device_state.hpp"
#include "gpemu/process/status.hpp"

namespace gpemu::cuda {

// Virtual memory management: physical memory, addresses, and mappings between them. Errors:
// INVALID_VALUE for invalid handles and ranges.

/// Takes physical memory of a device. Requires: whole pages, more than none. Errors: OUT_OF_MEMORY.
[[nodiscard]] process::Status create_physical(process::DeviceState& device, Bytes bytes,
                                              bool exportable, std::uint64_t* handle);

/// Releases a handle of physical memory, which ends without handles and mappings.
[[nodiscard]] process::Status release_physical(std::uint64_t handle);

/// Yields one more handle of the memory that is mapped at an address.
[[nodiscard]] process::Status retain_physical(std::uint64_t address, std::uint64_t* handle);

/// Yields the device, and whether export_physical takes the memory.
[[nodiscard]] process::Status describe_physical(std::uint64_t handle, int* device,
                                                bool* exportable);

/// Takes addresses. Requires: whole pages, more than none; the alignment is a power of two or 0.
/// Errors: OUT_OF_MEMORY.
[[nodiscard]] process::Status reserve_addresses(Bytes bytes, Bytes alignment,
                                                std::uint64_t* address);
[[nodiscard]] process::Status release_addresses(std::uint64_t address, Bytes bytes);

[[nodiscard]] process::Status map_physical(std::uint64_t address, Bytes bytes, Bytes offset,
                                           std::uint64_t handle);
[[nodiscard]] process::Status unmap_physical(std::uint64_t address, Bytes bytes);

/// Sets how a device may use mapped memory: 0 not, 1 to read, 3 to read and write. Requires: the
/// device exists. Errors: INVALID_DEVICE for memory that the device cannot reach. PLACEHOLDER -> x
[[nodiscard]] process::Status set_access(std::uint64_t address, Bytes bytes, int device,
                                         std::uint32_t access);
[[nodiscard]] process::Status get_access(std::uint64_t address, int device, std::uint32_t* access);

/// Exports physical memory to other processes as a file descriptor, and imports it from one.
/// Errors: OPERATING_SYSTEM; INVALID_DEVICE for memory of a device that this process does not see.
[[nodiscard]] process::Status export_physical(std::uint64_t handle, int* file_descriptor);
[[nodiscard]] process::Status import_physical(int file_descriptor, std::uint64_t* handle);

}  // namespace gpemu::cuda
