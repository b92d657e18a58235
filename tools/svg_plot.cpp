// SPDX-License-Identifier: Apache-2.0
#include "svg_plot.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <span>
#include <string_view>

#include <fmt/format.h>

namespace gpemu::tools {
namespace {

/// A fill and the colour of text on it.
struct Colour {
  std::string_view fill;
  std::string_view text;
};

// Okabe and Ito's palette, which people with colour blindness can tell apart ("Color Universal
// Design", 2008), without black and yellow, and two greys.
constexpr auto kPalette = std::to_array<Colour>({
    {"#0072b2", "#ffffff"},
    {"#e69f00", "#1f2328"},
    {"#009e73", "#ffffff"},
    {"#d55e00", "#ffffff"},
    {"#56b4e9", "#1f2328"},
    {"#cc79a7", "#1f2328"},
    {"#57606a", "#ffffff"},
    {"#b1bac4", "#1f2328"},
});

constexpr std::string_view kInk = "#1f2328";
constexpr std::string_view kFaintInk = "#57606a";
constexpr std::string_view kGrid = "#e5e8eb";

constexpr double kWidth = 760;
constexpr double kPlotHeight = 300;
constexpr double kMargin = 18;
constexpr double kRightMargin = 28;  // half of the last tick's label reaches into it.
constexpr double kFontSize = 12;
constexpr double kTitleSize = 15;
// Mean advance of a sans-serif font's characters in units of its size; renderers differ a little.
constexpr double kCharacterWidth = 0.58;
constexpr double kLegendRow = 20;
constexpr double kAxisHeight = 44;  // tick labels and axis label below a plot.
constexpr double kTickSpacing = 65;
constexpr double kBarHeight = 26;
constexpr double kBarPitch = 38;
constexpr double kRoomForTotal = 42;  // right of the longest bar.
constexpr double kLaneHeight = 24;
constexpr double kLanePitch = 32;
constexpr std::size_t kMostExactSpans = 2000;

const Colour& colour(std::size_t index) {
  return kPalette.at(index % kPalette.size());
}

double text_width(std::string_view text) {
  return static_cast<double>(text.size()) * kCharacterWidth * kFontSize;
}

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&#39;";
        break;
      default:
        result += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
    }
  }
  return result;
}

struct Box {
  double left = 0;
  double top = 0;
  double width = 0;
  double height = 0;

  [[nodiscard]] double right() const { return left + width; }
  [[nodiscard]] double bottom() const { return top + height; }
};

enum class Anchor { kStart, kMiddle, kEnd };

/// Collects SVG elements; the drawing's size is known only at its end.
class Drawing {
 public:
  template <typename... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(body_), format, std::forward<Args>(args)...);
    body_ += '\n';
  }

  void text(double x, double y, std::string_view text, Anchor anchor = Anchor::kStart,
            std::string_view fill = kInk) {
    constexpr std::array<std::string_view, 3> kNames = {"start", "middle", "end"};
    add(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="{}" fill="{}">{}</text>)", x, y,
        kNames.at(static_cast<std::size_t>(anchor)), fill, escaped(text));
  }

  void line(double x1, double y1, double x2, double y2, std::string_view stroke) {
    add(R"(<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" stroke="{}"/>)", x1, y1, x2, y2,
        stroke);
  }

  void rectangle(const Box& box, std::string_view fill, double opacity = 1) {
    const std::string faded = opacity < 1 ? fmt::format(R"( fill-opacity="{:.2f}")", opacity) : "";
    add(R"(<rect x="{:.2f}" y="{:.1f}" width="{:.2f}" height="{:.1f}" fill="{}"{}/>)", box.left,
        box.top, box.width, box.height, fill, faded);
  }

  /// Draws the title and a legend below it; returns where the rest may begin.
  double heading(const std::string& title, std::span<const std::string> legend) {
    title_ = title;
    double y = kMargin + kTitleSize;
    add(R"(<text x="{:.1f}" y="{:.1f}" font-size="{:g}" font-weight="600" fill="{}">{}</text>)",
        kMargin, y, kTitleSize, kInk, escaped(title));
    double x = kMargin;
    y += legend.empty() ? 0 : kLegendRow;
    for (std::size_t i = 0; i < legend.size(); ++i) {
      const double width = 18 + text_width(legend[i]) + 16;
      if (x > kMargin && x + width > kWidth - kMargin) {
        x = kMargin;
        y += kLegendRow;
      }
      rectangle({x, y - 9, 11, 11}, colour(i).fill);
      text(x + 17, y + 1, legend[i]);
      x += width;
    }
    return y + 16;
  }

  [[nodiscard]] std::string finish(double height) const {
    return fmt::format(
        R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0:.0f}" height="{1:.0f}" )"
        R"(viewBox="0 0 {0:.0f} {1:.0f}" role="img" )"
        R"(font-family="system-ui, 'Liberation Sans', Arial, sans-serif" font-size="{2:g}">)"
        "\n<title>{3}</title>\n"
        R"(<rect width="100%" height="100%" fill="#ffffff"/>)"
        "\n{4}</svg>\n",
        kWidth, height, kFontSize, escaped(title_), body_);
  }

 private:
  std::string title_;
  std::string body_;
};

