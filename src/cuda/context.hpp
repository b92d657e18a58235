// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attach.hpp"
#include "thread_state.hpp"

namespace gpemu::cuda {

/// Yields a device, with its primary context made. Errors: those of attach, INVALID_DEVICE,
/// DEVICE_UNAVAILABLE, OUT_OF_MEMORY.
[[nodiscard]] Status device_with_context(int ordinal, DeviceState** device);

/// Yields the calling thread's current device, with its context made.
[[nodiscard]] Status current_device(DeviceState** device);

/// Like current_device; if the thread has no current context, this one becomes current, or that of
/// the first device whose compute mode allows this process.
[[nodiscard]] Status enter_context(DeviceState** device);

/// Frees everything that this process holds on a device; the next use makes a new context.
/// Requires: all work of the device has ended.
void end_context(DeviceState& device);

}  // namespace gpemu::cuda
