// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gpemu/base/error.hpp"

#include "smi/smi_sample.hpp"

namespace gpemu::tools {

/// How `--format` wants the answer of a query.
struct CsvFormat {
  bool header = true;
  bool units = true;
};

/// Reads "csv", "csv,noheader", "csv,noheader,nounits", in any order.
[[nodiscard]] Result<CsvFormat> read_csv_format(std::string_view text);

/// A query as nvidia-smi takes it: names of fields, answered in CSV, a line for each device or for
/// each process.
class SmiQuery {
 public:
  enum class Subject : bool { kDevices, kProcesses };

  /// Reads names of fields, separated by commas. Errors: kInvalidArgument for one that is not
  /// known.
  [[nodiscard]] static Result<SmiQuery> read(Subject subject, std::string_view names,
                                             CsvFormat format);

  /// Returns the names of the fields that there are, and those they can be called by, a line each.
  [[nodiscard]] static std::string help(Subject subject);

  /// Returns the line of headings, "" in a format without.
  [[nodiscard]] std::string header() const;
  [[nodiscard]] std::string lines(const SmiSample& sample) const;

 private:
  SmiQuery(Subject subject, CsvFormat format) : subject_(subject), format_(format) {}

  Subject subject_;
  CsvFormat format_;
  std::vector<std::size_t> fields_;  ///< places in the table of fields.
};

}  // namespace gpemu::tools
