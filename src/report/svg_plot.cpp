// SPDX-License-Identifier: Apache-2.0
#include "gpemu/report/svg_plot.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string_view>

#include <fmt/format.h>

#include "gpemu/report/markup.hpp"

#include "svg_drawing.hpp"

namespace gpemu::report {
namespace {

constexpr double kPlotHeight = 260;
constexpr double kTickSpacing = 65;
constexpr double kBarHeight = 22;
constexpr double kBarPitch = 32;
constexpr double kLaneHeight = 24;
constexpr double kLanePitch = 32;
constexpr double kLabelHeight = 17;  // of a row's label where it stands above the row.
constexpr double kLeastGap = 8;      // between a bar and the text after it.
constexpr double kHalfLabel = 10;    // half of the width of a tick's label below the left end.

double width_of(PlotWidth width) {
  return width == PlotWidth::kWide ? 760 : 360;
}

bool is_finite(const PlotPoint& point) {
  return std::isfinite(point.x) && std::isfinite(point.y);
}

bool has_interval(const PlotPoint& point) {
  return is_finite(point) && std::isfinite(point.low) && std::isfinite(point.high);
}

/// The smallest and largest of the values that it was shown; 0 and 0 before the first.
struct Range {
  double low = 0;
  double high = -std::numeric_limits<double>::infinity();

