// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace gpemu::report {

/// Returns a measured number with four significant digits, and all digits before the point.
[[nodiscard]] std::string rounded(double value);

/// Returns how long somebody has to wait, in the two largest units: "4 s", "3 min 20 s", "2 h 5
/// min", "3 d 4 h".
[[nodiscard]] std::string waiting_time(std::chrono::duration<double> time);

/// Returns what the name of something countable ends with: "" for one, "s" for others.
[[nodiscard]] constexpr std::string_view plural(std::int64_t count) {
  return count == 1 ? "" : "s";
}

}  // namespace gpemu::report
