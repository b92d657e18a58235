// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "gpemu/base/mutex.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/memory/memory_state.hpp"
#include "gpemu/process/device_state.hpp"
#include "gpemu/process/status.hpp"

namespace gpemu::memory {

/// Takes memory of a device. Requires: bytes > 0. Errors: OUT_OF_MEMORY.
[[nodiscard]] process::Status allocate_on(process::DeviceState& device, Bytes bytes, Origin origin,
                                          std::uint64_t* address);

/// Blocks until no unfinished copy touches the block that holds an address. Requires: not the lock.
void finish_moves(std::uint64_t address);

/// Frees memory at once; `host` for memory of host_alloc. Errors: INVALID_VALUE.
[[nodiscard]] process::Status free_block(std::uint64_t address, bool host);

/// Yields page-locked memory of the host. Requires: bytes > 0. Errors: OUT_OF_MEMORY.
[[nodiscard]] process::Status allocate_host(Bytes bytes, std::uint32_t flags, void** pointer);

/// Locks pages of the program, and unlocks them. Errors: HOST_MEMORY_ALREADY_REGISTERED,
/// OUT_OF_MEMORY; HOST_MEMORY_NOT_REGISTERED.
[[nodiscard]] process::Status register_host(void* pointer, Bytes bytes, std::uint32_t flags);
[[nodiscard]] process::Status unregister_host(void* pointer);

/// Describes the memory behind a pointer, but for its pool.
[[nodiscard]] gpemu_cuda_pointer describe_pointer(std::uint64_t address);

}  // namespace gpemu::memory
