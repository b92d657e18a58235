// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpemu/base/error.hpp"

namespace gpemu::scheduling {

/// Reads a file as a whole, and decompresses it if it is compressed by gzip.
///
/// Errors: kIo with the path and the reason; kCorruptData if it is damaged; kResourceLimit if its
///   content is larger than 4 GiB.
[[nodiscard]] Result<std::string> read_maybe_compressed(const std::filesystem::path& path);

inline constexpr double kMillicoresPerCore = 1000;
inline constexpr double kMibPerGib = 1024;

/// The rows of a CSV text without quotes. The text and the name must outlive it.
class CsvRows {
 public:
  /// Reads the header. Errors: kCorruptData if there is none, or it has a column twice.
  [[nodiscard]] static Result<CsvRows> open(std::string_view text, const std::string& name);

  /// Returns rows without a header, with tabs between the cells, which may have quotes; `header`
  /// names the columns, with commas between them.
  [[nodiscard]] static CsvRows with_tabs(std::string_view text, const std::string& name,
                                         std::string_view header);

  /// Returns the place of a column; nothing if there is none of that name.
  [[nodiscard]] std::optional<std::size_t> column(std::string_view name) const;
  [[nodiscard]] const std::vector<std::string_view>& header() const { return header_; }

  /// Goes to the next row that is not empty; false: there is none.
  ///
  /// Errors: kCorruptData if it has more or fewer cells than the header, or quotes.
  [[nodiscard]] Result<bool> next();
  [[nodiscard]] std::string_view cell(std::size_t column) const { return cells_[column]; }
  /// Returns a number of the row from `least` to `most`. Errors: kCorruptData.
  [[nodiscard]] Result<double> number(std::size_t column, double least, double most) const;

  /// Returns a number from 0 to `most`, multiplied by `per_unit` and rounded.
  [[nodiscard]] Result<std::uint64_t> amount(std::size_t column, double most,
                                             double per_unit) const;

  /// Returns an error about the row: "FILE:LINE: ...".
  [[nodiscard]] std::unexpected<Error> fault(std::string_view what) const;

 private:
  CsvRows(std::string_view text, const std::string& name) : rest_(text), name_(&name) {}
  [[nodiscard]] std::string_view take_line();
  static void split(std::string_view line, char separator, std::vector<std::string_view>& cells);

  std::string_view rest_;
  const std::string* name_;
  std::size_t line_ = 0;
  char separator_ = ',';
  std::vector<std::string_view> header_;
  std::vector<std::string_view> cells_;
};

}  // namespace gpemu::scheduling
