// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpemu::report {

/// Returns a share of 1 in per cent.
[[nodiscard]] std::string percent(double share, int decimals);

/// A table for the terminal: a header, rows, columns as wide as their widest cell. Columns of
/// numbers are aligned to the right. Cells are made printable. A table that is too wide continues
/// below, with the first column repeated; cells that are too wide are broken at their spaces.
class TextTable {
 public:
  /// Requires: a column or more.
  explicit TextTable(std::vector<std::string> header) : header_(std::move(header)) {}

  /// Requires: as many cells as the header has.
  void add_row(std::vector<std::string> cells);

  [[nodiscard]] bool empty() const { return rows_.empty(); }

  /// Returns the table as lines that end with a newline, none wider than `columns` unless a word
  /// is.
  [[nodiscard]] std::string str(int columns) const;

 private:
  struct Column {
    std::size_t width = 0;
    bool right = false;
  };
  [[nodiscard]] std::vector<Column> columns_within(std::size_t room) const;
  /// Returns the first cell and those from `begin` to before `end`, as lines.
  [[nodiscard]] static std::string row_text(const std::vector<std::string>& cells,
                                            const std::vector<Column>& columns, std::size_t begin,
                                            std::size_t end);

  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace gpemu::report
