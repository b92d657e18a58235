// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpemu/base/error.hpp"
#include "gpemu/base/variables.hpp"
#include "gpemu/device/node_state.hpp"

namespace gpemu::device {

/// Returns how urgent this process is, as GPEMU_GPU_PRIORITY says; normal without it. Errors:
/// kInvalidArgument for another value than high, normal and low.
[[nodiscard]] Result<ProcessPriority> process_priority(const Lookup& lookup);

}  // namespace gpemu::device
