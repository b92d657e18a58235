// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "svg_plot.hpp"

namespace gpemu::tools {

/// Returns a plot as a few lines of text, for a look at its shape: each series is drawn with a
/// letter of its own, straight from point to point. Both axes start at zero. Empty without points.
///
/// Requires: each series ascends in x, and no value is negative.
[[nodiscard]] std::string terminal_plot(const LinePlot& plot);

}  // namespace gpemu::tools
