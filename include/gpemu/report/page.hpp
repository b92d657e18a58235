// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpemu/report/provenance.hpp"
#include "gpemu/report/svg_plot.hpp"

namespace gpemu::report {

/// A cell of a page's table.
struct PageCell {
  // NOLINTBEGIN(google-explicit-constructor): a cell is its text.
  PageCell(std::string shown) : text(std::move(shown)) {}
  PageCell(const char* shown) : text(shown) {}
  // NOLINTEND(google-explicit-constructor): until here.
  PageCell(std::string shown, std::string whole) : text(std::move(shown)), tip(std::move(whole)) {}

  std::string text;
  std::string tip;  ///< shown when the pointer rests on it.
};

/// A self-contained HTML page of results. It fetches nothing and loses nothing without its script,
/// which shows values under the pointer and zooms timelines. The same input gives the same text.
class Page {
 public:
  using Rows = std::vector<std::vector<PageCell>>;

  explicit Page(std::string title) : title_(std::move(title)) {}

  void heading(std::string_view text);
  void paragraph(std::string_view text);
  /// The main conclusion, in one sentence.
  void verdict(std::string_view text);
  /// A reason to doubt the results.
  void warning(std::string_view text);
  /// A table. Columns of numbers are aligned to the right; each has one unit, in its header.
  void table(const std::vector<std::string>& header, const Rows& rows);
  /// A table of names and values without a header.
  void facts(const std::vector<std::pair<std::string, std::string>>& facts);
  /// Plots: one for wide screens and paper, one for narrow screens.
  void plot(const LinePlot& plot);
  void plot(const StackedBars& plot);
  void plot(const Timeline& plot);

  [[nodiscard]] std::string html() const;

 private:
  void figure(std::string_view wide, std::string_view narrow);

  std::string title_;
  std::string body_;
};

/// Adds the provenance of a result, under a heading.
void add_provenance(Page& page, const Provenance& provenance);

}  // namespace gpemu::report
