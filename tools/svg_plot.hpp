// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace gpemu::tools {

/// Plots as self-contained SVG text: a white background, no script, no external font, all labels
/// escaped, so that the text works as a file and inside an HTML page. Same input, same text.

struct PlotPoint {
  double x = 0;
  double y = 0;
};

/// A line through its points in the order given; a point that is not finite breaks the line.
struct LineSeries {
  std::string name;
  std::vector<PlotPoint> points;
  bool markers = false;  ///< a dot on every point.
};

/// Lines over two linear axes. Both axes start at zero unless a value is negative.
struct LinePlot {
  std::string title;
  std::string x_label;  ///< with its unit, e.g. "batch size".
  std::string y_label;  ///< with its unit, e.g. "forward (ms)".
  std::vector<LineSeries> series;
};

[[nodiscard]] std::string line_plot_svg(const LinePlot& plot);

/// One horizontal bar, split into the parts that StackedBars::parts names.
struct StackedBar {
  std::string label;
  std::vector<double> values;  ///< one per part, not negative; missing ones are zero.
};

/// Horizontal stacked bars over one axis, e.g. where the time of several runs went.
struct StackedBars {
  std::string title;
  std::string x_label;  ///< with its unit, e.g. "time (s)".
  std::vector<std::string> parts;
  std::vector<StackedBar> bars;
};

[[nodiscard]] std::string stacked_bars_svg(const StackedBars& plot);

struct TimelineSpan {
  double begin = 0;
  double end = 0;
  std::size_t kind = 0;  ///< index into Timeline::kinds.
};

struct TimelineLane {
  std::string label;
  std::vector<TimelineSpan> spans;
};

/// Lanes of coloured spans over a time axis, e.g. what each engine did. A lane of thousands of
/// spans is drawn pixel by pixel, each in the colour that covers most of it, so that the text stays
/// small however long the run was.
struct Timeline {
  std::string title;
  std::string x_label;  ///< with its unit, e.g. "time (ms)".
  std::vector<std::string> kinds;
  std::vector<TimelineLane> lanes;
};

[[nodiscard]] std::string timeline_svg(const Timeline& plot);

}  // namespace gpemu::tools
