// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "gpemu/base/units.hpp"

#include "mover.hpp"

namespace gpemu::cuda {

/// Blocks until the bytes are there of all copies that end until a time on the timeline. Returns at
/// once within a host function, which would wait for itself.
void wait_for_moves(TimePoint time);

/// Blocks until no unfinished copy overlaps these. Returns at once within a host function.
void wait_for_moves_on(std::span<const Access> accesses);

/// Blocks until a time and all that ends until then, and counts it among the host's waits.
void wait_until(TimePoint time);

/// Whether all that was to be done until a time is.
[[nodiscard]] bool is_over(TimePoint time);

}  // namespace gpemu::cuda
