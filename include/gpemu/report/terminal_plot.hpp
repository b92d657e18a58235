// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "gpemu/report/svg_plot.hpp"

namespace gpemu::report {

/// Returns a plot as a few lines of text that show its shape: each series is drawn with its own
/// letter, straight from point to point. Both axes start at zero. Empty without points. No line is
/// wider than `columns`, unless a name is.
///
/// Requires: each series ascends in x, no value is negative, and 20 columns or more.
[[nodiscard]] std::string terminal_plot(const LinePlot& plot, int columns);

}  // namespace gpemu::report
