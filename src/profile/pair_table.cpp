// SPDX-License-Identifier: Apache-2.0
#include "gpemu/profile/pair_table.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "gpemu/base/file.hpp"

#include "table_reader.hpp"

namespace gpemu::profile {
namespace {

constexpr std::int64_t kMostBatch = 1 << 24;
constexpr double kMostSpeed = 100;

/// The columns of one of the jobs.
struct JobColumns {
  std::size_t model = 0, batch = 0, speed = 0;
  std::optional<std::size_t> precision, utilization, memory_utilization;
};

std::optional<std::size_t> column_of(std::string_view header, std::string_view name) {
  std::size_t column = 0;
  while (true) {
    const std::size_t comma = header.find(',');
    if (header.substr(0, comma) == name) return column;
    if (comma == std::string_view::npos) return std::nullopt;
    header.remove_prefix(comma + 1);
    ++column;
  }
}

/// Reads the rows of a table with these columns.
class PairReader {
 public:
  PairReader(TableReader& table, std::size_t gpu, std::array<JobColumns, 2> jobs)
      : table_(table), gpu_(gpu), jobs_(jobs) {}

  std::vector<MeasuredPair> read() {
    std::vector<MeasuredPair> pairs;
    while (table_.next()) {
      MeasuredPair pair{.gpu = text(gpu_), .jobs = {}, .speeds = {}};
      const bool together = !table_.field(jobs_[0].speed).empty();
      for (std::size_t i = 0; i < pair.jobs.size(); ++i) {
        const JobColumns& columns = jobs_.at(i);
        pair.jobs.at(i) = job(columns);
        if (!together) continue;
        pair.speeds.at(i) = number(columns.speed, kMostSpeed);
        if (pair.speeds.at(i) == 0) table_.fault("a speed above 0 was expected");
      }
      if (together) pairs.push_back(std::move(pair));
    }
    return pairs;
  }

 private:
  std::string text(std::size_t column) {
    constexpr std::size_t kMostLength = 100;
    const std::string_view field = table_.field(column);
    if (field.empty() || field.size() > kMostLength) {
      table_.fault(fmt::format("a name of 1 to {} characters was expected", kMostLength));
    }
    return std::string(field);
  }

  double number(std::size_t column, double most) {
    const std::optional<double> value = table_.number(column);
    if (value && *value >= 0 && *value <= most) return *value;
    if (value) table_.fault(fmt::format("{} is not from 0 to {}", table_.field(column), most));
    return 0;
  }

  std::optional<double> share(std::optional<std::size_t> column) {
    constexpr double kPercent = 100;
    if (!column || table_.field(*column).empty()) return std::nullopt;
    return number(*column, kPercent) / kPercent;
  }

  PairedJob job(const JobColumns& columns) {
    PairedJob job{.model = text(columns.model),
                  .precision = "fp32",
                  .utilization = share(columns.utilization),
                  .memory_utilization = share(columns.memory_utilization)};
    if (columns.precision) job.precision = text(*columns.precision);
    if (!table_.field(columns.batch).empty()) {
      job.batch = static_cast<int>(table_.integer(columns.batch, 1, kMostBatch).value_or(0));
    }
    return job;
  }

  TableReader& table_;
  std::size_t gpu_;
  std::array<JobColumns, 2> jobs_;
};

}  // namespace

Result<std::vector<MeasuredPair>> read_pairs(const std::filesystem::path& file) {
  GPEMU_ASSIGN(std::string csv, read_file(file));
  // Spreadsheets end lines with CR LF.
  for (std::size_t at = csv.find("\r\n"); at != std::string::npos; at = csv.find("\r\n", at)) {
    csv.erase(at, 1);
  }
  const std::string header = csv.substr(0, csv.find('\n'));
  std::string missing;
  const auto find = [&](const std::string& name) {
    const std::optional<std::size_t> column = column_of(header, name);
    if (!column && missing.empty()) missing = name;
    return column.value_or(0);
  };
  const std::size_t gpu = find("gpu");
  std::array<JobColumns, 2> jobs;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const std::string suffix = i == 0 ? "_a" : "_b";
    jobs.at(i) = {.model = find("model" + suffix),
                  .batch = find("batch" + suffix),
                  .speed = find("speed" + suffix),
                  .precision = column_of(header, "precision" + suffix),
                  .utilization = column_of(header, "util" + suffix),
                  .memory_utilization = column_of(header, "memutil" + suffix)};
  }
  if (!missing.empty()) {
    return fail(ErrorCode::kCorruptData,
                "{}:1: there is no column {}; a table of pairs has gpu, model_a, batch_a, speed_a, "
                "model_b, batch_b and speed_b",
                file.string(), missing);
  }
  std::vector<PackFault> faults;
  TableReader table(csv, file, header, faults);
  std::vector<MeasuredPair> pairs = PairReader(table, gpu, jobs).read();
  if (!faults.empty()) {
    const PackFault& first = faults.front();
    return fail(ErrorCode::kCorruptData, "{}:{}: {}", first.file.string(), first.line,
                first.message);
  }
  return pairs;
}

}  // namespace gpemu::profile
