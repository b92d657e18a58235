// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gpemu/base/error.hpp"

#include "smi/smi_sample.hpp"

namespace gpemu::tools {

/// The output format of a query, from `--format`.
struct CsvFormat {
  bool header = true;
  bool units = true;
};

/// Reads "csv", "csv,noheader", "csv,noheader,nounits", in any order.
[[nodiscard]] Result<CsvFormat> read_csv_format(std::string_view text);

/// A query like nvidia-smi's: names of fields, answered in CSV with one line per device or process.
class SmiQuery {
 public:
  enum class Subject : bool { kDevices, kProcesses };

  /// Reads names of fields, separated by commas. Errors: kInvalidArgument for an unknown one; the
  /// message's first line is nvidia-smi's.
  [[nodiscard]] static Result<SmiQuery> read(Subject subject, std::string_view names,
                                             CsvFormat format);

  /// Returns the names and aliases of all fields, one field per line.
  [[nodiscard]] static std::string help(Subject subject);

  /// Returns the same as nvidia-smi does, with quotes.
  [[nodiscard]] static std::string names(Subject subject);

  /// Returns the line of headings, or "" with noheader.
  [[nodiscard]] std::string header() const;
  [[nodiscard]] std::string lines(const SmiSample& sample) const;

 private:
  SmiQuery(Subject subject, CsvFormat format) : subject_(subject), format_(format) {}

  Subject subject_;
  CsvFormat format_;
  std::vector<std::size_t> fields_;  ///< places in the table of fields.
};

}  // namespace gpemu::tools
