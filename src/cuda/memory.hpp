// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "gpemu/base/units.hpp"

#include "status.hpp"

namespace gpemu::cuda {

/// Yields memory of the current device; what idles in its pools makes room. Errors: those of
/// current_device and check_unsafe_call, OUT_OF_MEMORY.
[[nodiscard]] Status allocate(Bytes bytes, gpemu_cuda_memory_kind kind, std::uint64_t* address);

/// Gives memory back when the current device's work is done. Errors: those of current_device and
/// check_unsafe_call, INVALID_VALUE.
[[nodiscard]] Status free_memory(std::uint64_t address);

}  // namespace gpemu::cuda
