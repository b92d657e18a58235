// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cmath>
#include <cstdint>

namespace gpemu {

/// A span of emulated or real time, in integer nanoseconds.
using Duration = std::chrono::nanoseconds;

/// The axis that points in time lie on. Its origin is the clock's own: CLOCK_MONOTONIC's for the
/// real clock, zero for the virtual one.
struct Timeline {};
using TimePoint = std::chrono::time_point<Timeline, Duration>;

/// A size in bytes.
using Bytes = std::uint64_t;

inline constexpr Bytes kKiB = 1024;
inline constexpr Bytes kMiB = 1024 * kKiB;
inline constexpr Bytes kGiB = 1024 * kMiB;

[[nodiscard]] constexpr double to_seconds(Duration duration) {
  return static_cast<double>(duration.count()) * 1e-9;
}
[[nodiscard]] constexpr double to_milliseconds(Duration duration) {
  return static_cast<double>(duration.count()) * 1e-6;
}
[[nodiscard]] constexpr double to_mib(Bytes bytes) {
  return static_cast<double>(bytes) / static_cast<double>(kMiB);
}

/// Returns the duration nearest to `seconds`. Requires: |seconds| below 2^63 ns, about 292 years.
[[nodiscard]] inline Duration from_seconds(double seconds) {
  return Duration(std::llround(seconds * 1e9));
}
[[nodiscard]] inline Duration from_milliseconds(double milliseconds) {
  return Duration(std::llround(milliseconds * 1e6));
}

}  // namespace gpemu
