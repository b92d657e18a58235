// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpemu/process/attach.hpp"
#include "gpemu/process/thread_state.hpp"

namespace gpemu::streams {

/// Yields a device, with its primary context made. Errors: those of attach, INVALID_DEVICE,
/// DEVICE_UNAVAILABLE, OUT_OF_MEMORY.
[[nodiscard]] process::Status device_with_context(int ordinal, process::DeviceState** device);

/// Yields the calling thread's current device, with its context made.
[[nodiscard]] process::Status current_device(process::DeviceState** device);

/// Like current_device; if the thread has no current context, this one becomes current, or that of
/// the first device whose compute mode allows this process.
[[nodiscard]] process::Status enter_context(process::DeviceState** device);

/// Frees everything that this process holds on a device; the next use makes a new context.
/// Requires: all work of the device has ended.
void end_context(process::DeviceState& device);

}  // namespace gpemu::streams