/// A linear axis whose ticks are multiples of 1, 2 or 5 times a power of ten.
class Axis {
 public:
  /// Covers the values from 0, or `low` if that is less, to `high`, with at most about `ticks`
  /// ticks.
  Axis(double low, double high, double ticks) : low_(std::min(low, 0.0)), high_(high) {
    if (!(high_ > low_)) high_ = low_ + 1;
    const double rough = (high_ - low_) / std::max(ticks, 1.0);
    const double power = std::pow(10, std::floor(std::log10(rough)));
    step_ = power * (rough <= power ? 1 : rough <= 2 * power ? 2 : rough <= 5 * power ? 5 : 10);
    low_ = std::floor(low_ / step_) * step_;
  }

  void round_up_high() { high_ = std::ceil(high_ / step_ - 1e-9) * step_; }

  [[nodiscard]] double share(double value) const { return (value - low_) / (high_ - low_); }

  [[nodiscard]] std::vector<double> ticks() const {
    std::vector<double> values;
    const double first = std::round(low_ / step_);
    for (int i = 0; (first + i) * step_ <= high_ + step_ * 1e-6; ++i) {
      values.push_back((first + i) * step_);
    }
    return values;
  }

  [[nodiscard]] std::string label(double tick) const {
    if (std::abs(tick) >= 1e6 || step_ < 1e-4) return fmt::format("{:g}", tick);
    const int decimals = std::max(0, static_cast<int>(-std::floor(std::log10(step_) + 1e-9)));
    return fmt::format("{:.{}f}", tick, decimals);
  }

 private:
  double low_;
  double high_;
  double step_ = 1;
};

void draw_x_axis(Drawing& drawing, const Axis& axis, const Box& plot, const std::string& label) {
  for (const double tick : axis.ticks()) {
    const double x = plot.left + axis.share(tick) * plot.width;
    drawing.line(x, plot.top, x, plot.bottom() + 4, kGrid);
    drawing.text(x, plot.bottom() + 17, axis.label(tick), Anchor::kMiddle, kFaintInk);
  }
  drawing.line(plot.left, plot.bottom(), plot.right(), plot.bottom(), kFaintInk);
  drawing.text(plot.left + plot.width / 2, plot.bottom() + 36, label, Anchor::kMiddle);
}

void draw_y_axis(Drawing& drawing, const Axis& axis, const Box& plot, const std::string& label) {
  for (const double tick : axis.ticks()) {
    const double y = plot.bottom() - axis.share(tick) * plot.height;
    drawing.line(plot.left, y, plot.right(), y, kGrid);
    drawing.text(plot.left - 7, y + 4, axis.label(tick), Anchor::kEnd, kFaintInk);
  }
  const double x = kMargin + kFontSize * 0.7;
  const double y = plot.top + plot.height / 2;
  drawing.add(
      R"svg(<text transform="translate({:.1f} {:.1f}) rotate(-90)" text-anchor="middle" )svg"
      R"(fill="{}">{}</text>)",
      x, y, kInk, escaped(label));
}

bool is_finite(const PlotPoint& point) {
  return std::isfinite(point.x) && std::isfinite(point.y);
}

/// The smallest and largest of the values that it was shown; 0 and 0 before the first.
struct Range {
  double low = 0;
  double high = -std::numeric_limits<double>::infinity();

