// SPDX-License-Identifier: Apache-2.0
#include "terminal_plot.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>

namespace gpemu::tools {
namespace {

constexpr int kColumns = 64;
constexpr int kRows = 14;
constexpr std::string_view kLetters = "ox+*#%@&";

char letter(std::size_t series) {
  return kLetters[series % kLetters.size()];
}

std::string tick(double value) {
  return value < 1000 ? fmt::format("{:.4g}", value) : fmt::format("{:.0f}", value);
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

}  // namespace

std::string terminal_plot(const LinePlot& plot) {
  double x_high = 0;
  double y_high = 0;
  std::string legend;
  for (std::size_t i = 0; i < plot.series.size(); ++i) {
    legend += fmt::format("  {} {}", letter(i), plot.series[i].name);
    for (const PlotPoint& point : plot.series[i].points) {
      x_high = std::max(x_high, point.x);
      y_high = std::max(y_high, point.y);
    }
  }
  if (!(x_high > 0) || !(y_high > 0)) return {};

  std::vector<std::string> rows(kRows, std::string(kColumns, ' '));
  for (std::size_t i = 0; i < plot.series.size(); ++i) {
    for (int column = 0; column < kColumns; ++column) {
      const std::optional<double> y =
          value_at(plot.series[i].points, x_high * (column + 1) / kColumns);
      if (!y) continue;
      const auto row = static_cast<std::size_t>(std::lround(*y / y_high * (kRows - 1)));
      rows.at(row).at(static_cast<std::size_t>(column)) = letter(i);
    }
  }
  const std::string top = tick(y_high);
  std::string text = fmt::format("{}{}\n", plot.y_label, legend);
  for (int row = kRows - 1; row >= 0; --row) {
    std::string& cells = rows.at(static_cast<std::size_t>(row));
    cells.erase(cells.find_last_not_of(' ') + 1);
    const std::string_view label = row == kRows - 1 ? std::string_view(top) : row == 0 ? "0" : "";
    text += fmt::format("{:>{}} |{}\n", label, top.size(), cells);
  }
  const std::string end = tick(x_high);
  text += fmt::format("{:>{}} +{:-<{}}\n", "", top.size(), "", kColumns);
  text += fmt::format("{:>{}}  0{:^{}}{}\n", "", top.size(), plot.x_label,
                      kColumns - 1 - static_cast<int>(end.size()), end);
  return text;
}

}  // namespace gpemu::tools
