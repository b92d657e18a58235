// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpemu/profile/pack_content.hpp"

namespace gpemu::profile {

/// Reads a table in the one form that packs and GPEmu's files have: a fixed header line, then rows
/// of as many comma-separated fields, plain ASCII without quotes, every line ended by LF.
///
/// What breaks the form is added to `faults` and skipped; after kMaxFaults the rest of the file is
/// not read. Numbers do not depend on the locale. Holds views: `text`, `header` and `faults` must
/// outlive it.
class TableReader {
 public:
  static constexpr int kMaxFaults = 20;  ///< more would only bury the first, which causes the rest.

  TableReader(std::string_view text, std::filesystem::path file, std::string_view header,
              std::vector<PackFault>& faults);

  /// Moves to the next well-formed row; false when there is none.
  [[nodiscard]] bool next();

  [[nodiscard]] int line() const { return line_; }
  [[nodiscard]] std::string_view field(std::size_t column) const { return fields_[column]; }

  /// The functions below return nothing, and add a fault, when the field is not as asked for.

  /// A name: letters, digits, '_', '-' and '.', not starting with '.'.
  [[nodiscard]] std::optional<std::string> name(std::size_t column);
  /// A whole number in [min, max]; written as "1.0" too, as pandas does.
  [[nodiscard]] std::optional<std::int64_t> integer(std::size_t column, std::int64_t min,
                                                    std::int64_t max);
  /// A finite number.
  [[nodiscard]] std::optional<double> number(std::size_t column);

  /// Adds a fault at the current line.
  void fault(std::string message);

 private:
  [[nodiscard]] std::optional<std::string_view> next_line();
  [[nodiscard]] bool split(std::string_view line);

  std::string_view rest_;
  std::filesystem::path file_;
  std::vector<std::string_view> columns_;  ///< the names in the header.
  std::vector<PackFault>& faults_;
  std::vector<std::string_view> fields_;
  int line_ = 0;
  int fault_count_ = 0;
};

/// Returns whether `text` can name a pack, GPU, precision or model, see TableReader::name().
[[nodiscard]] bool is_name(std::string_view text);

}  // namespace gpemu::profile