  void include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

void draw_series(Drawing& drawing, const LineSeries& series, std::string_view stroke,
                 const auto& place) {
  std::string path;
  bool pen_down = false;
  for (const PlotPoint& point : series.points) {
    if (!is_finite(point)) {
      pen_down = false;
      continue;
    }
    const PlotPoint at = place(point);
    fmt::format_to(std::back_inserter(path), "{}{:.1f} {:.1f}", pen_down ? 'L' : 'M', at.x, at.y);
    pen_down = true;
    if (series.markers) {
      drawing.add(R"(<circle cx="{:.1f}" cy="{:.1f}" r="2.6" fill="{}"/>)", at.x, at.y, stroke);
    }
  }
  drawing.add(
      R"(<path d="{}" fill="none" stroke="{}" stroke-width="1.8" stroke-linejoin="round"/>)", path,
      stroke);
}

constexpr double kWidestLabelColumn = kWidth / 3;

/// Returns the width that a column of labels needs.
double label_column(double widest) {
  return std::min(widest + 12, kWidestLabelColumn);
}

void draw_label(Drawing& drawing, const Box& box, std::string label) {
  constexpr auto kMostCharacters =
      static_cast<std::size_t>((kWidestLabelColumn - 12) / (kCharacterWidth * kFontSize));
  if (label.size() > kMostCharacters) label = label.substr(0, kMostCharacters - 3) + "...";
  drawing.text(box.left - 8, box.top + box.height / 2 + 4, label, Anchor::kEnd);
}

// One entry per pixel column of a lane: how much of it each kind covers.
std::vector<std::vector<double>> pixel_coverage(const TimelineLane& lane, const Axis& axis,
                                                double width, std::size_t kinds) {
  const auto columns = static_cast<std::size_t>(width);
  std::vector<std::vector<double>> coverage(columns, std::vector<double>(kinds, 0.0));
  for (const TimelineSpan& span : lane.spans) {
    const double begin = std::clamp(axis.share(span.begin) * width, 0.0, width);
    const double end = std::clamp(axis.share(span.end) * width, 0.0, width);
    if (span.kind >= kinds) continue;
    for (auto i = static_cast<std::size_t>(begin); i < columns && static_cast<double>(i) < end;
         ++i) {
      const double left = std::max(begin, static_cast<double>(i));
      const double right = std::min(end, static_cast<double>(i) + 1);
      coverage[i][span.kind] += std::max(right - left, 0.0);
    }
  }
  return coverage;
}

/// What one pixel column of a dense lane looks like.
struct Pixel {
  std::size_t kind = 0;
  double opacity = 0;
  bool operator==(const Pixel&) const = default;
};

void draw_dense_lane(Drawing& drawing, const TimelineLane& lane, const Axis& axis, const Box& box,
                     std::size_t kinds) {
  const auto coverage = pixel_coverage(lane, axis, box.width, kinds);
  const auto pixel = [&](std::size_t i) {
    const std::vector<double>& shares = coverage[i];
    double total = 0;
    for (const double share : shares) total += share;
    const auto kind = std::ranges::max_element(shares) - shares.begin();
    // Eighths keep neighbours equal, so that they become one rectangle.
    return Pixel{static_cast<std::size_t>(kind), std::min(std::ceil(total * 8) / 8, 1.0)};
  };
  for (std::size_t begin = 0; begin < coverage.size();) {
    const Pixel first = pixel(begin);
    std::size_t end = begin + 1;
    while (end < coverage.size() && pixel(end) == first) ++end;
    if (first.opacity > 0) {
      drawing.rectangle({box.left + static_cast<double>(begin), box.top,
                         static_cast<double>(end - begin), box.height},
                        colour(first.kind).fill, first.opacity);
    }
    begin = end;
  }
}

void draw_exact_lane(Drawing& drawing, const TimelineLane& lane, const Axis& axis, const Box& box) {
  for (const TimelineSpan& span : lane.spans) {
    const double left = box.left + axis.share(span.begin) * box.width;
    const double right = box.left + axis.share(span.end) * box.width;
    drawing.rectangle({left, box.top, std::max(right - left, 0.05), box.height},
                      colour(span.kind).fill);
  }
}

void draw_bar(Drawing& drawing, const StackedBar& bar, const Axis& axis, const Box& box) {
  double total = 0;
  for (const double value : bar.values) total += value;
  double sum = 0;
  for (std::size_t i = 0; i < bar.values.size(); ++i) {
    const double left = box.left + axis.share(sum) * box.width;
    sum += bar.values[i];
    const double width = box.left + axis.share(sum) * box.width - left;
    if (!(width > 0)) continue;
    drawing.rectangle({left, box.top, width, box.height}, colour(i).fill);
    const std::string share = fmt::format("{:.0f} %", 100 * bar.values[i] / total);
    if (width > text_width(share) + 4) {
      drawing.text(left + width / 2, box.top + box.height / 2 + 4, share, Anchor::kMiddle,
                   colour(i).text);
    }
  }
  drawing.text(box.left + axis.share(sum) * box.width + 6, box.top + box.height / 2 + 4,
               fmt::format("{:.4g}", total));
}

}  // namespace

