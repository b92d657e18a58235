// SPDX-License-Identifier: Apache-2.0
#include "svg_drawing.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "gpemu/report/markup.hpp"

namespace gpemu::report {
namespace {

constexpr std::string_view kFaintInk = "#57606a";
constexpr std::string_view kGrid = "#e5e8eb";
constexpr double kTitleSize = 14;
constexpr double kLegendRow = 19;

std::string_view anchor_name(Anchor anchor) {
  constexpr std::array<std::string_view, 3> kNames = {"start", "middle", "end"};
  return kNames.at(static_cast<std::size_t>(anchor));
}

}  // namespace

double text_width(std::string_view text) {
  // Advances of a sans-serif font (Arial's, rounded up) in units of its size.
  double width = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool continues = (byte & 0xc0) == 0x80;
    const bool narrow = std::string_view(" .,:;'|!()[]fijlt").contains(c);
    const bool wide = (c >= 'A' && c <= 'Z') || std::string_view("mw%").contains(c);
    width += continues ? 0 : narrow ? 0.34 : wide ? 0.75 : 0.57;
  }
  return width * kFontSize;
}

void Drawing::text(double x, double y, std::string_view text, Anchor anchor) {
  add(R"(<text class="ink" x="{:.1f}" y="{:.1f}" text-anchor="{}" fill="{}">{}</text>)", x, y,
      anchor_name(anchor), kInk, escaped(text));
}

void Drawing::faint_text(double x, double y, std::string_view text, Anchor anchor) {
  add(R"(<text class="faint" x="{:.1f}" y="{:.1f}" text-anchor="{}" fill="{}">{}</text>)", x, y,
      anchor_name(anchor), kFaintInk, escaped(text));
}

void Drawing::grid_line(double x1, double y1, double x2, double y2) {
  add(R"(<line class="grid" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" stroke="{}"/>)", x1, y1,
      x2, y2, kGrid);
}

void Drawing::axis_line(double x1, double y1, double x2, double y2) {
  add(R"(<line class="axis" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" stroke="{}"/>)", x1, y1,
      x2, y2, kFaintInk);
}

void Drawing::rectangle(const Box& box, Colour colour, std::string_view tip) {
  add(R"(<rect class="c{}" x="{:.2f}" y="{:.1f}" width="{:.2f}" height="{:.1f}" fill="{}"{})",
      static_cast<int>(colour), box.left, box.top, box.width, box.height, shade(colour).light,
      tip.empty() ? "/>" : fmt::format("><title>{}</title></rect>", escaped(tip)));
}

double Drawing::heading(const std::string& title, const std::vector<LegendEntry>& legend) {
  title_ = title;
  double y = kTitleSize;
  add(R"(<text class="ink" x="{:.1f}" y="{:.1f}" font-size="{:g}" font-weight="600" )"
      R"(fill="{}">{}</text>)",
      kMargin, y, kTitleSize, kInk, escaped(title));
  double x = kMargin;
  y += legend.empty() ? 0 : kLegendRow + 2;
  for (const LegendEntry& entry : legend) {
    const double width = 15 + text_width(entry.name) + 14;
    if (x > kMargin && x + width - 14 > width_ - kMargin) {
      x = kMargin;
      y += kLegendRow;
    }
    rectangle({x, y - 9, 10, 10}, entry.colour);
    text(x + 15, y, entry.name);
    x += width;
  }
  return y + 14;
}

std::string Drawing::finish(double height, std::string_view attributes) const {
  return fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0:.0f}" height="{1:.0f}" )"
      R"(viewBox="0 0 {0:.0f} {1:.0f}" role="img" )"
      R"(font-family="'Liberation Sans', Arial, Helvetica, sans-serif" font-size="{2:g}"{5}>)"
      "\n<title>{3}</title>\n"
      R"(<rect class="paper" width="100%" height="100%" fill="#ffffff"/>)"
      "\n{4}</svg>\n",
      width_, height, kFontSize, escaped(title_), body_, attributes);
}

Axis::Axis(double low, double high, double ticks) : low_(std::min(low, 0.0)), high_(high) {
  if (!(high_ > low_)) high_ = low_ + 1;
  const double rough = (high_ - low_) / std::max(ticks, 1.0);
  const double power = std::pow(10, std::floor(std::log10(rough)));
  step_ = power * (rough <= power ? 1 : rough <= 2 * power ? 2 : rough <= 5 * power ? 5 : 10);
  low_ = std::floor(low_ / step_) * step_;
}

void Axis::round_up_high() {
  high_ = std::ceil(high_ / step_ - 1e-9) * step_;
}

std::vector<double> Axis::ticks() const {
  std::vector<double> values;
  const double first = std::round(low_ / step_);
  for (int i = 0; (first + i) * step_ <= high_ + step_ * 1e-6; ++i) {
    values.push_back((first + i) * step_);
  }
  return values;
}

std::string Axis::label(double tick) const {
  if (std::abs(tick) >= 1e6 || step_ < 1e-4) return fmt::format("{:g}", tick);
  const int decimals = std::max(0, static_cast<int>(-std::floor(std::log10(step_) + 1e-9)));
  return fmt::format("{:.{}f}", tick, decimals);
}

double Axis::widest_label() const {
  double widest = 0;
  for (const double tick : ticks()) widest = std::max(widest, text_width(label(tick)));
  return widest;
}

void draw_x_axis(Drawing& drawing, const Axis& axis, const Box& plot, std::string_view label,
                 bool grid) {
  drawing.add(R"(<g class="ticks">)");
  for (const double tick : axis.ticks()) {
    const double x = plot.left + axis.share(tick) * plot.width;
    drawing.grid_line(x, grid ? plot.top : plot.bottom(), x, plot.bottom() + 4);
    drawing.faint_text(x, plot.bottom() + 17, axis.label(tick), Anchor::kMiddle);
  }
  drawing.add("</g>");
  drawing.axis_line(plot.left, plot.bottom(), plot.right(), plot.bottom());
  drawing.text(plot.left + plot.width / 2, plot.bottom() + 34, label, Anchor::kMiddle);
}

void draw_y_axis(Drawing& drawing, const Axis& axis, const Box& plot, std::string_view label) {
  for (const double tick : axis.ticks()) {
    const double y = plot.bottom() - axis.share(tick) * plot.height;
    drawing.grid_line(plot.left, y, plot.right(), y);
    drawing.faint_text(plot.left - 6, y + 4, axis.label(tick), Anchor::kEnd);
  }
  drawing.text(kMargin, plot.top - 14, label);
}

}  // namespace gpemu::report
