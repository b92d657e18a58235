// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace gpemu::profile {

/// Measured shares by a count, with straight lines between them. Constant after the last.
struct ShareCurve {
  struct Point {
    double x = 0, y = 0;
  };
  std::vector<Point> points;  ///< ascending in x, from [1, 1]; without any, all shares are 1.

  [[nodiscard]] double at(double x) const;
};

}  // namespace gpemu::profile