  void include(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

/// Draws one line of a plot; `place` turns values into pixels.
class SeriesPen {
 public:
  SeriesPen(Drawing& drawing, const LineSeries& series, const Axis& x, const Axis& y,
            const Box& box)
      : drawing_(drawing), series_(series), x_(x), y_(y), box_(box) {}

  void draw() {
    if (series_.markers) {
      draw_error_bars();
    } else {
      draw_band();
    }
    draw_line();
  }

 private:
  [[nodiscard]] double left(double x) const { return box_.left + x_.share(x) * box_.width; }
  [[nodiscard]] double top(double y) const { return box_.bottom() - y_.share(y) * box_.height; }
  [[nodiscard]] int number() const { return static_cast<int>(series_.colour); }
  [[nodiscard]] std::string_view paint() const { return shade(series_.colour).light; }

  void draw_error_bars() {
    std::string path;
    for (const PlotPoint& point : series_.points) {
      if (!has_interval(point)) continue;
      fmt::format_to(std::back_inserter(path), "M{0:.1f} {1:.1f}V{2:.1f}m-3 0h6M{3:.1f} {1:.1f}h6",
                     left(point.x), top(point.low), top(point.high), left(point.x) - 3);
    }
    if (path.empty()) return;
    drawing_.add(R"(<path class="l{}" d="{}" fill="none" stroke="{}"/>)", number(), path, paint());
  }

  void draw_band() {
    std::string upper, lower;
    for (const PlotPoint& point : series_.points) {
      if (!has_interval(point)) continue;
      fmt::format_to(std::back_inserter(upper), "{}{:.1f} {:.1f}", upper.empty() ? 'M' : 'L',
                     left(point.x), top(point.high));
      lower.insert(0, fmt::format("L{:.1f} {:.1f}", left(point.x), top(point.low)));
    }
    if (upper.empty()) return;
    drawing_.add(R"(<path class="c{}" d="{}{}Z" fill="{}" fill-opacity="0.22"/>)", number(), upper,
                 lower, paint());
  }

  void draw_line() {
    std::string path, values;
    bool pen_down = false;
    for (const PlotPoint& point : series_.points) {
      if (!is_finite(point)) {
        pen_down = false;
        continue;
      }
      fmt::format_to(std::back_inserter(path), "{}{:.1f} {:.1f}", pen_down ? 'L' : 'M',
                     left(point.x), top(point.y));
      fmt::format_to(std::back_inserter(values), "{}{:.6g} {:.5g}", values.empty() ? "" : " ",
                     point.x, point.y);
      pen_down = true;
      if (series_.markers) {
        drawing_.add(R"(<circle class="c{}" cx="{:.1f}" cy="{:.1f}" r="2.6" fill="{}"/>)", number(),
                     left(point.x), top(point.y), paint());
      }
    }
    drawing_.add(R"(<path class="l{}" d="{}" fill="none" stroke="{}" stroke-width="1.6" )"
                 R"(stroke-linejoin="round" data-name="{}" data-xy="{}"/>)",
                 number(), path, paint(), escaped(series_.name), values);
  }

  Drawing& drawing_;
  const LineSeries& series_;
  const Axis& x_;
  const Axis& y_;
  const Box& box_;
};

std::string box_attributes(const Box& box, const Axis& x) {
  return fmt::format(R"( data-box="{:.1f} {:.1f} {:.1f} {:.1f}" data-x="{:.9g} {:.9g}")", box.left,
                     box.top, box.width, box.height, x.low(), x.high());
}

/// The rows of a plot: labels at the left where there is room, else above each row.
class Rows {
 public:
  Rows(double width, double top, double pitch, double height, const auto& rows)
      : above_(width < 500),
        top_(top),
        pitch_(pitch + (above_ ? kLabelHeight : 0)),
        height_(height) {
    double widest = 0;
    for (const auto& row : rows) widest = std::max(widest, text_width(row.label));
    left_ = kMargin + (above_ ? kHalfLabel : std::min(widest + 10, width / 3));
    count_ = static_cast<double>(rows.size());
  }

  [[nodiscard]] double left() const { return left_; }
  [[nodiscard]] double height() const { return pitch_ * count_; }

  /// Returns where a row's bar begins, and its height.
  [[nodiscard]] Box row(std::size_t index, double width) const {
    return {left_,
            top_ + pitch_ * static_cast<double>(index) +
                (above_ ? kLabelHeight + 2 : (pitch_ - height_) / 2),
            width, height_};
  }

  void draw_label(Drawing& drawing, const Box& row, std::string_view label) const {
    if (above_) {
      drawing.text(row.left, row.top - 5, label);
      return;
    }
    std::string shown(label);
    for (std::size_t most = character_count(label);
         most > 1 && text_width(shown) > left_ - kMargin - 8;) {
      shown = shortened(label, --most);
    }
    drawing.text(left_ - 8, row.top + row.height / 2 + 4, shown, Anchor::kEnd);
  }

 private:
  bool above_;
  double top_;
  double pitch_;
  double height_;
  double left_ = 0;
  double count_ = 0;
};

/// Returns a legend of the parts that occur.
std::vector<LegendEntry> legend_of(const std::vector<PlotPart>& parts, const auto& occurs) {
  std::vector<LegendEntry> legend;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (occurs(i) && !parts[i].name.empty()) legend.push_back({parts[i].name, parts[i].colour});
  }
  return legend;
}

double sum_of(const StackedBar& bar) {
  return std::accumulate(bar.values.begin(), bar.values.end(), 0.0);
}

/// Returns a total with as many decimals as leave the largest one four digits.
std::string total_text(double total, double largest) {
  const int whole_digits = largest > 0 ? static_cast<int>(std::floor(std::log10(largest))) : 0;
  return fmt::format("{:.{}f}", total, std::clamp(3 - whole_digits, 0, 6));
}

/// Draws the 90 % interval of a bar.
void draw_error(Drawing& drawing, double low, double high, const Box& row) {
  const double middle = row.top + row.height / 2;
  drawing.add(R"(<path class="l{}" d="M{:.1f} {:.1f}H{:.1f}m0 -4v8M{:.1f} {:.1f}v8" fill="none" )"
              R"(stroke="{}" stroke-width="1.4"/>)",
              static_cast<int>(Colour::kTotal), low, middle, high, low, middle - 4,
              shade(Colour::kTotal).light);
}

double largest_of(const StackedBars& plot) {
  double largest = 0;
  for (const StackedBar& bar : plot.bars) largest = std::max(largest, sum_of(bar));
  return largest;
}

void draw_bar(Drawing& drawing, const StackedBars& plot, const StackedBar& bar, const Axis& axis,
              const Box& row) {
  const double total = sum_of(bar);
  const double middle = row.top + row.height / 2 + 4;
  if (!(total > 0) && !bar.note.empty()) {
    drawing.faint_text(row.left + kLeastGap, middle, bar.note, Anchor::kStart);
    return;
  }
  const auto place = [&](double value) { return row.left + axis.share(value) * row.width; };
  const double low = total / (1 + bar.relative_error);
  double sum = 0;
  for (std::size_t i = 0; i < std::min(bar.values.size(), plot.parts.size()); ++i) {
    const double value = bar.values[i];
    const double left = place(sum);
    sum += value;
    const double width = place(sum) - left;
    if (!(width > 0)) continue;
    const PlotPart& part = plot.parts[i];
    drawing.rectangle({left, row.top, width, row.height}, part.colour,
                      fmt::format("{}, {}: {:.4g} {} ({:.1f} %)", bar.label, part.name, value,
                                  plot.unit, 100 * value / total));
    const std::string share = fmt::format("{:.0f} %", 100 * value / total);
    // The error bar would lie on a share that is written below it.
    const double free = bar.relative_error > 0 ? std::min(width, place(low) - left) : width;
    if (plot.parts.size() > 1 && free > text_width(share) + 6) {
      drawing.add(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="middle" fill="{}">{}</text>)",
                  left + free / 2, middle, shade(part.colour).ink, share);
    }
  }
  const double high = total * (1 + bar.relative_error);
  if (bar.relative_error > 0) draw_error(drawing, place(low), place(high), row);
  drawing.text(place(high) + kLeastGap, middle, total_text(total, largest_of(plot)));
}

}  // namespace

std::string line_plot_svg(const LinePlot& plot, PlotWidth width) {
  Range x_range;
  Range y_range;
  std::vector<LegendEntry> names;
  for (const LineSeries& series : plot.series) {
    names.push_back({series.name, series.colour});
    for (const PlotPoint& point : series.points) {
      if (!is_finite(point)) continue;
      x_range.include(point.x);
      for (const double y : {point.y, point.low, point.high}) y_range.include(y);
    }
  }
  const double whole = width_of(width);
  const Axis x_axis(x_range.low, x_range.high, (whole - 60) / kTickSpacing);
  Axis y_axis(y_range.low, y_range.high, 6);
  y_axis.round_up_high();

  Drawing drawing(whole);
  const double top = drawing.heading(plot.title, names) + 24;
  const double left = kMargin + y_axis.widest_label() + 8;
  const double right = std::max(16.0, x_axis.widest_label() / 2 + kMargin);
  const Box box{left, top, whole - right - left, kPlotHeight};
  draw_y_axis(drawing, y_axis, box, plot.y_label);
  draw_x_axis(drawing, x_axis, box, plot.x_label, false);
  for (const LineSeries& series : plot.series) {
    SeriesPen(drawing, series, x_axis, y_axis, box).draw();
  }
  return drawing.finish(box.bottom() + kXAxisHeight,
                        fmt::format(R"( class="lines"{} data-label="{}")",
                                    box_attributes(box, x_axis), escaped(plot.x_label)));
}

std::string stacked_bars_svg(const StackedBars& plot, PlotWidth width) {
  Range range;
  double room_for_total = 0;
  for (const StackedBar& bar : plot.bars) {
    range.include(sum_of(bar) * (1 + bar.relative_error));
    room_for_total =
        std::max(room_for_total, text_width(total_text(sum_of(bar), largest_of(plot))) + kLeastGap);
  }
  const double whole = width_of(width);
  Drawing drawing(whole);
  const auto occurs = [&plot](std::size_t part) {
    return std::ranges::any_of(plot.bars, [part](const StackedBar& bar) {
      return part < bar.values.size() && bar.values[part] > 0;
    });
  };
  const double top = drawing.heading(plot.title, legend_of(plot.parts, occurs));
  const Rows rows(whole, top, kBarPitch, kBarHeight, plot.bars);
  const double length = whole - kMargin - room_for_total - rows.left();
  const Box box{rows.left(), top, length, rows.height()};
  const Axis axis(0, range.high, length / kTickSpacing);
  const std::string x_label =
      plot.unit.empty() ? plot.x_label : fmt::format("{} ({})", plot.x_label, plot.unit);
  draw_x_axis(drawing, axis, box, x_label, true);
  for (std::size_t i = 0; i < plot.bars.size(); ++i) {
    const Box row = rows.row(i, length);
    rows.draw_label(drawing, row, plot.bars[i].label);
    draw_bar(drawing, plot, plot.bars[i], axis, row);
  }
  return drawing.finish(box.bottom() + kXAxisHeight);
}

std::string timeline_svg(const Timeline& plot, PlotWidth width) {
  Range range;
  for (const TimelineLane& lane : plot.lanes) {
    for (const TimelineSpan& span : lane.spans) range.include(span.end);
  }
  const double whole = width_of(width);
  Drawing drawing(whole);
  const auto occurs = [&plot](std::size_t kind) {
    return std::ranges::any_of(plot.lanes, [kind](const TimelineLane& lane) {
      return std::ranges::find(lane.spans, kind, &TimelineSpan::kind) != lane.spans.end();
    });
  };
  const double top = drawing.heading(plot.title, legend_of(plot.kinds, occurs));
  const Rows rows(whole, top, kLanePitch, kLaneHeight, plot.lanes);
  const double length = whole - 22 - rows.left();
  const Box box{rows.left(), top, length, rows.height()};
  const Axis axis(0, range.high, length / kTickSpacing);
  draw_x_axis(drawing, axis, box, fmt::format("time ({})", plot.unit), true);
  for (std::size_t i = 0; i < plot.lanes.size(); ++i) {
    rows.draw_label(drawing, rows.row(i, length), plot.lanes[i].label);
  }
  // Spans are drawn in units of time, so that a page zooms by changing the inner view.
  drawing.add(R"(<svg class="spans" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" )"
              R"(viewBox="0 0 {:.9g} {:.1f}" preserveAspectRatio="none">)",
              box.left, box.top, box.width, box.height, axis.high(), box.height);
  const double least = axis.high() / 1e5;
  for (std::size_t i = 0; i < plot.lanes.size(); ++i) {
    const Box row = rows.row(i, length);
    for (const TimelineSpan& span : plot.lanes[i].spans) {
      const PlotPart& kind = plot.kinds.at(span.kind);
      drawing.add(
          R"(<rect class="c{}" x="{:.9g}" y="{:.1f}" width="{:.6g}" height="{:.1f}" fill="{}">)"
          R"(<title>{}: {:.4g} {} from {:.6g}</title></rect>)",
          static_cast<int>(kind.colour), span.begin, row.top - top,
          std::max(span.end - span.begin, least), row.height, shade(kind.colour).light,
          escaped(span.name.empty() ? kind.name : span.name), span.end - span.begin, plot.unit,
          span.begin);
    }
  }
  drawing.add("</svg>");
  return drawing.finish(box.bottom() + kXAxisHeight,
                        fmt::format(R"( class="timeline"{})", box_attributes(box, axis)));
}

}  // namespace gpemu::report
