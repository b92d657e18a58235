// SPDX-License-Identifier: Apache-2.0
#include "gpemu/report/text_table.hpp"

#include <algorithm>
#include <sstream>

#include <fmt/ranges.h>

#include "gpemu/base/error.hpp"
#include "gpemu/base/text.hpp"
#include "gpemu/report/markup.hpp"
#include "gpemu/report/wrapped_text.hpp"

namespace gpemu::report {
namespace {

/// Columns between two columns of a table.
constexpr std::size_t kGap = 2;

/// Adds spaces until a line takes so many columns.
void pad(std::string& line, std::size_t width) {
  const std::size_t taken = character_count(line);
  if (taken < width) line.append(width - taken, ' ');
}

/// Returns a cell as lines of at most `width` columns, unless a word is longer.
std::vector<std::string> lines_within(const std::string& cell, std::size_t width) {
  if (character_count(cell) <= width) return {cell};
  std::istringstream text(wrapped(cell, 0, width));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

bool looks_numeric(std::string_view text) {
  return text.empty() || text == "-" ||
         (text.find_first_of("0123456789") != std::string_view::npos &&
          text.find_first_not_of("0123456789.,+-/% xeE\u00b1") == std::string_view::npos);
}

}  // namespace

std::string percent(double share, int decimals) {
  return fmt::format("{:.{}f}", 100 * share, decimals);
}

void TextTable::add_row(std::vector<std::string> cells) {
  GPEMU_CHECK(cells.size() == header_.size(), "a row has as many cells as the header");
  for (std::string& cell : cells) cell = printable(cell);
  rows_.push_back(std::move(cells));
}

std::vector<TextTable::Column> TextTable::columns_within(std::size_t room) const {
  std::vector<Column> columns;
  for (std::size_t i = 0; i < header_.size(); ++i) {
    Column column{.width = character_count(header_[i]), .right = !rows_.empty()};
    for (const auto& row : rows_) {
      column.width = std::max(column.width, character_count(row[i]));
      column.right = column.right && looks_numeric(row[i]);
    }
    const std::size_t before = columns.empty() ? 0 : columns.front().width + kGap;
    if (room > before) column.width = std::min(column.width, room - before);
    columns.push_back(column);
  }
  return columns;
}

std::string TextTable::row_text(const std::vector<std::string>& cells,
                                const std::vector<Column>& columns, std::size_t begin,
                                std::size_t end) {
  std::vector<std::string> lines(1);
  std::size_t column_start = 0;
  const auto add_cell = [&](std::size_t i) {
    const std::vector<std::string> parts = lines_within(cells[i], columns[i].width);
    lines.resize(std::max(lines.size(), parts.size()));
    const std::size_t column_end = column_start + columns[i].width;
    for (std::size_t line = 0; line < parts.size(); ++line) {
      const std::size_t width = character_count(parts[line]);
      if (width == 0) continue;
      pad(lines[line], column_start);
      if (columns[i].right && width < columns[i].width) pad(lines[line], column_end - width);
      lines[line] += parts[line];
    }
    column_start = column_end + kGap;
  };
  add_cell(0);
  for (std::size_t i = begin; i < end; ++i) add_cell(i);
  return fmt::format("{}\n", fmt::join(lines, "\n"));
}

std::string TextTable::str(int columns) const {
  const auto room = static_cast<std::size_t>(columns);
  const std::vector<Column> all = columns_within(room);
  std::string text;
  std::size_t end = 1;
  do {
    const std::size_t begin = end;
    std::size_t width = all[0].width;
    while (end < all.size() && (end == begin || width + kGap + all[end].width <= room)) {
      width += kGap + all[end++].width;
    }
    if (!text.empty()) text += "\n";
    text += row_text(header_, all, begin, end);
    for (const auto& row : rows_) text += row_text(row, all, begin, end);
  } while (end < all.size());
  return text;
}

}  // namespace gpemu::report
