// SPDX-License-Identifier: Apache-2.0
#include "gpemu/report/svg_plot.hpp"

#include <limits>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/report/markup.hpp"

namespace gpemu::report {
namespace {

int count(std::string_view text, std::string_view part) {
  int found = 0;
  for (auto at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

TEST(LinePlotSvg, EscapesWhatTheCallerNames) {
  const std::string svg = line_plot_svg({"a < b & \"c\"", "<x>", "y\n", {{.name = "it's"}}});
  EXPECT_EQ(count(svg, "a &lt; b &amp; &quot;c&quot;"), 2);  // the heading and the SVG's title.
  EXPECT_EQ(count(svg, ">&lt;x&gt;<"), 1);
  EXPECT_EQ(count(svg, "it&#39;s"), 2);  // the legend and the name in a tip.
  EXPECT_EQ(count(svg, "<x>"), 0);
  EXPECT_EQ(count(svg, "<text"), count(svg, "</text>"));
}

TEST(LinePlotSvg, PutsTicksOnRoundNumbers) {
  const std::string svg =
      line_plot_svg({"t", "x", "y", {{.name = "s", .points = {{1, 3.2}, {256, 184.3}}}}});
  EXPECT_EQ(count(svg, ">250</text>"), 1);  // x: 0, 50 ... 250.
  EXPECT_EQ(count(svg, ">200</text>"), 2);  // y ends on the tick above 184.3.
  EXPECT_EQ(count(svg, ">256</text>"), 0);
}

TEST(LinePlotSvg, LabelsFractionsWithTheDigitsTheyNeed) {
  const std::string svg =
      line_plot_svg({"t", "x", "y", {{.name = "s", .points = {{0, 0}, {0.9, 0.05}}}}});
  EXPECT_EQ(count(svg, ">0.1</text>"), 1);
  EXPECT_EQ(count(svg, ">0.01</text>"), 1);
}

TEST(LinePlotSvg, BreaksTheLineWhereAValueIsMissing) {
  constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();
  const std::string svg =
      line_plot_svg({"t",
                     "x",
                     "y",
                     {{.name = "s",
                       .points = {{0, 1}, {1, 2}, {2, kMissing}, {3, 2}, {4, 1}},
                       .markers = true}}});
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

TEST(LinePlotSvg, DrawsIntervalsAsABandOrAsErrorBars) {
  LineSeries series{.name = "s", .points = {{0, 2, 1, 4}, {1, 2, 1, 4}}};
  const std::string band = line_plot_svg({"t", "x", "y", {series}});
  EXPECT_EQ(count(band, "fill-opacity"), 1);
  series.markers = true;
  const std::string bars = line_plot_svg({"t", "x", "y", {series}});
  EXPECT_EQ(count(bars, "fill-opacity"), 0);
  EXPECT_EQ(count(bars, "m-3 0h6"), 2);
  EXPECT_EQ(count(bars, ">4</text>"), 1);  // the axis reaches the interval's end.
}

TEST(StackedBarsSvg, TellsSharesAndTotals) {
  const std::string svg = stacked_bars_svg({"t",
                                            "time",
                                            "s",
                                            {{"compute"}, {"copy"}, {"wait"}},
                                            {{"cold", {6, 0, 2}}, {"none", {0, 0, 0}}}});
  EXPECT_EQ(count(svg, ">time (s)<"), 1);
  EXPECT_EQ(count(svg, "<title>cold, wait: 2 s (25.0 %)</title>"), 1);
  EXPECT_EQ(count(svg, ">75 %<"), 1);
  EXPECT_EQ(count(svg, ">25 %<"), 1);
  EXPECT_EQ(count(svg, ">8.000</text>"), 1);
  EXPECT_EQ(count(svg, "nan"), 0);
}

TEST(StackedBarsSvg, ShortensALabelThatLeavesNoRoom) {
  const std::string svg =
      stacked_bars_svg({"t", "x", "s", {{"a"}}, {{std::string(100, 'm'), {1}}}});
  EXPECT_EQ(count(svg, "\">" + std::string(40, 'm')), 0);
  EXPECT_EQ(count(svg, "mmm…</text>"), 1);
}

TEST(StackedBarsSvg, ShowsLabelsThatFitWholeAndNamesOnlyWhatOccurs) {
  const std::string svg = stacked_bars_svg(
      {"t", "time", "s", {{"copy"}, {"wait"}}, {{"compute engine", {1, 0}}, {"epoch 1", {2}}}});
  EXPECT_EQ(count(svg, ">compute engine</text>"), 1);
  EXPECT_EQ(count(svg, ">copy</text>"), 1);
  EXPECT_EQ(count(svg, ">wait</text>"), 0);
}

TEST(StackedBarsSvg, DrawsTheErrorBarOfATotalAndSaysWhyThereIsNoBar) {
  const std::string svg =
      stacked_bars_svg({"t",
                        "time",
                        "ms",
                        {{"compute", Colour::kCompute}},
                        {{.label = "T4", .values = {8}, .relative_error = 0.25},
                         {.label = "K80", .values = {}, .note = "does not fit"}}});
  EXPECT_EQ(count(svg, "0 -4v8"), 1);
  EXPECT_EQ(count(svg, ">10</text>"), 1);  // the axis reaches 8 x 1.25.
  EXPECT_EQ(count(svg, ">does not fit</text>"), 1);
}

TEST(StackedBarsSvg, PaintsACauseInItsOwnColourWhereverItStands) {
  const auto fill = [](std::vector<PlotPart> parts) {
    const std::string svg =
        stacked_bars_svg({"t", "time", "s", parts, {{"b", std::vector(parts.size(), 1.0)}}});
    const std::size_t tip = svg.find("b, storage:");
    const std::size_t at = svg.rfind("fill=", tip);
    return svg.substr(at, svg.find('>', at) - at);
  };
  EXPECT_EQ(fill({{"storage", Colour::kHostWait}, {"other", Colour::kHostWork}}),
            fill({{"other", Colour::kHostWork}, {"storage", Colour::kHostWait}}));
}

TEST(TimelineSvg, DrawsEachSpanOfAShortRun) {
  const std::string svg = timeline_svg(
      {"t", "ms", {{"compute"}, {"copy"}}, {{"GPU", {{0, 5, 0}, {5, 6, 1}, {6, 10, 0}}}}});
  EXPECT_EQ(count(svg, "<rect"), 1 + 2 + 3);  // background, legend, spans.
}

TEST(TimelineSvg, DrawsSpansInUnitsOfTimeSoThatAPageCanZoom) {
  const std::string svg = timeline_svg(
      {"t", "ms", {{"compute"}}, {{"GPU", {{0.125, 0.25, 0, "step 1"}, {7, 10, 0, ""}}}}});
  EXPECT_EQ(count(svg, "viewBox=\"0 0 10 "), 1);
  EXPECT_EQ(count(svg, "x=\"0.125\""), 1);
  EXPECT_EQ(count(svg, "<title>step 1: 0.125 ms from 0.125</title>"), 1);
  EXPECT_EQ(count(svg, "<title>compute: 3 ms from 7</title>"), 1);
}

TEST(Markup, ShortensBetweenCharacters) {
  EXPECT_EQ(shortened("größer", 6), "größer");
  EXPECT_EQ(shortened("größer", 5), "größ…");
  EXPECT_EQ(shortened("größer", 3), "gr…");
  EXPECT_EQ(shortened("größer", 1), "…");
}

}  // namespace
}  // namespace gpemu::report
