// SPDX-License-Identifier: Apache-2.0
#include "sweep/sweep_table.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "gpemu/experiment/expression.hpp"
#include "gpemu/report/number_text.hpp"

namespace gpemu::tools {
namespace {

using nlohmann::ordered_json;

/// So many names of a result a message lists.
constexpr std::size_t kMostNames = 20;

/// Returns the part of a result that a name such as "answers.0.step.ms" means; null if there is
/// none.
const ordered_json* part_of(const ordered_json& result, std::string_view name) {
  const ordered_json* part = &result;
  while (!name.empty()) {
    const std::size_t end = std::min(name.find('.'), name.size());
    const std::string_view key = name.substr(0, end);
    name.remove_prefix(std::min(end + 1, name.size()));
    if (part->is_object()) {
      const auto found = part->find(std::string(key));
      if (found == part->end()) return nullptr;
      part = &*found;
      continue;
    }
    std::size_t index = 0;
    const auto [last, error] = std::from_chars(key.data(), key.data() + key.size(), index);
    if (!part->is_array() || error != std::errc() || last != key.data() + key.size() ||
        index >= part->size()) {
      return nullptr;
    }
    part = &part->at(index);
  }
  return part;
}

/// Returns what a result has where a name ends that it does not have.
std::string names_near(const ordered_json& result, std::string_view name) {
  const ordered_json* part = nullptr;
  do {
    const std::size_t dot = name.rfind('.');
    name = dot == std::string_view::npos ? "" : name.substr(0, dot);
    part = part_of(result, name);
  } while (part == nullptr);
  const std::string where = name.empty() ? "the result" : fmt::format("'{}'", name);
  if (part->is_array()) return fmt::format("{} has the numbers 0 to {}", where, part->size() - 1);
  if (!part->is_object()) return fmt::format("{} has no parts", where);
  std::vector<std::string> names;
  for (const auto& item : part->items()) {
    if (names.size() == kMostNames) break;
    names.push_back(item.key());
  }
  return fmt::format("{} has {}", where, fmt::join(names, ", "));
}

Result<experiment::Value> numbers_of(const ordered_json& part, std::string_view name) {
  if (part.is_number()) return experiment::Value{part.get<double>()};
  if (part.is_boolean()) return experiment::Value{part.get<bool>() ? 1.0 : 0.0};
  const bool has_numbers =
      part.is_array() && !part.empty() &&
      std::ranges::all_of(part, [](const auto& one) { return one.is_number(); });
  if (has_numbers) return part.get<experiment::Value>();
  return fail(ErrorCode::kInvalidArgument, "'{}' is no number in the result", name);
}

SweepValue number_value(double number) {
  if (!std::isfinite(number)) return {};
  return {.text = fmt::format("{}", number), .number = number};
}

/// Computes the columns of a cell.
class ColumnReader {
 public:
  ColumnReader(const profile::SweepSpec& spec, const profile::SweepCell& cell,
               const ordered_json& result)
      : spec_(spec), cell_(cell), result_(result) {}

  /// Call it for each column in its order.
  Result<SweepValue> read(const profile::SweepColumn& column) {
    Result<SweepValue> value = value_of(column);
    values_.push_back(value ? *value : SweepValue{});
    return value;
  }

 private:
  [[nodiscard]] Result<SweepValue> value_of(const profile::SweepColumn& column) const {
    const ordered_json* part = part_of(result_, column.value);
    if (part != nullptr && part->is_null()) return SweepValue{};
    if (part != nullptr && part->is_string()) return SweepValue{part->get<std::string>(), {}};
    GPEMU_ASSIGN(
        const experiment::Value value,
        experiment::compute(column.value, [this](std::string_view name) { return named(name); }));
    if (value.size() == 1) return number_value(value.front());
    return fail(ErrorCode::kInvalidArgument,
                "'{}' is {} numbers; write min(...), max(...) or mean(...)", column.value,
                value.size());
  }

  [[nodiscard]] Result<experiment::Value> named(std::string_view name) const {
    for (std::size_t i = 0; i < spec_.factors.size(); ++i) {
      if (spec_.factors[i].name != name) continue;
      const auto number = spec_.factors[i].values[cell_.values[i]].number;
      if (number) return experiment::Value{*number};
    }
    for (std::size_t i = 0; i < values_.size(); ++i) {
      if (spec_.columns[i].name == name && values_[i].number) {
        return experiment::Value{*values_[i].number};
      }
    }
    const ordered_json* part = part_of(result_, name);
    if (part != nullptr) return numbers_of(*part, name);
    return fail(ErrorCode::kInvalidArgument, "the result has no '{}'; {}", name,
                names_near(result_, name));
  }

