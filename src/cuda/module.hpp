// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpemu/base/units.hpp"
#include "gpemu/launch/kernel_state.hpp"
#include "gpemu/process/status.hpp"

namespace gpemu::cuda {

/// Loads the image at an address, at most `limit` bytes. Requires: attached. Errors: INVALID_IMAGE,
/// OUT_OF_MEMORY.
[[nodiscard]] process::Status load_module(const std::byte* bytes, Bytes limit,
                                          gpemu_cuda_module** module);

/// Ends a module with its kernels and variables.
void unload_module(gpemu_cuda_module& module);

/// Yields a kernel of a module. Errors: NOT_FOUND, OUT_OF_MEMORY.
[[nodiscard]] process::Status find_kernel(gpemu_cuda_module& module, const char* name,
                                          gpemu_cuda_kernel** kernel);

/// Yields the address of a module's variable on the current device, and its size; either pointer
/// may be null. Errors: NOT_FOUND, those of current_device and allocate.
[[nodiscard]] process::Status find_variable(gpemu_cuda_module& module, const char* name,
                                            std::uint64_t* address, std::uint64_t* bytes);

/// Registers a variable of a fat binary under its host variable in the program.
void register_variable(const void* host_variable, const char* name, Bytes bytes,
                       const void* fat_binary);

/// As find_variable. Errors: INVALID_SYMBOL.
[[nodiscard]] process::Status registered_variable(const void* host_variable, std::uint64_t* address,
                                                  std::uint64_t* bytes);

/// Forgets everything that a fat binary has registered.
void unregister(const void* fat_binary);

}  // namespace gpemu::cuda