std::string line_plot_svg(const LinePlot& plot) {
  Range x_range;
  Range y_range;
  std::vector<std::string> names;
  for (const LineSeries& series : plot.series) {
    names.push_back(series.name);
    for (const PlotPoint& point : series.points) {
      if (!is_finite(point)) continue;
      x_range.include(point.x);
      y_range.include(point.y);
    }
  }
  const Axis x_axis(x_range.low, x_range.high, 9);
  Axis y_axis(y_range.low, y_range.high, 6);
  y_axis.round_up_high();

  Drawing drawing;
  const double top = drawing.heading(plot.title, names);
  double widest = 0;
  for (const double tick : y_axis.ticks()) {
    widest = std::max(widest, text_width(y_axis.label(tick)));
  }
  const double left = kMargin + kFontSize + 14 + widest;
  const Box box{left, top, kWidth - kRightMargin - left, kPlotHeight};
  draw_y_axis(drawing, y_axis, box, plot.y_label);
  draw_x_axis(drawing, x_axis, box, plot.x_label);
  const auto place = [&](const PlotPoint& point) {
    return PlotPoint{box.left + x_axis.share(point.x) * box.width,
                     box.bottom() - y_axis.share(point.y) * box.height};
  };
  for (std::size_t i = 0; i < plot.series.size(); ++i) {
    draw_series(drawing, plot.series[i], colour(i).fill, place);
  }
  return drawing.finish(box.bottom() + kAxisHeight);
}

std::string stacked_bars_svg(const StackedBars& plot) {
  Range range;
  double widest = 0;
  for (const StackedBar& bar : plot.bars) {
    double total = 0;
    for (const double value : bar.values) total += value;
    range.include(total);
    widest = std::max(widest, text_width(bar.label));
  }
  Drawing drawing;
  const double top = drawing.heading(plot.title, plot.parts);
  const double left = kMargin + label_column(widest);
  Box box{left, top, kWidth - kRightMargin - kRoomForTotal - left,
          kBarPitch * static_cast<double>(plot.bars.size())};
  const Axis axis(0, range.high, box.width / kTickSpacing);
  draw_x_axis(drawing, axis, box, plot.x_label);
  const double bottom = box.bottom();
  box.height = kBarHeight;
  box.top += (kBarPitch - kBarHeight) / 2;
  for (const StackedBar& bar : plot.bars) {
    draw_label(drawing, box, bar.label);
    draw_bar(drawing, bar, axis, box);
    box.top += kBarPitch;
  }
  return drawing.finish(bottom + kAxisHeight);
}

std::string timeline_svg(const Timeline& plot) {
  Range range;
  double widest = 0;
  for (const TimelineLane& lane : plot.lanes) {
    widest = std::max(widest, text_width(lane.label));
    for (const TimelineSpan& span : lane.spans) range.include(span.end);
  }
  Drawing drawing;
  const double top = drawing.heading(plot.title, plot.kinds);
  const double left = kMargin + label_column(widest);
  Box box{left, top, kWidth - kRightMargin - left,
          kLanePitch * static_cast<double>(plot.lanes.size())};
  const Axis axis(0, range.high, box.width / kTickSpacing);
  draw_x_axis(drawing, axis, box, plot.x_label);
  const double bottom = box.bottom();
  box.height = kLaneHeight;
  box.top += (kLanePitch - kLaneHeight) / 2;
  for (const TimelineLane& lane : plot.lanes) {
    draw_label(drawing, box, lane.label);
    if (lane.spans.size() > kMostExactSpans) {
      draw_dense_lane(drawing, lane, axis, box, plot.kinds.size());
    } else {
      draw_exact_lane(drawing, lane, axis, box);
    }
    box.top += kLanePitch;
  }
  return drawing.finish(bottom + kAxisHeight);
}

}  // namespace gpemu::tools
