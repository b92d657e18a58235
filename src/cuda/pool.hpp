// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "gpemu/process/status.hpp"
#include "gpemu/streams/stream_state.hpp"

namespace gpemu::cuda {

/// Frees idle memory of pools beyond their thresholds. Called after a wait of the host. Source:
/// CUDA Programming Guide, "Stream-Ordered Memory Allocator", on synchronisation.
void trim_pools();

/// Frees idle memory of a device's pools, and returns whether there was any.
bool reclaim_pooled(const process::DeviceState& device);

/// Returns the pool that the memory at an address, in use, is from; or null.
[[nodiscard]] gpemu_cuda_pool* pool_of(std::uint64_t address);

/// Gives the memory at an address back to the device, if it is in use from a pool.
bool forget_pooled(std::uint64_t address);

// For the following functions, NULL is the default pool of the current device. Errors:
// INVALID_VALUE for pools that are not alive, and those of current_device.

/// `max_bytes` is 0 without a limit. Errors: OUT_OF_MEMORY.
[[nodiscard]] process::Status create_pool(process::DeviceState& device, Bytes max_bytes,
                                          gpemu_cuda_pool** pool);

/// Ends a pool with its last memory. Requires: not NULL.
[[nodiscard]] process::Status destroy_pool(gpemu_cuda_pool_handle pool);

/// Yield a device's default pool, and the current pool for its allocations. Errors: OUT_OF_MEMORY.
[[nodiscard]] process::Status default_pool(process::DeviceState& device, gpemu_cuda_pool** pool);
[[nodiscard]] process::Status current_pool(process::DeviceState& device, gpemu_cuda_pool** pool);
[[nodiscard]] process::Status set_current_pool(process::DeviceState& device,
                                               gpemu_cuda_pool_handle pool);

[[nodiscard]] process::Status get_pool_value(gpemu_cuda_pool_handle pool,
                                             gpemu_cuda_pool_attribute attribute,
                                             std::uint64_t* value);
[[nodiscard]] process::Status set_pool_value(gpemu_cuda_pool_handle pool,
                                             gpemu_cuda_pool_attribute attribute,
                                             std::uint64_t value);

/// Set or yield whether a device may use a pool's memory. Requires: the device exists. Errors:
/// INVALID_DEVICE for removing the access of the pool's own device, and for a device that cannot
/// reach the memory.
[[nodiscard]] process::Status set_pool_access(gpemu_cuda_pool_handle pool, int device,
                                              bool read_write);
[[nodiscard]] process::Status get_pool_access(gpemu_cuda_pool_handle pool, int device,
                                              bool* read_write);

/// Frees idle memory of a pool until it keeps no more than `keep`.
[[nodiscard]] process::Status trim_pool(gpemu_cuda_pool_handle pool, Bytes keep);

/// Allocate and free memory in the order of a stream; here NULL is the current pool of the stream's
/// device. Errors: OUT_OF_MEMORY, NOT_SUPPORTED if the stream captures.
[[nodiscard]] process::Status allocate_async(Bytes bytes, gpemu_cuda_pool_handle pool,
                                             gpemu_cuda_stream& stream, std::uint64_t* address);
[[nodiscard]] process::Status free_async(std::uint64_t address, gpemu_cuda_stream& stream);

}  // namespace gpemu::cuda
