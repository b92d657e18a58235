// SPDX-License-Identifier: Apache-2.0
#include "gpemu/calibrate/coverage.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace gpemu::calibrate {

double bar_of(std::vector<double> misses) {
  std::ranges::sort(misses);
  const auto held =
      static_cast<std::size_t>(std::ceil(kBarCoverage * static_cast<double>(misses.size() + 1)));
  return held <= misses.size() ? misses[held - 1] : std::numeric_limits<double>::infinity();
}

}  // namespace gpemu::calibrate
