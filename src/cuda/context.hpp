// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attach.hpp"
#include "thread_state.hpp"

namespace gpemu::cuda {

/// Yields a device, with its primary context made. Errors: those of attach, INVALID_DEVICE,
/// OUT_OF_MEMORY.
[[nodiscard]] Status device_with_context(int ordinal, DeviceState** device);

/// Yields the calling thread's current device, with its context made.
[[nodiscard]] Status current_device(DeviceState** device);

/// As current_device; the context is made the thread's current one where there is none.
[[nodiscard]] Status enter_context(DeviceState** device);

/// Gives back everything that this process holds on a device; who uses it next makes the context
/// anew. Requires: all work of the device is done.
void end_context(DeviceState& device);

}  // namespace gpemu::cuda
