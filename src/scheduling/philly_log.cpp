// SPDX-License-Identifier: Apache-2.0
#include "philly_log.hpp"

#include <cstddef>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "gpemu/base/text.hpp"

#include "job_list.hpp"

namespace gpemu::scheduling {
namespace {

using nlohmann::json;

// Source of the format: README.md of github.com/msr-fiddle/philly-traces.

/// Returns the value of a key; null if the object has none.
const json& at(const json& object, const char* key) {
  static const json kNull;
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found == object.end() ? kNull : *found;
}

/// Returns a time; nothing if it was not recorded: null, "" or "None". Errors: by `fault`.
Result<std::optional<double>> time_of(const json& object, const char* key,
                                      const JobList::Fault& fault) {
  const json& value = at(object, key);
  if (value.is_null()) return std::nullopt;
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  if (text.empty() || text == "None") return std::nullopt;
  const std::optional<double> seconds = parse_date(text);
  if (seconds) return seconds;
  return fault(fmt::format("{} is \"{}\"; it must be a time such as 2017-10-09 07:01:55", key,
                           printable(text)));
}

/// Returns how many GPUs an attempt had.
std::size_t gpus_of(const json& attempt) {
  std::size_t gpus = 0;
  const json& detail = at(attempt, "detail");
  if (!detail.is_array()) return 0;
  for (const json& server : detail) {
    const json& list = at(server, "gpus");
    if (list.is_array()) gpus += list.size();
  }
  return gpus;
}

/// Returns for how long the attempts of a job ran together; 0 if the end of the last one is not
/// known, because the job ran on.
Result<double> run_time_of(const json& attempts, const JobList::Fault& fault) {
  double sum_s = 0;
  bool ended = false;
  for (const json& attempt : attempts) {
    GPEMU_ASSIGN(const std::optional<double> begin, time_of(attempt, "start_time", fault));
    GPEMU_ASSIGN(const std::optional<double> end, time_of(attempt, "end_time", fault));
    ended = end.has_value();
    if (begin && end && *end > *begin) sum_s += *end - *begin;
  }
  return ended ? sum_s : 0;
}

Result<void> add_job(const json& entry, JobList& jobs, const JobTableOptions& options,
                     const JobList::Fault& fault) {
  if (!entry.is_object()) return fault("it is no object");
  const json& attempts = at(entry, "attempts");
  if (!attempts.is_array()) return fault("it has no list \"attempts\"");
  GPEMU_ASSIGN(const std::optional<double> arrival, time_of(entry, "submitted_time", fault));
  GPEMU_ASSIGN(const double run_s, run_time_of(attempts, fault));
  const std::size_t gpus = attempts.empty() ? 0 : gpus_of(attempts.front());
  if (!arrival || gpus == 0 || run_s <= 0) {
    jobs.leave_out();
    return {};
  }
  if (gpus > kMaxGpusOfFleet) return fault("it has too many GPUs");
  Job job;
  job.arrival_s = *arrival;
  job.demand.gpus = static_cast<std::uint32_t>(gpus);
  job.iterations = run_s;
  job.iteration_s = options.iteration_factor;
  job.restart_s = options.restart_s;
  if (const json& id = at(entry, "jobid"); id.is_string()) {
    job.id = printable(id.get_ref<const std::string&>());
    if (job.id.find_first_of(",\"") != std::string::npos) {
      return fault("its jobid has a comma or a quote, which tables cannot have");
    }
  }
  if (const json& user = at(entry, "user"); user.is_string()) {
    job.user = jobs.user(user.get_ref<const std::string&>());
  }
  return jobs.add(std::move(job), fault);
}

}  // namespace

Result<std::vector<Job>> parse_philly_log(std::string_view text, const std::string& name,
                                          const JobTableOptions& options) {
  const json log = json::parse(text, nullptr, false);
  if (!log.is_array()) {
    return fail(ErrorCode::kCorruptData,
                "{}: it begins like Philly's log of jobs, but is no list in JSON", name);
  }
  JobList jobs(options);
  for (std::size_t i = 0; i < log.size(); ++i) {
    const auto fault = [&](std::string_view what) {
      return fail(ErrorCode::kCorruptData, "{}: job {} of the list: {}", name, i + 1, what);
    };
    GPEMU_TRY(add_job(log[i], jobs, options, fault));
  }
  return jobs.finish(true, [&](std::string_view what) {
    return fail(ErrorCode::kCorruptData, "{}: {}", name, what);
  });
}

}  // namespace gpemu::scheduling
