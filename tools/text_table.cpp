// SPDX-License-Identifier: Apache-2.0
#include "text_table.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "gpemu/base/error.hpp"
#include "gpemu/base/text.hpp"

namespace gpemu::tools {
namespace {

/// Returns how many columns a UTF-8 text takes: its bytes without continuation bytes.
std::size_t display_width(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; }));
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

std::string TextTable::str() const {
  std::vector<std::size_t> widths;
  std::vector<bool> right;
  for (std::size_t column = 0; column < header_.size(); ++column) {
    std::size_t width = display_width(header_[column]);
    bool numeric = !rows_.empty();
    for (const auto& row : rows_) {
      width = std::max(width, display_width(row[column]));
      numeric = numeric && looks_numeric(row[column]);
    }
    widths.push_back(width);
    right.push_back(numeric);
  }
  std::string text;
  const auto add_line = [&](const std::vector<std::string>& cells) {
    std::string line;
    for (std::size_t column = 0; column < cells.size(); ++column) {
      const std::string padding(widths[column] - display_width(cells[column]), ' ');
      line += column > 0 ? "  " : "";
      line += right[column] ? padding + cells[column] : cells[column] + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  };
  add_line(header_);
  for (const auto& row : rows_) add_line(row);
  return text;
}

}  // namespace gpemu::tools
