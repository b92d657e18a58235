// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "gpemu/base/units.hpp"
#include "gpemu/device/moment.hpp"
#include "gpemu/process/device_state.hpp"
#include "gpemu/streams/mover.hpp"

namespace gpemu::streams {

/// Blocks until the bytes of all copies that end by a time on the timeline have been moved. Returns
/// at once within a host function, which would wait for itself.
void wait_for_moves(TimePoint time);

/// Blocks until no unfinished copy overlaps these. Returns at once within a host function.
void wait_for_moves_on(std::span<const Access> accesses);

/// Blocks until a moment has come and everything that ends by then is done, or until the device for
/// whose work this waits (null: another process's) is lost. Counts as a wait of the host.
void wait_until(const device::Moment& moment, const process::DeviceState* device);

/// Returns whether a moment has come and everything that ends by then is done.
[[nodiscard]] bool is_over(const device::Moment& moment);

}  // namespace gpemu::streams
