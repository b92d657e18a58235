// SPDX-License-Identifier: Apache-2.0
#include "table_reader.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include <fmt/format.h>

namespace gpemu::profile {
namespace {

void split_fields(std::string_view line, std::vector<std::string_view>& fields) {
  fields.clear();
  while (true) {
    const std::size_t comma = line.find(',');
    fields.push_back(line.substr(0, comma));
    if (comma == std::string_view::npos) return;
    line.remove_prefix(comma + 1);
  }
}

std::optional<double> parse_number(std::string_view text) {
  double value = 0;
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const auto [stop, error] = std::from_chars(begin, end, value);
  if (error != std::errc() || stop != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

/// Quotes a field for a message; a field of a damaged file may be megabytes long.
std::string quoted(std::string_view field) {
  constexpr std::size_t kShown = 40;
  return field.size() <= kShown ? fmt::format("\"{}\"", field)
                                : fmt::format("\"{}...\"", field.substr(0, kShown));
}

}  // namespace

bool is_name(std::string_view text) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  };
  return !text.empty() && text.size() <= 100 && text.front() != '.' &&
         std::all_of(text.begin(), text.end(), allowed);
}

TableReader::TableReader(std::string_view text, std::filesystem::path file, std::string_view header,
                         std::vector<PackFault>& faults)
    : rest_(text), file_(std::move(file)), faults_(faults) {
  split_fields(header, columns_);
  const std::optional<std::string_view> first = next_line();
  if (first != header) {
    // Without the header it told nothing, the rows cannot be trusted either.
    line_ = 1;
    if (fault_count_ == 0) fault(fmt::format("expected the header \"{}\"", header));
    rest_ = {};
  }
}

bool TableReader::next() {
  while (true) {
    if (fault_count_ >= kMaxFaults && !rest_.empty()) {
      ++line_;
      fault("too many faults; the rest of the file was not read");
      rest_ = {};
    }
    const bool any_left = !rest_.empty();
    const std::optional<std::string_view> line = next_line();
    if (!any_left) return false;
    if (line && split(*line)) return true;
  }
}

std::optional<std::string_view> TableReader::next_line() {
  if (rest_.empty()) return std::nullopt;
  ++line_;
  const std::size_t end = rest_.find('\n');
  const std::string_view line = rest_.substr(0, end);
  rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
  const auto odd =
      std::find_if(line.begin(), line.end(), [](char c) { return c < ' ' || c > '~'; });
  if (odd != line.end()) {
    fault(*odd == '\r' ? std::string("a carriage return; lines end with LF only")
                       : fmt::format("byte 0x{:02x} in column {}; tables are plain ASCII",
                                     static_cast<unsigned char>(*odd), odd - line.begin() + 1));
    return std::nullopt;
  }
  if (end == std::string_view::npos) {
    fault("the last line does not end with a line feed; is the file cut off?");
  }
  return line;
}

bool TableReader::split(std::string_view line) {
  split_fields(line, fields_);
  if (fields_.size() == columns_.size()) return true;
  fault(line.empty()
            ? std::string("an empty line")
            : fmt::format("{} fields where there must be {}", fields_.size(), columns_.size()));
  return false;
}

std::optional<std::string> TableReader::name(std::size_t column) {
  if (is_name(fields_[column])) return std::string(fields_[column]);
  fault(fmt::format("{} is {}; expected a name of letters, digits, '_', '-' and '.'",
                    columns_[column], quoted(fields_[column])));
  return std::nullopt;
}

std::optional<std::int64_t> TableReader::integer(std::size_t column, std::int64_t min,
                                                 std::int64_t max) {
  const std::optional<double> value = parse_number(fields_[column]);
  // Doubles hold whole numbers exactly far beyond any limit that callers set.
  if (value && *value >= static_cast<double>(min) && *value <= static_cast<double>(max) &&
      *value == std::floor(*value)) {
    return static_cast<std::int64_t>(*value);
  }
  fault(fmt::format("{} is {}; expected a whole number from {} to {}", columns_[column],
                    quoted(fields_[column]), min, max));
  return std::nullopt;
}

std::optional<double> TableReader::number(std::size_t column) {
  const std::optional<double> value = parse_number(fields_[column]);
  if (!value) {
    fault(fmt::format("{} is {}; expected a number", columns_[column], quoted(fields_[column])));
  }
  return value;
}

void TableReader::fault(std::string message) {
  ++fault_count_;
  faults_.push_back({file_, line_, std::move(message)});
}

}  // namespace gpemu::profile
