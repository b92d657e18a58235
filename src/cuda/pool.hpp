// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "status.hpp"
#include "stream_state.hpp"

namespace gpemu::cuda {

/// Gives back what idles in memory pools beyond their thresholds. Called where the host has waited.
/// Source: CUDA Programming Guide, "Stream-Ordered Memory Allocator", on synchronisation.
void trim_pools();

/// Gives back what idles in a device's pools, and returns whether that was anything.
bool reclaim_pooled(const DeviceState& device);

/// Gives memory of a pool back to the device, if an address is in use from one.
bool forget_pooled(std::uint64_t address);

// What follows takes NULL for the default pool of the current device. Errors: INVALID_VALUE for
// pools that are not alive, and those of current_device.

/// `max_bytes` is 0 without a limit. Errors: OUT_OF_MEMORY.
[[nodiscard]] Status create_pool(DeviceState& device, Bytes max_bytes, gpemu_cuda_pool** pool);

/// Ends a pool with its last memory. Requires: not NULL.
[[nodiscard]] Status destroy_pool(gpemu_cuda_pool_handle pool);

/// Yield the pool that a device begins with, and the one that its allocations come from. Errors:
/// OUT_OF_MEMORY.
[[nodiscard]] Status default_pool(DeviceState& device, gpemu_cuda_pool** pool);
[[nodiscard]] Status current_pool(DeviceState& device, gpemu_cuda_pool** pool);
[[nodiscard]] Status set_current_pool(DeviceState& device, gpemu_cuda_pool_handle pool);

[[nodiscard]] Status get_pool_value(gpemu_cuda_pool_handle pool,
                                    gpemu_cuda_pool_attribute attribute, std::uint64_t* value);
[[nodiscard]] Status set_pool_value(gpemu_cuda_pool_handle pool,
                                    gpemu_cuda_pool_attribute attribute, std::uint64_t value);

/// Whether another device may use a pool's memory. Requires: the device is one. Errors:
/// INVALID_DEVICE for taking it from the pool's own, and for a device that cannot reach the memory.
[[nodiscard]] Status set_pool_access(gpemu_cuda_pool_handle pool, int device, bool read_write);
[[nodiscard]] Status get_pool_access(gpemu_cuda_pool_handle pool, int device, bool* read_write);

/// Gives back what idles in a pool until it keeps no more than `keep`.
[[nodiscard]] Status trim_pool(gpemu_cuda_pool_handle pool, Bytes keep);

/// Takes and gives back memory in the order of a stream; here NULL is the current pool of the
/// stream's device. Errors: OUT_OF_MEMORY, NOT_SUPPORTED where the stream captures.
[[nodiscard]] Status allocate_async(Bytes bytes, gpemu_cuda_pool_handle pool,
                                    gpemu_cuda_stream& stream, std::uint64_t* address);
[[nodiscard]] Status free_async(std::uint64_t address, gpemu_cuda_stream& stream);

}  // namespace gpemu::cuda
