// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace gpemu::cost {

/// A positive number of a model that a fit chooses. Fits handle its natural logarithm: what they
/// expect, allow and differentiate by is relative.
struct Parameter {
  std::string_view name;
  double typical = 1;  ///< what is expected before any data, in the parameter's own unit.
  /// Standard deviations of logarithms: of what all GPUs share from `typical`, and of one GPU's
  /// value from what they share.
  double shared_spread = 1;
  double own_spread = 1;
  double least = 0;  ///< physical bounds, 0 < least < most.
  double most = 0;
};

}  // namespace gpemu::cost
