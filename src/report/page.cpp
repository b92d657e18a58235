// SPDX-License-Identifier: Apache-2.0
#include "gpemu/report/page.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "gpemu/report/markup.hpp"

#include "page_assets.hpp"

namespace gpemu::report {
namespace {

/// Returns whether a cell has a number, alone or with a sign, a bar or a percent sign.
bool is_number(std::string_view text) {
  return text == "-" || (text.find_first_of("0123456789") != std::string_view::npos &&
                         text.find_first_not_of("0123456789.,+-/% xe±") == std::string_view::npos);
}

/// Returns the rules for the colours of plots that differ on a dark page.
std::string dark_colours() {
  std::string rules = "@media screen and (prefers-color-scheme: dark) {\n";
  for (std::size_t i = 0; i < kShades.size(); ++i) {
    if (kShades[i].light == kShades[i].dark) continue;
    rules += fmt::format("  svg .c{0} {{ fill: {1}; }} svg .l{0} {{ stroke: {1}; }}\n", i,
                         kShades[i].dark);
  }
  return rules + "}\n";
}

/// A column of texts as short as a GPU's name, or what limits a step, is not worth a second line.
constexpr std::size_t kShortText = 26;

std::string_view column_class(std::size_t column, const Page::Rows& rows) {
  const auto all = [&](const auto& holds) {
    return std::ranges::all_of(rows, [&](const std::vector<PageCell>& row) {
      return column >= row.size() || holds(row[column].text);
    });
  };
  if (column > 0 && all(is_number)) return " class=\"number\"";
  const auto is_short = [](std::string_view text) { return character_count(text) <= kShortText; };
  return all(is_short) ? " class=\"short\"" : "";
}

/// Returns text for a page, whose percent signs stay beside their numbers.
std::string prose(std::string_view text) {
  std::string result = escaped(text);
  for (auto at = result.find(" %"); at != std::string::npos; at = result.find(" %", at + 1)) {
    result.replace(at, 1, "&nbsp;");
  }
  return result;
}

std::string with_class(std::string_view svg, std::string_view name) {
  return fmt::format("<div class=\"{}\">\n{}</div>\n", name, svg);
}

}  // namespace

void Page::heading(std::string_view text) {
  body_ += fmt::format("<h2>{}</h2>\n", escaped(text));
}

void Page::paragraph(std::string_view text) {
  body_ += fmt::format("<p>{}</p>\n", prose(text));
}

void Page::verdict(std::string_view text) {
  body_ += fmt::format("<p class=\"verdict\">{}</p>\n", prose(text));
}

void Page::warning(std::string_view text) {
  body_ += fmt::format("<p class=\"warning\">{}</p>\n", prose(text));
}

void Page::table(const std::vector<std::string>& header, const Rows& rows) {
  std::vector<std::string_view> classes;
  for (std::size_t column = 0; column < header.size(); ++column) {
    classes.push_back(column_class(column, rows));
  }
  body_ += "<div class=\"scroll\"><table class=\"numbers\">\n<thead><tr>";
  for (std::size_t column = 0; column < header.size(); ++column) {
    body_ += fmt::format("<th{}>{}</th>", classes[column], escaped(header[column]));
  }
  body_ += "</tr></thead>\n<tbody>\n";
  for (const auto& row : rows) {
    body_ += "<tr>";
    for (std::size_t column = 0; column < row.size(); ++column) {
      const PageCell& cell = row[column];
      const std::string tip =
          cell.tip.empty() ? "" : fmt::format(" title=\"{}\"", escaped(cell.tip));
      body_ += fmt::format("<td{}{}>{}</td>", classes.at(column), tip, escaped(cell.text));
    }
    body_ += "</tr>\n";
  }
  body_ += "</tbody></table></div>\n";
}

void Page::facts(const std::vector<std::pair<std::string, std::string>>& facts) {
  body_ += "<table class=\"facts\">\n";
  for (const auto& [name, value] : facts) {
    body_ += fmt::format("<tr><td>{}</td><td>{}</td></tr>\n", escaped(name), prose(value));
  }
  body_ += "</table>\n";
}

void Page::figure(std::string_view wide, std::string_view narrow) {
  body_ += fmt::format("<figure>\n{}{}</figure>\n", with_class(wide, "wide"),
                       with_class(narrow, "narrow"));
}

void Page::plot(const LinePlot& plot) {
  figure(line_plot_svg(plot), line_plot_svg(plot, PlotWidth::kNarrow));
}

void Page::plot(const StackedBars& plot) {
  figure(stacked_bars_svg(plot), stacked_bars_svg(plot, PlotWidth::kNarrow));
}

void Page::plot(const Timeline& plot) {
  figure(timeline_svg(plot), timeline_svg(plot, PlotWidth::kNarrow));
}

std::string Page::html() const {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{0}</title>\n<style>\n{1}{2}</style>\n</head>\n<body>\n<h1>{0}</h1>\n{3}"
      "<script>\n{4}</script>\n</body>\n</html>\n",
      escaped(title_), kPageStyle, dark_colours(), body_, kPageScript);
}

void add_provenance(Page& page, const Provenance& provenance) {
  page.heading("How this was made");
  page.facts(provenance_facts(provenance));
}

}  // namespace gpemu::report
