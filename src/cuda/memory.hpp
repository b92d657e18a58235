// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "gpemu/base/units.hpp"
#include "gpemu/memory/memory_state.hpp"
#include "gpemu/process/status.hpp"

namespace gpemu::cuda {

/// Yields memory of the current device; if necessary, frees idle memory of its pools. Errors: those
/// of current_device and check_unsafe_call, OUT_OF_MEMORY.
[[nodiscard]] process::Status allocate(Bytes bytes, memory::Origin origin, std::uint64_t* address);

/// Frees memory after the current device's work has ended. Errors: those of current_device and
/// check_unsafe_call, INVALID_VALUE.
[[nodiscard]] process::Status free_memory(std::uint64_t address);

}  // namespace gpemu::cuda
