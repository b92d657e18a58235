// SPDX-License-Identifier: Apache-2.0
#include "gpemu/scheduling/job_table.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <utility>

#include "gpemu/base/text.hpp"

#include "csv_rows.hpp"

namespace gpemu::scheduling {
namespace {

/// The largest time and number of iterations: 3 million years, or 1e14 iterations of a second,
/// which doubles hold to a hundredth.
constexpr double kMostTime = 1e14;
/// The most cores, and GiB, that a job may ask for.
constexpr double kMostOfJob = 1e9;
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
  bool sorted = false;    ///< whether the rows must be sorted by arrival.
  bool timeless = false;  ///< whether it says neither when jobs arrive nor how long they run.
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
constexpr std::array kFormats{
    Format{"gpemu", kOwnColumns, true},
    Format{"Muri", kMuriColumns},
    Format{"Philly", kPhillyColumns},
    Format{"ElasticFlow", kElasticFlowColumns},
    Format{.name = "openb", .columns = kOpenbColumns, .timeless = true},
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
  constexpr std::string_view kForm = "dddd-dd-dd dd:dd:dd";
  bool valid = text.size() == kForm.size();
  for (std::size_t i = 0; valid && i < text.size(); ++i) {
    valid = kForm[i] == 'd' ? text[i] >= '0' && text[i] <= '9' : text[i] == kForm[i];
  }
  std::array<int, 6> parts{};
  constexpr std::array<std::size_t, 6> kBegins{0, 5, 8, 11, 14, 17};
  for (std::size_t i = 0; valid && i < parts.size(); ++i) {
    const char* const begin = text.data() + kBegins[i];
    std::from_chars(begin, begin + (i == 0 ? 4 : 2), parts[i]);
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

/// The numbers of users, by name.
using Users = std::map<std::string, std::uint32_t>;

Result<void> read_cell(const CsvRows& rows, const ChosenColumn& from,
                       const JobTableOptions& options, Users& users, Job& job) {
  switch (from.column->field) {
    case Field::kId:
      job.id = printable(rows.cell(from.place));
      return {};
    case Field::kModel:
      job.model = printable(rows.cell(from.place));
      return {};
    case Field::kGpuKinds:
      return read_kinds(rows, rows.cell(from.place), options.fleet, job.demand);
    case Field::kUser: {
      const auto number = static_cast<std::uint32_t>(users.size());
      job.user = users.try_emplace(printable(rows.cell(from.place)), number).first->second;
      return {};
    }
    case Field::kDate: {
      GPEMU_ASSIGN(job.arrival_s, date_of(rows, from.place));
      return {};
    }
    default:
      return read_number(rows, from, options, job);
  }
}

/// Makes the demand of a job that needs no GPU what it is without any.
Result<void> settle_demand(const CsvRows& rows, Demand& demand) {
  if (demand.gpus != 0 && demand.gpu_share == 0) {
    return rows.fault("it asks for GPUs, but for nothing of them");
  }
  if (demand.gpus != 0) return {};
  demand.gpu_share = kWholeGpu;
  demand.kinds = Demand().kinds;
  if (demand.host != HostShare{}) return {};
  return rows.fault("it asks for nothing: no GPUs, no cores and no memory");
}

/// Adds what other tables say about the job.
Result<void> add_speed(const CsvRows& rows, const SpeedTable& speeds, Job& job) {
  const auto found = speeds.find(job.model);
  if (found == speeds.end()) {
    return rows.fault(fmt::format("the speeds have no model \"{}\"", job.model));
  }
  job.speed = found->second;
  const std::size_t kinds = std::max(job.speed->by_kind.size(), job.speed->by_kind_and_host.size());
  for (std::size_t kind = 0; kind < kinds; ++kind) {
    if (!job.speed->runs_on(kind)) job.demand.kinds &= ~(std::uint64_t{1} << kind);
  }
  return {};
}

Result<Job> read_job(const CsvRows& rows, const ChosenFormat& format,
                     const JobTableOptions& options, Users& users) {
  Job job;
  job.restart_s = options.restart_s;
  for (const ChosenColumn& column : format.columns) {
    GPEMU_TRY(read_cell(rows, column, options, users, job));
  }
  GPEMU_TRY(settle_demand(rows, job.demand));
  if (options.speeds != nullptr) GPEMU_TRY(add_speed(rows, *options.speeds, job));
  if (options.restarts == nullptr) return job;
  const auto found = options.restarts->find({job.model, job.demand.gpus});
  if (found == options.restarts->end()) {
    return rows.fault(fmt::format("the restart times have no model \"{}\" with {} GPUs", job.model,
                                  job.demand.gpus));
  }
  job.restart_s = found->second;
  return job;
}

}  // namespace

Result<std::vector<Job>> parse_jobs(std::string_view text, const std::string& name,
                                    const JobTableOptions& options) {
  GPEMU_ASSIGN(CsvRows rows, CsvRows::open(text, name));
  GPEMU_ASSIGN(const ChosenFormat format, format_of(rows));
  if (format.format->timeless && !options.timeless) {
    return rows.fault(fmt::format(
        "tables in the format {} do not say how long jobs run; `gpemu place` takes them",
        format.format->name));
  }
  std::vector<Job> jobs;
  Users users;
  for (;;) {
    GPEMU_ASSIGN(const bool more, rows.next());
    if (!more) break;
    GPEMU_ASSIGN(Job job, read_job(rows, format, options, users));
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
