// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

namespace gpemu {

/// A span of emulated or real time, in integer nanoseconds.
using Duration = std::chrono::nanoseconds;

/// The axis of points in time. The clock sets its origin: that of CLOCK_MONOTONIC for the real
/// clock, zero for the virtual one.
struct NodeTime {};
using TimePoint = std::chrono::time_point<NodeTime, Duration>;

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

/// Returns the nanoseconds from the axis's origin to a point in time.
[[nodiscard]] constexpr std::int64_t to_ns(TimePoint time) {
  return time.time_since_epoch().count();
}
/// Returns the point in time that is so many nanoseconds after the axis's origin.
[[nodiscard]] constexpr TimePoint at_ns(std::int64_t ns) {
  return TimePoint(Duration(ns));
}

/// Returns the duration nearest to a number of nanoseconds; halves round away from zero. Larger
/// numbers give the longest duration, and NaN gives zero.
[[nodiscard]] constexpr Duration from_nanoseconds(double nanoseconds) {
  constexpr double kEnd = 0x1p63;  // about 292 years
  if (nanoseconds >= kEnd) return Duration::max();
  if (nanoseconds < -kEnd) return Duration::min();
  if (nanoseconds != nanoseconds) return Duration(0);
  // Not std::llround, which is a function call: this runs for each operation that is queued.
  const auto whole = static_cast<std::int64_t>(nanoseconds);
  const double rest = nanoseconds - static_cast<double>(whole);
  return Duration(whole + (rest >= 0.5 ? 1 : 0) - (rest <= -0.5 ? 1 : 0));
}

/// As from_nanoseconds.
[[nodiscard]] constexpr Duration from_seconds(double seconds) {
  return from_nanoseconds(seconds * 1e9);
}
/// As from_nanoseconds.
[[nodiscard]] constexpr Duration from_milliseconds(double milliseconds) {
  return from_nanoseconds(milliseconds * 1e6);
}

}  // namespace gpemu
