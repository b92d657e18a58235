// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpemu::tools {

/// Returns a share of 1 in per cent.
[[nodiscard]] std::string percent(double share, int decimals);

/// A table for the terminal: a header, rows, columns as wide as their widest cell. Columns of
/// numbers are aligned to the right. Cells are made printable.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header) : header_(std::move(header)) {}

  /// Requires: as many cells as the header has.
  void add_row(std::vector<std::string> cells);

  [[nodiscard]] bool empty() const { return rows_.empty(); }

  /// Returns the table as lines that end with a newline.
  [[nodiscard]] std::string str() const;

 private:
  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace gpemu::tools
