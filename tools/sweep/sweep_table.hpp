// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/profile/sweep_cells.hpp"
#include "gpemu/profile/sweep_spec.hpp"

#include "sweep/cell_store.hpp"

namespace gpemu::tools {

/// A value of a column: a text, which a number has, too; empty if there is none.
struct SweepValue {
  std::string text;
  std::optional<double> number;
};

/// What is known of a cell.
struct SweepRow {
  const profile::SweepCell* cell = nullptr;
  std::optional<CellRecord>
      record;  ///< nothing if the cell has not been run; of its result, only whether there is one.
  std::vector<SweepValue> values;  ///< of each column.
};

/// Checks the expressions of a sweep's columns. Errors: kCorruptData with the line in `file`.
[[nodiscard]] Result<void> check_columns(const profile::SweepSpec& spec,
                                         const std::filesystem::path& file);

/// Reads the cells that have been run, and computes their columns.
///
/// Errors: those of CellStore::read(); kCorruptData, with the line in `file`, for a column of which
/// no result has a value.
[[nodiscard]] Result<std::vector<SweepRow>> sweep_rows(const profile::SweepSpec& spec,
                                                       const std::filesystem::path& file,
                                                       std::span<const profile::SweepCell> cells,
                                                       const CellStore& store);

/// Returns the header and the cells of a table: for each row the cell's number, its exit status,
/// its factors and its columns.
[[nodiscard]] std::vector<std::string> table_header(const profile::SweepSpec& spec);
[[nodiscard]] std::vector<std::string> table_cells(const profile::SweepSpec& spec,
                                                   const SweepRow& row);

/// Returns a value for people: a number that is not whole with four significant digits.
[[nodiscard]] std::string shown_value(const SweepValue& value);

/// Returns the table as CSV (RFC 4180, with LF). Depends on nothing but the cells' results.
[[nodiscard]] std::string csv_text(const profile::SweepSpec& spec, std::span<const SweepRow> rows);

}  // namespace gpemu::tools
