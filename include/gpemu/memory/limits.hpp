// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "gpemu/process/device_state.hpp"
#include "gpemu/process/status.hpp"

namespace gpemu::memory {

/// Yields a limit of the device's context, by CUDA's number. Errors: INVALID_VALUE for a number
/// that CUDA does not have, UNSUPPORTED_LIMIT for a limit that the device does not have.
[[nodiscard]] process::Status get_limit(process::DeviceState& device, std::int32_t limit,
                                        std::uint64_t* value);

/// Sets a limit until the context ends; the value that comes of it is rounded and clamped as the
/// driver does. No kernel is executed, so the limits have no effect, and take no memory. Errors:
/// those of get_limit, UNSUPPORTED_LIMIT for a limit that can only be read, and INVALID_VALUE for a
/// value out of range.
[[nodiscard]] process::Status set_limit(process::DeviceState& device, std::int32_t limit,
                                        std::uint64_t value);

}  // namespace gpemu::memory
