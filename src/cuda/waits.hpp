// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "gpemu/base/units.hpp"
#include "gpemu/device/moment.hpp"

#include "mover.hpp"

namespace gpemu::cuda {

/// Blocks until the bytes are there of all copies that end until a time on the timeline. Returns at
/// once within a host function, which would wait for itself.
void wait_for_moves(TimePoint time);

/// Blocks until no unfinished copy overlaps these. Returns at once within a host function.
void wait_for_moves_on(std::span<const Access> accesses);

/// Blocks until a moment has come and all is done that ends until then, and counts it among the
/// host's waits.
void wait_until(const device::Moment& moment);

/// Whether a moment has come and all is done that ends until then.
[[nodiscard]] bool is_over(const device::Moment& moment);

}  // namespace gpemu::cuda