  const profile::SweepSpec& spec_;
  const profile::SweepCell& cell_;
  const ordered_json& result_;
  std::vector<SweepValue> values_;
};

std::unexpected<Error> column_fault(const std::filesystem::path& file,
                                    const profile::SweepColumn& column,
                                    const std::string& message) {
  return fail(ErrorCode::kCorruptData, "{}:{}: column {}: {}", file.string(), column.line,
              column.name, message);
}

/// Of each column, why it has no value yet.
using Missing = std::vector<std::optional<std::string>>;

Result<SweepRow> sweep_row_of(const profile::SweepSpec& spec, const profile::SweepCell& cell,
                              const CellStore& store, std::vector<bool>& found, Missing& missing) {
  SweepRow row{.cell = &cell, .record = {}, .values = std::vector<SweepValue>(spec.columns.size())};
  if (!store.has(cell)) return row;
  GPEMU_ASSIGN(row.record, store.read(cell));
  if (row.record->failed()) return row;
  ColumnReader reader(spec, cell, row.record->result);
  for (std::size_t i = 0; i < spec.columns.size(); ++i) {
    Result<SweepValue> value = reader.read(spec.columns[i]);
    if (value) {
      row.values[i] = *std::move(value);
      found[i] = true;
    } else if (!missing[i]) {
      missing[i] = value.error().message;
    }
  }
  row.record->result = true;  // All results of a sweep may not fit into memory.
  return row;
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char character : text) quoted += character == '"' ? "\"\"" : std::string(1, character);
  return quoted + "\"";
}

std::string csv_line(const std::vector<std::string>& cells) {
  std::string line;
  for (const std::string& cell : cells) line += (line.empty() ? "" : ",") + csv_field(cell);
  return line + "\n";
}

}  // namespace

Result<void> check_columns(const profile::SweepSpec& spec, const std::filesystem::path& file) {
  for (const profile::SweepColumn& column : spec.columns) {
    const auto value =
        experiment::compute(column.value, [](std::string_view) { return experiment::Value{1, 1}; });
    if (!value) return column_fault(file, column, value.error().message);
  }
  return {};
}

Result<std::vector<SweepRow>> sweep_rows(const profile::SweepSpec& spec,
                                         const std::filesystem::path& file,
                                         std::span<const profile::SweepCell> cells,
                                         const CellStore& store) {
  std::vector<SweepRow> rows;
  std::vector<bool> found(spec.columns.size());
  Missing missing(spec.columns.size());
  for (const profile::SweepCell& cell : cells) {
    GPEMU_ASSIGN(SweepRow row, sweep_row_of(spec, cell, store, found, missing));
    rows.push_back(std::move(row));
  }
  for (std::size_t i = 0; i < spec.columns.size(); ++i) {
    if (!found[i] && missing[i]) return column_fault(file, spec.columns[i], *missing[i]);
  }
  return rows;
}

std::vector<std::string> table_header(const profile::SweepSpec& spec) {
  std::vector<std::string> header{"cell", "exit_status"};
  for (const profile::Factor& factor : spec.factors) header.push_back(factor.name);
  for (const profile::SweepColumn& column : spec.columns) header.push_back(column.name);
  return header;
}

std::vector<std::string> table_cells(const profile::SweepSpec& spec, const SweepRow& row) {
  std::vector<std::string> cells{fmt::format("{}", row.cell->number),
                                 row.record ? fmt::format("{}", row.record->exit_status) : ""};
  for (std::size_t i = 0; i < spec.factors.size(); ++i) {
    cells.push_back(spec.factors[i].values[row.cell->values[i]].text);
  }
  for (const SweepValue& value : row.values) cells.push_back(value.text);
  return cells;
}

std::string shown_value(const SweepValue& value) {
  const bool is_whole = value.text.find_first_of(".e") == std::string::npos;
  return value.number && !is_whole ? report::rounded(*value.number) : value.text;
}

std::string csv_text(const profile::SweepSpec& spec, std::span<const SweepRow> rows) {
  std::string text = csv_line(table_header(spec));
  for (const SweepRow& row : rows) text += csv_line(table_cells(spec, row));
  return text;
}

}  // namespace gpemu::tools
