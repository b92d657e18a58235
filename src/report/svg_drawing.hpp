// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "gpemu/report/colour.hpp"

namespace gpemu::report {

/// What the plots of svg_plot.hpp are drawn with. Units: pixels, from the top left.

struct Box {
  double left = 0;
  double top = 0;
  double width = 0;
  double height = 0;

  [[nodiscard]] double right() const { return left + width; }
  [[nodiscard]] double bottom() const { return top + height; }
};

enum class Anchor : std::uint8_t { kStart, kMiddle, kEnd };

inline constexpr double kMargin = 4;
inline constexpr double kFontSize = 12;

/// Returns about how wide a text is; renderers differ a little.
[[nodiscard]] double text_width(std::string_view text);

/// A name in a legend.
struct LegendEntry {
  std::string name;
  Colour colour;
};

/// Collects SVG elements; the drawing's height is known only at its end. Each element carries its
/// light colours as attributes and a class by which a page recolours it for a dark theme.
class Drawing {
 public:
  explicit Drawing(double width) : width_(width) {}

  template <typename... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(body_), format, std::forward<Args>(args)...);
    body_ += '\n';
  }

  /// Adds a text in the colour of ink.
  void text(double x, double y, std::string_view text, Anchor anchor = Anchor::kStart);
  /// Adds a text that is less important, as a tick's.
  void faint_text(double x, double y, std::string_view text, Anchor anchor);
  /// Adds a line of the grid.
  void grid_line(double x1, double y1, double x2, double y2);
  /// Adds a line of an axis.
  void axis_line(double x1, double y1, double x2, double y2);
  /// Adds a rectangle that shows a text where the pointer rests on it, if there is one.
  void rectangle(const Box& box, Colour colour, std::string_view tip = {});

  /// Draws the title and a legend below it; returns where the rest may begin.
  double heading(const std::string& title, const std::vector<LegendEntry>& legend);

  /// Returns the SVG. `attributes` are those of its outermost element, e.g. ` data-x="0 1"`.
  [[nodiscard]] std::string finish(double height, std::string_view attributes = {}) const;

 private:
  double width_;
  std::string title_;
  std::string body_;
};

/// A linear axis whose ticks are multiples of 1, 2 or 5 times a power of ten.
class Axis {
 public:
  /// Covers the values from 0, or `low` if that is less, to `high`, with at most about `ticks`
  /// ticks.
  Axis(double low, double high, double ticks);

  void round_up_high();

  [[nodiscard]] double low() const { return low_; }
  [[nodiscard]] double high() const { return high_; }
  [[nodiscard]] double share(double value) const { return (value - low_) / (high_ - low_); }
  [[nodiscard]] std::vector<double> ticks() const;
  [[nodiscard]] std::string label(double tick) const;
  /// Returns the width of the widest label.
  [[nodiscard]] double widest_label() const;

 private:
  double low_;
  double high_;
  double step_ = 1;
};

/// Draws the axis below a plot, with lines across the plot if `grid`.
void draw_x_axis(Drawing& drawing, const Axis& axis, const Box& plot, std::string_view label,
                 bool grid);

/// Draws the axis left of a plot; its label stands above it.
void draw_y_axis(Drawing& drawing, const Axis& axis, const Box& plot, std::string_view label);

/// What an x axis needs below its plot.
inline constexpr double kXAxisHeight = 42;

}  // namespace gpemu::report
