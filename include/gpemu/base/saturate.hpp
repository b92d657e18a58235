// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>

#include "gpemu/base/units.hpp"

namespace gpemu {

/// Returns a + b, or the smallest or largest number if the sum overflows.
[[nodiscard]] constexpr std::int64_t saturating_add(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return a < 0 ? std::numeric_limits<std::int64_t>::min()
               : std::numeric_limits<std::int64_t>::max();
}

/// Returns a - b, or the smallest or largest number if the difference overflows.
[[nodiscard]] constexpr std::int64_t saturating_subtract(std::int64_t a, std::int64_t b) {
  std::int64_t difference = 0;
  if (!__builtin_sub_overflow(a, b, &difference)) return difference;
  return a < 0 ? std::numeric_limits<std::int64_t>::min()
               : std::numeric_limits<std::int64_t>::max();
}

/// Returns the time that is `duration` after `time`, or the last representable time.
[[nodiscard]] constexpr TimePoint saturating_add(TimePoint time, Duration duration) {
  return at_ns(saturating_add(to_ns(time), duration.count()));
}

}  // namespace gpemu
