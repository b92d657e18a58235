// SPDX-License-Identifier: Apache-2.0
#include "gpemu/report/terminal_plot.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "gpemu/report/markup.hpp"

namespace gpemu::report {
namespace {

constexpr int kMostColumns = 64;  ///< of the plot itself.
constexpr int kRows = 14;
constexpr std::string_view kLetters = "ox+*#%@&";

char letter(std::size_t series) {
  return kLetters[series % kLetters.size()];
}

std::string tick(double value) {
  const bool has_few_digits = value >= 1000 && value < 1e7;
  return has_few_digits ? fmt::format("{:.0f}", value) : fmt::format("{:.4g}", value);
}

// The series' value at x on straight lines between its points; nothing outside of them.
std::optional<double> value_at(const std::vector<PlotPoint>& points, double x) {
  const auto right = std::ranges::lower_bound(points, x, {}, &PlotPoint::x);
  if (right == points.end()) return std::nullopt;
  if (right->x == x) return right->y;
  if (right == points.begin()) return std::nullopt;
  const auto left = right - 1;
  return left->y + (right->y - left->y) * (x - left->x) / (right->x - left->x);
}

/// Returns the name of the y axis and of each series, in as few lines as they need.
std::string legend(const LinePlot& plot, std::size_t columns) {
  std::string text = plot.y_label;
  std::size_t width = character_count(text);
  for (std::size_t i = 0; i < plot.series.size(); ++i) {
    const std::string entry = fmt::format("  {} {}", letter(i), plot.series[i].name);
    const bool fits = width + character_count(entry) <= columns;
    width = character_count(entry) + (fits ? width : 0);
    text += (fits ? "" : "\n") + entry;
  }
  return text;
}

}  // namespace

std::string terminal_plot(const LinePlot& plot, int columns) {
  double x_high = 0;
  double y_high = 0;
  for (const LineSeries& series : plot.series) {
    for (const PlotPoint& point : series.points) {
      x_high = std::max(x_high, point.x);
      y_high = std::max(y_high, point.y);
    }
  }
  if (!(x_high > 0) || !(y_high > 0)) return {};

  const std::string top = tick(y_high);
  const int room = std::min(kMostColumns, columns - static_cast<int>(top.size() + 2));
  std::vector<std::string> rows(kRows, std::string(static_cast<std::size_t>(room), ' '));
  for (std::size_t i = 0; i < plot.series.size(); ++i) {
    for (int column = 0; column < room; ++column) {
      const std::optional<double> y = value_at(plot.series[i].points, x_high * (column + 1) / room);
      if (!y) continue;
      const auto row = static_cast<std::size_t>(std::lround(*y / y_high * (kRows - 1)));
      rows.at(row).at(static_cast<std::size_t>(column)) = letter(i);
    }
  }
  std::string text = legend(plot, static_cast<std::size_t>(columns)) + "\n";
  for (int row = kRows - 1; row >= 0; --row) {
    std::string& cells = rows.at(static_cast<std::size_t>(row));
    cells.erase(cells.find_last_not_of(' ') + 1);
    const std::string_view label = row == kRows - 1 ? std::string_view(top) : row == 0 ? "0" : "";
    text += fmt::format("{:>{}} |{}\n", label, top.size(), cells);
  }
  const std::string end = tick(x_high);
  text += fmt::format("{:>{}} +{:-<{}}\n", "", top.size(), "", room);
  text += fmt::format("{:>{}}  0{:^{}}{}\n", "", top.size(), plot.x_label,
                      room - 1 - static_cast<int>(end.size()), end);
  return text;
}

}  // namespace gpemu::report
