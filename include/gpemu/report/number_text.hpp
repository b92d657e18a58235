// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace gpemu::report {

/// Returns a measured number with four significant digits, and all digits before the point.
[[nodiscard]] std::string rounded(double value);

/// Returns a waiting time in its two largest units: "4 s", "3 min 20 s", "2 h 5 min", "3 d 4 h".
[[nodiscard]] std::string waiting_time(std::chrono::duration<double> time);

/// Returns the ending of a noun: "" for one, "s" for other numbers.
[[nodiscard]] constexpr std::string_view plural(std::int64_t count) {
  return count == 1 ? "" : "s";
}

}  // namespace gpemu::report
