// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpemu/process/device_state.hpp"
#include "gpemu/process/status.hpp"

namespace gpemu::process {

/// Ends a context, and what it has queued: calls that use the device fail with `status` from now
/// on, and threads that wait for it return. Returns whether it had not ended before.
bool end_one_context(DeviceState& device, Status status);

/// The same for all contexts of this process. Returns whether one had not ended before. Requires:
/// attached.
bool end_all_contexts(Status status);

}  // namespace gpemu::process
