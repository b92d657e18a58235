// SPDX-License-Identifier: Apache-2.0
#include "gpemu/scheduling/job_table.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <limits>
#include <optional>
#include <span>

#include "gpemu/base/text.hpp"

#include "csv_rows.hpp"

namespace gpemu::scheduling {
namespace {

/// The largest time and number of iterations: 3 million years, or 1e14 iterations of a second,
/// which doubles hold to a hundredth.
constexpr double kMostTime = 1e14;
constexpr double kLeastPositive = std::numeric_limits<double>::min();

enum class Field : std::uint8_t {
  kId,
  kArrival,
  kDate,
  kGpus,
  kIterations,
  kIterationTime,
  kDuration,
  kRestart,
  kStage0,
  kStage1,
  kStage2,
  kModel,
  kPriority,
  kStatedTime,
};

struct Column {
  std::string_view name;
  Field field;
  double per_unit = 1;  ///< so many of the column's units are one of ours.
  bool needed = true;
};

struct Format {
  std::string_view name;
  std::span<const Column> columns;
  bool sorted = false;  ///< whether the rows must be sorted by arrival.
};

constexpr std::array kOwnColumns{
    Column{"job", Field::kId},
    Column{"arrival_s", Field::kArrival},
    Column{"gpus", Field::kGpus},
    Column{"duration_s", Field::kDuration},
    Column{"model", Field::kModel, 1, false},
    Column{"restart_s", Field::kRestart, 1, false},
};
/// Source: simulator/jobs.py of github.com/Rivendile/Muri; its times are in milliseconds.
constexpr std::array kMuriColumns{
    Column{"job_id", Field::kId},
    Column{"num_gpu", Field::kGpus},
    Column{"submit_time", Field::kArrival, 1000},
    Column{"iterations", Field::kIterations},
    Column{"model_name", Field::kModel},
    Column{"duration", Field::kStatedTime, 1000, false},
    Column{"iteration_time", Field::kIterationTime, 1000},
    Column{"resource_time_0", Field::kStage0, 1000},
    Column{"resource_time_1", Field::kStage1, 1000},
    Column{"resource_time_2", Field::kStage2, 1000},
    Column{"priority", Field::kPriority, 1, false},
};
/// Source: the CSV file that github.com/siasosp23/artifacts derived from Philly's trace.
constexpr std::array kPhillyColumns{
    Column{"timestamp", Field::kDate},
    Column{"num_gpus", Field::kGpus},
    Column{"duration", Field::kDuration},
};
/// Source: github.com/microsoft/elasticflow-traces; its times are in seconds.
constexpr std::array kElasticFlowColumns{
    Column{"job_id", Field::kId},
    Column{"submission_time", Field::kArrival},
    Column{"num_gpu", Field::kGpus},
    Column{"duration", Field::kDuration},
};
constexpr std::array kFormats{
    Format{"gpemu", kOwnColumns, true},
    Format{"Muri", kMuriColumns},
    Format{"Philly", kPhillyColumns},
    Format{"ElasticFlow", kElasticFlowColumns},
};

struct ChosenColumn {
  const Column* column = nullptr;
  std::size_t place = 0;
};

struct ChosenFormat {
  const Format* format = nullptr;
  std::vector<ChosenColumn> columns;
};

Result<ChosenFormat> format_of(const CsvRows& rows) {
  std::string known;
  for (const Format& format : kFormats) {
    ChosenFormat chosen{.format = &format};
    bool complete = true;
    known += fmt::format("{} {} (", known.empty() ? "" : ",", format.name);
    for (const Column& column : format.columns) {
      const std::optional<std::size_t> place = rows.column(column.name);
      if (place) chosen.columns.push_back({.column = &column, .place = *place});
      complete = complete && (place || !column.needed);
      if (column.needed) known += fmt::format("{}{}", known.ends_with('(') ? "" : " ", column.name);
    }
    known += ')';
    if (complete) return chosen;
  }
  return rows.fault("these columns are of no format of jobs; there are" + known);
}

/// Reads "2017-10-09 07:01:55" as seconds since 1970.
Result<double> date_of(const CsvRows& rows, std::size_t place) {
  const std::string_view text = rows.cell(place);
  std::array<int, 6> parts{};
  constexpr std::array<std::size_t, 6> kBegins{0, 5, 8, 11, 14, 17};
  bool valid = text.size() == 19;
  for (std::size_t i = 0; valid && i < parts.size(); ++i) {
    const char* const end = text.data() + kBegins[i] + (i == 0 ? 4 : 2);
    valid = std::from_chars(text.data() + kBegins[i], end, parts[i]).ptr == end;
  }
  const std::chrono::year_month_day day{std::chrono::year(parts[0]),
                                        std::chrono::month(static_cast<unsigned>(parts[1])),
                                        std::chrono::day(static_cast<unsigned>(parts[2]))};
  valid = valid && day.ok() && parts[3] < 24 && parts[4] < 60 && parts[5] < 60;
  if (!valid) {
    return rows.fault(
        fmt::format("\"{}\" is no time such as 2017-10-09 07:01:55", printable(text)));
  }
  const auto days = std::chrono::sys_days(day).time_since_epoch().count();
  return static_cast<double>(((days * 24 + parts[3]) * 60 + parts[4]) * 60 + parts[5]);
}

Result<void> read_number(const CsvRows& rows, const ChosenColumn& from,
                         const JobTableOptions& options, Job& job) {
  const Field field = from.column->field;
  const bool positive =
      field == Field::kIterations || field == Field::kIterationTime || field == Field::kDuration;
  double least = positive ? kLeastPositive : 0;
  double most = kMostTime;
  if (field == Field::kGpus) {
    least = 1;
    most = static_cast<double>(kMaxGpusOfFleet);
  }
  if (field == Field::kPriority) most = 1;
  GPEMU_ASSIGN(double value, rows.number(from.place, least, most));
  // In this order, which decides about the last bits, as in Muri's simulator.
  if (field == Field::kIterationTime || field == Field::kDuration)
    value *= options.iteration_factor;
  value /= from.column->per_unit;
  switch (field) {
    case Field::kArrival:
      job.arrival_s = value;
      break;
    case Field::kIterations:
      job.iterations = value;
      break;
    case Field::kIterationTime:
      job.iteration_s = value;
      break;
    case Field::kStatedTime:
      job.stated_s = value;
      break;
    case Field::kDuration:
      job.iterations = value;
      job.iteration_s = 1;
      break;
    case Field::kRestart:
      job.restart_s = value;
      break;
    case Field::kStage0:
      job.stages_s[0] = value;
      break;
    case Field::kStage1:
      job.stages_s[1] = value;
      break;
    case Field::kStage2:
      job.stages_s[2] = value;
      break;
    case Field::kPriority:
      job.opportunistic = value != 0;
      break;
    case Field::kGpus:
      job.gpus = static_cast<std::uint32_t>(value);
      if (job.gpus != value) return rows.fault("a job needs whole GPUs");
      break;
    case Field::kId:
    case Field::kDate:
    case Field::kModel:
      break;
  }
  return {};
}

Result<void> read_cell(const CsvRows& rows, const ChosenColumn& from,
                       const JobTableOptions& options, Job& job) {
  switch (from.column->field) {
    case Field::kId:
      job.id = printable(rows.cell(from.place));
      return {};
    case Field::kModel:
      job.model = printable(rows.cell(from.place));
      return {};
    case Field::kDate: {
      GPEMU_ASSIGN(job.arrival_s, date_of(rows, from.place));
      return {};
    }
    default:
      return read_number(rows, from, options, job);
  }
}

Result<Job> read_job(const CsvRows& rows, const ChosenFormat& format,
                     const JobTableOptions& options) {
  Job job;
  job.restart_s = options.restart_s;
  for (const ChosenColumn& column : format.columns) {
    GPEMU_TRY(read_cell(rows, column, options, job));
  }
  if (options.restarts == nullptr) return job;
  const auto found = options.restarts->find({job.model, job.gpus});
  if (found == options.restarts->end()) {
    return rows.fault(
        fmt::format("the restart times have no model \"{}\" with {} GPUs", job.model, job.gpus));
  }
  job.restart_s = found->second;
  return job;
}

}  // namespace

Result<std::vector<Job>> parse_jobs(std::string_view text, const std::string& name,
                                    const JobTableOptions& options) {
  GPEMU_ASSIGN(CsvRows rows, CsvRows::open(text, name));
  GPEMU_ASSIGN(const ChosenFormat format, format_of(rows));
  std::vector<Job> jobs;
  for (;;) {
    GPEMU_ASSIGN(const bool more, rows.next());
    if (!more) break;
    GPEMU_ASSIGN(Job job, read_job(rows, format, options));
    if (job.id.empty()) job.id = std::to_string(jobs.size());
    if (format.format->sorted && !jobs.empty() && job.arrival_s < jobs.back().arrival_s) {
      return rows.fault("it arrives before the row above; sort the rows by arrival_s");
    }
    jobs.push_back(std::move(job));
  }
  if (jobs.empty()) return rows.fault("no jobs follow");
  std::ranges::stable_sort(jobs, {}, &Job::arrival_s);
  const bool dates = format.columns.front().column->field == Field::kDate;
  const double first_s = dates ? jobs.front().arrival_s : 0;
  for (Job& job : jobs) job.arrival_s -= first_s;
  return jobs;
}

Result<std::vector<Job>> read_jobs(const std::filesystem::path& path,
                                   const JobTableOptions& options) {
  GPEMU_ASSIGN(const std::string text, read_maybe_compressed(path));
  return parse_jobs(text, path.string(), options);
}

Result<RestartTimes> read_restart_times(const std::filesystem::path& path) {
  GPEMU_ASSIGN(const std::string text, read_maybe_compressed(path));
  const std::string name = path.string();
  GPEMU_ASSIGN(CsvRows rows, CsvRows::open(text, name));
  const auto model = rows.column("model");
  const auto gpus = rows.column("gpus");
  const auto restart = rows.column("restart_s");
  if (!model || !gpus || !restart) {
    return rows.fault("restart times need the columns model, gpus and restart_s");
  }
  RestartTimes times;
  for (;;) {
    GPEMU_ASSIGN(const bool more, rows.next());
    if (!more) return times;
    GPEMU_ASSIGN(const double count, rows.number(*gpus, 1, static_cast<double>(kMaxGpusOfFleet)));
    GPEMU_ASSIGN(const double seconds, rows.number(*restart, 0, kMostTime));
    times[{printable(rows.cell(*model)), static_cast<std::uint32_t>(count)}] = seconds;
  }
}

}  // namespace gpemu::scheduling
