// SPDX-License-Identifier: Apache-2.0
#include "csv_rows.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <limits>
#include <memory>
#include <zlib.h>

#include "gpemu/base/text.hpp"
#include "gpemu/base/units.hpp"

namespace gpemu::scheduling {
namespace {

constexpr std::size_t kMostContent = std::size_t{4} << 30U;

struct CloseCompressed {
  void operator()(gzFile file) const { gzclose(file); }
};

}  // namespace

Result<std::string> read_maybe_compressed(const std::filesystem::path& path) {
  errno = 0;
  const std::unique_ptr<gzFile_s, CloseCompressed> file(gzopen(path.c_str(), "rb"));
  if (!file) {
    return fail(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo, "{}: {}", path.string(),
                errno_message(errno));
  }
  std::string content;
  std::array<char, 1U << 16U> block{};
  for (;;) {
    errno = 0;
    const int got = gzread(file.get(), block.data(), block.size());
    if (got > 0) {
      content.append(block.data(), static_cast<std::size_t>(got));
      if (content.size() <= kMostContent) continue;
      return fail(ErrorCode::kResourceLimit, "{}: has more than {} bytes", path.string(),
                  kMostContent);
    }
    int code = Z_OK;
    const std::string reason = gzerror(file.get(), &code);
    if (code == Z_ERRNO) {
      return fail(ErrorCode::kIo, "{}: {}", path.string(), errno_message(errno));
    }
    if (code == Z_OK) return content;
    return fail(ErrorCode::kCorruptData, "{}: its compressed data are damaged or incomplete: {}",
                path.string(), reason);
  }
}

Result<CsvRows> CsvRows::open(std::string_view text, const std::string& name) {
  CsvRows rows(text, name);
  if (rows.rest_.empty()) return fail(ErrorCode::kCorruptData, "{}: it is empty", name);
  split(rows.take_line(), ',', rows.header_);
  for (std::size_t i = 0; i < rows.header_.size(); ++i) {
    if (rows.column(rows.header_[i]) == i) continue;
    return rows.fault(fmt::format("column {} occurs twice", printable(rows.header_[i])));
  }
  return rows;
}

std::optional<std::size_t> CsvRows::column(std::string_view name) const {
  const auto found = std::ranges::find(header_, name);
  if (found == header_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - header_.begin());
}

std::string_view CsvRows::take_line() {
  const std::size_t end = rest_.find('\n');
  std::string_view line = rest_.substr(0, end);
  rest_ = end == std::string_view::npos ? std::string_view{} : rest_.substr(end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  ++line_;
  return line;
}

CsvRows CsvRows::with_tabs(std::string_view text, const std::string& name,
                           std::string_view header) {
  CsvRows rows(text, name);
  split(header, ',', rows.header_);
  rows.separator_ = '\t';
  return rows;
}

void CsvRows::split(std::string_view line, char separator, std::vector<std::string_view>& cells) {
  cells.clear();
  for (std::size_t begin = 0;;) {
    const std::size_t end = line.find(separator, begin);
    if (end == std::string_view::npos) {
      cells.push_back(line.substr(begin));
      return;
    }
    cells.push_back(line.substr(begin, end - begin));
    begin = end + 1;
  }
}

Result<bool> CsvRows::next() {
  std::string_view line;
  while (line.empty()) {
    if (rest_.empty()) return false;
    line = take_line();
  }
  if (separator_ == ',' && line.contains('"')) return fault("quotes are not supported");
  split(line, separator_, cells_);
  if (cells_.size() != header_.size()) {
    return fault(fmt::format("{} cells, but the header has {}", cells_.size(), header_.size()));
  }
  return true;
}

Result<double> CsvRows::number(std::size_t column, double least, double most) const {
  const std::string_view text = cells_[column];
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc{} && end == text.data() + text.size() && value >= least && value <= most) {
    return value;
  }
  const bool positive = least == std::numeric_limits<double>::min();
  return fault(fmt::format("{} is \"{}\"; it must be a number {} to {}", printable(header_[column]),
                           printable(text),
                           positive ? "above 0, up" : fmt::format("from {}", least), most));
}

Result<std::uint64_t> CsvRows::amount(std::size_t column, double most, double per_unit) const {
  GPEMU_ASSIGN(const double value, number(column, 0, most));
  return static_cast<std::uint64_t>(std::llround(value * per_unit));
}

std::unexpected<Error> CsvRows::fault(std::string_view what) const {
  return fail(ErrorCode::kCorruptData, "{}:{}: {}", *name_, line_, what);
}

}  // namespace gpemu::scheduling
