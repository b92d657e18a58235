// SPDX-License-Identifier: Apache-2.0
#include "gpemu/report/number_text.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <fmt/format.h>

namespace gpemu::report {

std::string rounded(double value) {
  constexpr int kDigits = 4;
  if (!std::isfinite(value) || value == 0) return fmt::format("{:.0f}", value);
  // By its rounded value: 9.99996 is 10.00.
  const std::string scientific = fmt::format("{:.{}e}", value, kDigits - 1);
  const int exponent = std::stoi(scientific.substr(scientific.find('e') + 1));
  return fmt::format("{:.{}f}", value, std::max(kDigits - 1 - exponent, 0));
}

std::string waiting_time(std::chrono::duration<double> time) {
  constexpr double kLongest = 1e9;  // Some thirty years: nobody waits for it.
  const auto seconds =
      static_cast<std::int64_t>(std::ceil(std::clamp(time.count(), 0.0, kLongest)));
  if (seconds < 60) return fmt::format("{} s", seconds);
  const std::int64_t minutes = seconds / 60;
  if (minutes < 60) return fmt::format("{} min {} s", minutes, seconds % 60);
  const std::int64_t hours = minutes / 60;
  if (hours < 24) return fmt::format("{} h {} min", hours, minutes % 60);
  return fmt::format("{} d {} h", hours / 24, hours % 24);
}

}  // namespace gpemu::report
