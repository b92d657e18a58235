// SPDX-License-Identifier: Apache-2.0
#include "svg_plot.hpp"

#include <limits>
#include <string_view>

#include <gtest/gtest.h>

namespace gpemu::tools {
namespace {

int count(std::string_view text, std::string_view part) {
  int found = 0;
  for (auto at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

TEST(LinePlotSvg, EscapesWhatTheCallerNames) {
  const std::string svg = line_plot_svg({"a < b & \"c\"", "<x>", "y\n", {{"it's", {}, false}}});
  EXPECT_EQ(count(svg, "a &lt; b &amp; &quot;c&quot;"), 2);  // the heading and the SVG's title.
  EXPECT_EQ(count(svg, ">&lt;x&gt;<"), 1);
  EXPECT_EQ(count(svg, "it&#39;s"), 1);
  EXPECT_EQ(count(svg, "<x>"), 0);
  EXPECT_EQ(count(svg, "<text"), count(svg, "</text>"));
}

TEST(LinePlotSvg, PutsTicksOnRoundNumbers) {
  const std::string svg = line_plot_svg({"t", "x", "y", {{"s", {{1, 3.2}, {256, 184.3}}, false}}});
  EXPECT_EQ(count(svg, ">250</text>"), 1);  // x: 0, 50 ... 250.
  EXPECT_EQ(count(svg, ">200</text>"), 2);  // y ends on the tick above 184.3.
  EXPECT_EQ(count(svg, ">256</text>"), 0);
}

TEST(LinePlotSvg, LabelsFractionsWithTheDigitsTheyNeed) {
  const std::string svg = line_plot_svg({"t", "x", "y", {{"s", {{0, 0}, {0.9, 0.05}}, false}}});
  EXPECT_EQ(count(svg, ">0.1</text>"), 1);
  EXPECT_EQ(count(svg, ">0.01</text>"), 1);
}

TEST(LinePlotSvg, BreaksTheLineWhereAValueIsMissing) {
  constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();
  const std::string svg = line_plot_svg(
      {"t", "x", "y", {{"s", {{0, 1}, {1, 2}, {2, kMissing}, {3, 2}, {4, 1}}, true}}});
  const std::string path = svg.substr(svg.find("<path"));
  EXPECT_EQ(count(path.substr(0, path.find("/>")), "M"), 2);
  EXPECT_EQ(count(path.substr(0, path.find("/>")), "L"), 2);
  EXPECT_EQ(count(svg, "<circle"), 4);
  EXPECT_EQ(count(svg, "nan"), 0);
}

TEST(LinePlotSvg, DrawsAxesWithoutPoints) {
  const std::string svg = line_plot_svg({"t", "x", "y", {}});
  EXPECT_EQ(count(svg, "nan") + count(svg, "inf"), 0);
  EXPECT_EQ(count(svg, ">1.0</text>"), 2);
}

TEST(StackedBarsSvg, TellsSharesAndTotals) {
  const std::string svg = stacked_bars_svg(
      {"t", "time (s)", {"compute", "copy", "wait"}, {{"cold", {6, 0, 2}}, {"none", {0, 0, 0}}}});
  EXPECT_EQ(count(svg, ">75 %<"), 1);
  EXPECT_EQ(count(svg, ">25 %<"), 1);
  EXPECT_EQ(count(svg, ">8</text>"), 2);  // the bar's total and a tick.
  EXPECT_EQ(count(svg, "nan"), 0);
}

TEST(StackedBarsSvg, ShortensALabelThatLeavesNoRoom) {
  const std::string svg = stacked_bars_svg({"t", "x", {"a"}, {{std::string(100, 'm'), {1}}}});
  EXPECT_EQ(count(svg, std::string(40, 'm')), 0);
  EXPECT_EQ(count(svg, "mmm...</text>"), 1);
}

TEST(TimelineSvg, DrawsEachSpanOfAShortRun) {
  const std::string svg =
      timeline_svg({"t", "ms", {"compute", "copy"}, {{"GPU", {{0, 5, 0}, {5, 6, 1}, {6, 10, 0}}}}});
  EXPECT_EQ(count(svg, "<rect"), 1 + 2 + 3);  // background, legend, spans.
}

TEST(TimelineSvg, KeepsTheTextOfALongRunSmall) {
  Timeline plot{"t", "ms", {"compute", "copy"}, {{"GPU", {}}}};
  for (int i = 0; i < 100'000; ++i) {
    plot.lanes[0].spans.push_back({i + 0.0, i + 1.0, i < 50'000 ? 0U : 1U});
  }
  const std::string svg = timeline_svg(plot);
  EXPECT_EQ(count(svg, "<rect"), 1 + 2 + 2);  // each half is one rectangle.
  EXPECT_LT(svg.size(), 5'000U);
}

}  // namespace
}  // namespace gpemu::tools
