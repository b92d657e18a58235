// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "gpemu/report/colour.hpp"

namespace gpemu::report {

/// Plots as self-contained SVG text: a white background, no script, no external font, all labels
/// escaped, so that the text works as a file and inside an HTML page. The same input gives the same
/// text. Why SVG and no library: docs/design/reports.md.

/// The width of a plot: for a page or a paper's text, or for a phone or a column. Text has the same
/// size in both.
enum class PlotWidth : std::uint8_t { kWide, kNarrow };

struct PlotPoint {
  double x = 0;
  double y = 0;
  /// The interval in which y lies, if it is known.
  double low = std::numeric_limits<double>::quiet_NaN();
  double high = std::numeric_limits<double>::quiet_NaN();
};

/// A line through its points in the order given; a point that is not finite breaks the line.
struct LineSeries {
  std::string name;
  std::vector<PlotPoint> points;
  bool markers = false;  ///< a dot on every point, and intervals as error bars instead of a band.
  Colour colour = Colour::kCompute;
};

/// Lines over two linear axes. Both axes start at zero unless a value is negative.
struct LinePlot {
  std::string title;
  std::string x_label;  ///< with its unit, e.g. "batch size".
  std::string y_label;  ///< with its unit, e.g. "forward (ms)".
  std::vector<LineSeries> series;
};

[[nodiscard]] std::string line_plot_svg(const LinePlot& plot, PlotWidth width = PlotWidth::kWide);

/// A kind of part of a bar or of span of a timeline.
struct PlotPart {
  std::string name;  ///< in the legend; empty: not there.
  Colour colour = Colour::kUnknown;
};

/// One horizontal bar, split into the parts that StackedBars::parts names.
struct StackedBar {
  std::string label;
  std::vector<double> values;  ///< one per part, not negative; missing ones are zero.
  double relative_error = 0;   ///< the truth is between sum / (1 + this) and sum x (1 + this).
  std::string note;            ///< in place of the bar, if it has no values.
};

/// Horizontal stacked bars over one axis, e.g. where the time of several runs went.
struct StackedBars {
  std::string title;
  std::string x_label;  ///< e.g. "time".
  std::string unit;     ///< of the values, e.g. "s"; empty: x_label says it.
  std::vector<PlotPart> parts;
  std::vector<StackedBar> bars;
};

[[nodiscard]] std::string stacked_bars_svg(const StackedBars& plot,
                                           PlotWidth width = PlotWidth::kWide);

struct TimelineSpan {
  double begin = 0;
  double end = 0;
  std::size_t kind = 0;  ///< index into Timeline::kinds.
  std::string name;      ///< shown when the pointer rests on it; empty: the name of its kind.
};

struct TimelineLane {
  std::string label;
  std::vector<TimelineSpan> spans;
};

/// Lanes of coloured spans over a time axis, e.g. what each engine did. A page can zoom into it.
struct Timeline {
  std::string title;
  std::string unit;  ///< of the time, e.g. "ms".
  std::vector<PlotPart> kinds;
  std::vector<TimelineLane> lanes;
};

[[nodiscard]] std::string timeline_svg(const Timeline& plot, PlotWidth width = PlotWidth::kWide);

}  // namespace gpemu::report
