// SPDX-License-Identifier: Apache-2.0
#include "gpemu/report/terminal_plot.hpp"

#include <algorithm>
#include <sstream>
#include <vector>

#include <gtest/gtest.h>

namespace gpemu::report {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(TerminalPlot, DrawsTheLargestValueInTheUpperRightCorner) {
  const auto lines =
      lines_of(terminal_plot({"", "batch", "ms", {{"up", {{0, 0}, {64, 50}}, false}}}, 80));
  ASSERT_EQ(lines.size(), 17U);  // legend, 14 rows, axis, x labels.
  EXPECT_EQ(lines[0], "ms  o up");
  EXPECT_TRUE(lines[1].starts_with("50 |"));
  EXPECT_EQ(lines[1].size(), 4U + 64);
  EXPECT_EQ(lines[1].back(), 'o');
  EXPECT_TRUE(lines[14].starts_with(" 0 |o"));
  EXPECT_EQ(lines[16].find("64"), 4U + 64 - 2);
}

TEST(TerminalPlot, IsNoWiderThanTheTerminal) {
  const LinePlot plot = {
      "", "batch", "time (ms)", {{"one", {{0, 0}, {64, 50}}, false}, {"another", {}, false}}};
  const auto lines = lines_of(terminal_plot(plot, 20));
  ASSERT_EQ(lines.size(), 18U);
  EXPECT_EQ(lines[0], "time (ms)  o one");
  EXPECT_EQ(lines[1], "  x another");
  EXPECT_EQ(lines[2], "50 |               o");
  EXPECT_EQ(lines[16], "   +----------------");
  EXPECT_EQ(lines[17], "    0    batch    64");
}

TEST(TerminalPlot, DrawsNothingWhereASeriesHasNoPoints) {
  const std::string text = terminal_plot(
      {"", "batch", "ms", {{"long", {{0, 1}, {64, 1}}, false}, {"s", {{16, 2}, {32, 2}}, false}}},
      80);
  EXPECT_EQ(std::ranges::count(text, 'x'), 1 + 17);  // in the legend; columns 16 to 32.
}

TEST(TerminalPlot, IsEmptyWithoutPoints) {
  EXPECT_EQ(terminal_plot({"", "x", "y", {{"s", {}, false}}}, 80), "");
}

}  // namespace
}  // namespace gpemu::report
