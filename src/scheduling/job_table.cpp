// SPDX-License-Identifier: Apache-2.0
#include "gpemu/scheduling/job_table.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <utility>

#include "gpemu/base/text.hpp"

#include "csv_rows.hpp"
#include "job_list.hpp"
#include "philly_log.hpp"

namespace gpemu::scheduling {
namespace {

/// By so much may a stated duration differ from what iterations take together.
constexpr double kRounding = 1e-6;
/// The most cores, and GiB, that a job may ask for.
constexpr double kMostOfJob = 1e9;
constexpr double kLeastPositive = std::numeric_limits<double>::min();

enum class Field : std::uint8_t {
  kId,
  kArrival,
  kDate,
  kGpus,
  kSubmitted,
  kBegin,
  kEnd,
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
  kGpuShare,
  kGpuMilli,
  kGpuKinds,
  kCores,
  kMemory,
  kUser,
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
  bool sorted = false;       ///< whether the rows must be sorted by arrival.
  bool timeless = false;     ///< whether it says neither when jobs arrive nor how long they run.
  bool is_log = false;       ///< of what happened, also of jobs that never ran on GPUs.
  bool is_training = false;  ///< whether each job is a whole training, of which it says no more.
};

constexpr std::array kOwnColumns{
    Column{"job", Field::kId},
    Column{"arrival_s", Field::kArrival},
    Column{"gpus", Field::kGpus},
    Column{"duration_s", Field::kDuration},
    Column{"model", Field::kModel, 1, false},
    Column{"restart_s", Field::kRestart, 1, false},
    Column{"gpu_share", Field::kGpuShare, 1, false},
    Column{"gpu", Field::kGpuKinds, 1, false},
    Column{"cores", Field::kCores, 1, false},
    Column{"memory_gib", Field::kMemory, 1, false},
    Column{"user", Field::kUser, 1, false},
    Column{"iterations", Field::kIterations, 1, false},
    Column{"iteration_s", Field::kIterationTime, 1, false},
    Column{"host_s", Field::kStage0, 1, false},
    Column{"gpu_s", Field::kStage1, 1, false},
    Column{"network_s", Field::kStage2, 1, false},
    Column{"stated_s", Field::kStatedTime, 1, false},
    Column{"opportunistic", Field::kPriority, 1, false},
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
/// Source: data/csv of github.com/hkust-adsl/kubernetes-scheduler-simulator; some of its tables
/// have times, too.
constexpr std::array kOpenbColumns{
    Column{"name", Field::kId},
    Column{"cpu_milli", Field::kCores, kMillicoresPerCore},
    Column{"memory_mib", Field::kMemory, kMibPerGib},
    Column{"num_gpu", Field::kGpus},
    Column{"gpu_milli", Field::kGpuMilli},
    Column{"gpu_spec", Field::kGpuKinds, 1, false},
};
/// Source: README.md of github.com/S-Lab-System-Group/HeliosData and github.com/InternLM/AcmeTrace.
/// The time between start and end counts: in Acme's trace of Kalos, `duration` begins when a job is
/// submitted.
constexpr std::array kSlurmColumns{
    Column{"job_id", Field::kId},        Column{"user", Field::kUser},
    Column{"gpu_num", Field::kGpus},     Column{"submit_time", Field::kSubmitted},
    Column{"start_time", Field::kBegin}, Column{"end_time", Field::kEnd},
};
/// Source: simulator/workloads of github.com/petuum/adaptdl; Sia's workloads are alike.
constexpr std::array kPolluxColumns{
    Column{"name", Field::kId},
    Column{"time", Field::kArrival},
    Column{"application", Field::kModel},
    Column{"num_replicas", Field::kGpus},
};
constexpr std::array kFormats{
    Format{"gpemu", kOwnColumns, true},
    Format{"Muri", kMuriColumns},
    Format{"Philly", kPhillyColumns},
    Format{"ElasticFlow", kElasticFlowColumns},
    Format{.name = "openb", .columns = kOpenbColumns, .timeless = true},
    Format{.name = "Helios and Acme", .columns = kSlurmColumns, .is_log = true},
    Format{.name = "Pollux and Sia", .columns = kPolluxColumns, .is_training = true},
};

/// Lines of Gavel's traces have no header. Source: parse_trace() in scheduler/utils.py of
/// github.com/stanford-futuredata/gavel: at first without a directory, then with one; and of
/// github.com/uw-mad-dash/shockwave: with a mode, and with a duration.
constexpr std::string_view kGavelHeaders[]{
    "job_type,command,num_steps_arg,needs_data_dir,total_steps,scale_factor,priority_weight,SLO,"
    "arrival_time",
    "job_type,command,working_directory,num_steps_arg,needs_data_dir,total_steps,scale_factor,"
    "priority_weight,SLO,arrival_time",
    "job_type,command,working_directory,num_steps_arg,needs_data_dir,total_steps,scale_factor,mode,"
    "priority_weight,SLO,arrival_time",
    "job_type,command,working_directory,num_steps_arg,needs_data_dir,total_steps,scale_factor,mode,"
    "priority_weight,SLO,duration,arrival_time",
};
constexpr std::array kGavelColumns{
    Column{"job_type", Field::kModel},       Column{"total_steps", Field::kIterations},
    Column{"scale_factor", Field::kGpus},    Column{"duration", Field::kDuration, 1, false},
    Column{"arrival_time", Field::kArrival},
};
constexpr Format kGavelFormat{.name = "Gavel", .columns = kGavelColumns};

struct ChosenColumn {
  const Column* column = nullptr;
  std::size_t place = 0;
};

struct ChosenFormat {
  const Format* format = nullptr;
  std::vector<ChosenColumn> columns;
};

/// Returns where the columns of a format are, and whether all are there that it needs.
std::pair<ChosenFormat, bool> columns_of(const CsvRows& rows, const Format& format) {
  ChosenFormat chosen{.format = &format};
  bool complete = true;
  for (const Column& column : format.columns) {
    const std::optional<std::size_t> place = rows.column(column.name);
    if (place) chosen.columns.push_back({.column = &column, .place = *place});
    complete = complete && (place || !column.needed);
  }
  return {std::move(chosen), complete};
}

Result<ChosenFormat> format_of(const CsvRows& rows) {
  std::string known;
  for (const Format& format : kFormats) {
    auto [chosen, complete] = columns_of(rows, format);
    if (complete) return std::move(chosen);
    known += fmt::format("{} {} (", known.empty() ? "" : ",", format.name);
    for (const Column& column : format.columns) {
      if (column.needed) known += fmt::format("{}{}", known.ends_with('(') ? "" : " ", column.name);
    }
    known += ')';
  }
  return rows.fault("these columns are of no format of jobs; there are" + known);
}

Result<double> date_of(const CsvRows& rows, std::size_t place) {
  const std::string_view text = rows.cell(place);
  if (const std::optional<double> seconds = parse_date(text)) return *seconds;
  return rows.fault(fmt::format("\"{}\" is no time such as 2017-10-09 07:01:55", printable(text)));
}

std::uint64_t amount_of(double value, double per_unit) {
  return static_cast<std::uint64_t>(std::llround(value * per_unit));
}

/// Reads the kinds of GPUs that a job may have: names with | between them; none: any.
Result<void> read_kinds(const CsvRows& rows, std::string_view names, const Fleet* fleet,
                        Demand& demand) {
  if (names.empty()) return {};
  demand.kinds = 0;
  for (const auto part : std::views::split(names, '|')) {
    const std::string_view name(part.begin(), part.end());
    if (fleet == nullptr) return rows.fault("jobs that name kinds of GPUs need a table of servers");
    const auto found = std::ranges::find(fleet->kinds(), name);
    if (found == fleet->kinds().end()) {
      return rows.fault(fmt::format("the fleet has no GPU \"{}\"; it has {}", printable(name),
                                    fmt::join(fleet->kinds(), ", ")));
    }
    demand.kinds |= std::uint64_t{1} << (found - fleet->kinds().begin());
  }
  return {};
}

struct Bounds {
  double least = 0;
  double most = kMostTime;
};

Bounds bounds_of(Field field) {
  switch (field) {
    case Field::kIterations:
    case Field::kIterationTime:
    case Field::kDuration:
      return {.least = kLeastPositive};
    case Field::kGpus:
      return {.most = static_cast<double>(kMaxGpusOfFleet)};
    case Field::kPriority:
      return {.most = 1};
    case Field::kGpuShare:
      return {.least = 1.0 / kWholeGpu, .most = 1};
    case Field::kGpuMilli:
      return {.most = kWholeGpu};
    case Field::kCores:
    case Field::kMemory:
      return {.most = kMostOfJob};
    default:
      return {};
  }
}

/// Sets what the job asks for. Returns whether the field is of that kind.
bool set_demand(Field field, double value, Demand& demand) {
  switch (field) {
    case Field::kGpus:
      demand.gpus = static_cast<std::uint32_t>(value);
      return true;
    case Field::kGpuMilli:
      demand.gpu_share = static_cast<std::uint32_t>(std::llround(value));
      return true;
    case Field::kGpuShare:
      demand.gpu_share = static_cast<std::uint32_t>(std::llround(value * kWholeGpu));
      return true;
    case Field::kCores:
      demand.host.millicores = amount_of(value, kMillicoresPerCore);
      return true;
    case Field::kMemory:
      demand.host.memory_mib = amount_of(value, kMibPerGib);
      return true;
    default:
      return false;
  }
}

void set_time(Field field, double value, Job& job) {
  switch (field) {
    case Field::kArrival:
      job.arrival_s = value;
      return;
    case Field::kIterations:
      job.iterations = value;
      return;
    case Field::kIterationTime:
      job.iteration_s = value;
      return;
    case Field::kDuration:
      job.iterations = value;
      job.iteration_s = 1;
      return;
    case Field::kRestart:
      job.restart_s = value;
      return;
    case Field::kStatedTime:
      job.stated_s = value;
      return;
    case Field::kStage0:
    case Field::kStage1:
    case Field::kStage2:
      job.stages_s[std::to_underlying(field) - std::to_underlying(Field::kStage0)] = value;
      return;
    case Field::kPriority:
      job.opportunistic = value != 0;
      return;
    default:
      return;
  }
}

Result<void> read_number(const CsvRows& rows, const ChosenColumn& from,
                         const JobTableOptions& options, Job& job) {
  const Field field = from.column->field;
  const Bounds bounds = bounds_of(field);
  GPEMU_ASSIGN(double value, rows.number(from.place, bounds.least, bounds.most));
  if (field == Field::kGpus && value != std::floor(value)) {
    return rows.fault("a job needs whole GPUs");
  }
  // In this order, which decides about the last bits, as in Muri's simulator.
  if (field == Field::kIterationTime || field == Field::kDuration)
    value *= options.iteration_factor;
  value /= from.column->per_unit;
  if (!set_demand(field, value, job.demand)) set_time(field, value, job);
  return {};
}

/// A row, before it is a job.
struct Row {
  Job job;
  std::optional<double>
      begin_s;  ///< when the job ran, according to a log; not known: it never did.
  std::optional<double> end_s;
  double duration_s = 0;  ///< 0: not stated.
};

Result<void> read_cell(const CsvRows& rows, const ChosenColumn& from,
                       const JobTableOptions& options, JobList& jobs, Row& row) {
  const std::string_view cell = rows.cell(from.place);
  switch (from.column->field) {
    case Field::kId:
      row.job.id = printable(cell);
      return {};
    case Field::kModel:
      row.job.model = printable(cell);
      return {};
    case Field::kGpuKinds:
      return read_kinds(rows, cell, options.fleet, row.job.demand);
    case Field::kUser:
      row.job.user = jobs.user(printable(cell));
      return {};
    case Field::kDate:
    case Field::kSubmitted: {
      GPEMU_ASSIGN(row.job.arrival_s, date_of(rows, from.place));
      return {};
    }
    case Field::kBegin:
    case Field::kEnd: {
      if (cell.empty()) return {};
      auto& time = from.column->field == Field::kBegin ? row.begin_s : row.end_s;
      GPEMU_ASSIGN(time, date_of(rows, from.place));
      return {};
    }
    default:
      GPEMU_TRY(read_number(rows, from, options, row.job));
      if (from.column->field == Field::kDuration) row.duration_s = row.job.work_s();
      return {};
  }
}

Result<void> read_row(const CsvRows& rows, const ChosenFormat& format,
                      const JobTableOptions& options, JobList& jobs, double& last_arrival_s) {
  Row row;
  row.job.restart_s = options.restart_s;
  for (const ChosenColumn& column : format.columns) {
    GPEMU_TRY(read_cell(rows, column, options, jobs, row));
  }
  const bool ran =
      row.job.demand.gpus != 0 && row.begin_s && row.end_s && *row.end_s > *row.begin_s;
  if (format.format->is_log && !ran) {
    jobs.leave_out();
    return {};
  }
  if (ran) {
    row.job.iterations = *row.end_s - *row.begin_s;
    row.job.iteration_s = options.iteration_factor;
  }
  if (format.format->is_training) row.job.iterations = 1;
  if (std::abs(row.job.work_s() - row.duration_s) > kRounding * row.duration_s &&
      row.duration_s > 0) {
    return rows.fault("duration_s is not iterations times iteration_s");
  }
  if (format.format->sorted && row.job.arrival_s < last_arrival_s) {
    return rows.fault("it arrives before the row above; sort the rows by arrival_s");
  }
  last_arrival_s = row.job.arrival_s;
  return jobs.add(std::move(row.job), [&](std::string_view what) { return rows.fault(what); });
}

Result<std::vector<Job>> read_rows(CsvRows& rows, const ChosenFormat& format,
                                   const JobTableOptions& options) {
  JobList jobs(options);
  double last_arrival_s = 0;
  for (;;) {
    GPEMU_ASSIGN(const bool more, rows.next());
    if (!more) break;
    GPEMU_TRY(read_row(rows, format, options, jobs, last_arrival_s));
  }
  const bool has_dates = std::ranges::any_of(format.columns, [](const ChosenColumn& chosen) {
    return chosen.column->field == Field::kDate || chosen.column->field == Field::kSubmitted;
  });
  return jobs.finish(has_dates, [&](std::string_view what) { return rows.fault(what); });
}

/// Returns the header of Gavel's traces with so many cells in a line; empty: there is none.
std::string_view gavel_header_of(std::string_view text) {
  const auto tabs = std::ranges::count(text.substr(0, text.find('\n')), '\t');
  for (const std::string_view header : kGavelHeaders) {
    if (std::ranges::count(header, ',') == tabs) return header;
  }
  return {};
}

}  // namespace

Result<std::vector<Job>> parse_jobs(std::string_view text, const std::string& name,
                                    const JobTableOptions& options) {
  if (text.substr(0, text.find_first_not_of(" \t\r\n") + 1).ends_with('[')) {
    return parse_philly_log(text, name, options);
  }
  if (const std::string_view header = gavel_header_of(text); !header.empty()) {
    CsvRows rows = CsvRows::with_tabs(text, name, header);
    return read_rows(rows, columns_of(rows, kGavelFormat).first, options);
  }
  GPEMU_ASSIGN(CsvRows rows, CsvRows::open(text, name));
  GPEMU_ASSIGN(const ChosenFormat format, format_of(rows));
  if (format.format->timeless && !options.timeless) {
    return rows.fault(fmt::format(
        "tables in the format {} do not say how long jobs run; `gpemu place` takes them",
        format.format->name));
  }
  return read_rows(rows, format, options);
}

Result<std::vector<Job>> read_jobs(const std::filesystem::path& path,
                                   const JobTableOptions& options) {
  GPEMU_ASSIGN(const std::string text, read_maybe_compressed(path));
  return parse_jobs(text, path.string(), options);
}

Result<std::vector<Job>> read_jobs(const JobFiles& files, const Fleet& fleet) {
  JobTableOptions options{.fleet = &fleet, .restart_s = files.restart_s};
  if (files.accounting == Accounting::kMuri) options.iteration_factor = kMuriIterationFactor;
  SpeedTable speeds;
  if (!files.speeds.empty()) {
    GPEMU_ASSIGN(speeds, read_speeds(files.speeds, fleet));
    options.speeds = &speeds;
  }
  RestartTimes restarts;
  if (!files.restarts.empty()) {
    GPEMU_ASSIGN(restarts, read_restart_times(files.restarts));
    options.restarts = &restarts;
  }
  return read_jobs(files.jobs, options);
}

Result<RestartTimes> parse_restart_times(std::string_view text, const std::string& name) {
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
    if (count != std::floor(count)) return rows.fault("a job needs whole GPUs");
    GPEMU_ASSIGN(const double seconds, rows.number(*restart, 0, kMostTime));
    std::pair key(printable(rows.cell(*model)), static_cast<std::uint32_t>(count));
    if (!times.emplace(std::move(key), seconds).second) {
      return rows.fault("this model and number of GPUs have a restart time already");
    }
  }
}

Result<RestartTimes> read_restart_times(const std::filesystem::path& path) {
  GPEMU_ASSIGN(const std::string text, read_maybe_compressed(path));
  return parse_restart_times(text, path.string());
}

}  // namespace gpemu::scheduling
