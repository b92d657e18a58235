// SPDX-License-Identifier: Apache-2.0
#include "live/job_notes.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include "gpemu/scheduling/job_table.hpp"

namespace gpemu::tools {
namespace {

using scheduling::Fleet;
using scheduling::Job;
using scheduling::SpeedProfile;

/// How long a job is taken to run that does not say it: longer than any that do.
constexpr double kUnknownSeconds = 1e9;
constexpr double kMibInGib = 1024;

std::string number_text(double number) {
  return fmt::format("{:.12g}", number);
}

/// Returns a profile as the rows of a table of speeds, for each kind of the fleet.
std::string speeds_text(const Fleet& fleet, const SpeedProfile& profile) {
  std::string text;
  for (std::size_t kind = 0; kind < fleet.kinds().size(); ++kind) {
    const std::string& name = fleet.kinds()[kind];
    const auto hosts = profile.hosts_on(kind);
    if (hosts.empty()) {
      if (text.empty()) text = "gpu,speed\n";
      const double speed = profile.by_kind.empty() ? 1 : profile.by_kind[kind];
      text += fmt::format("{},{}\n", name, number_text(speed));
    }
    for (const SpeedProfile::WithHost& host : hosts) {
      if (text.empty()) text = "gpu,cores,memory_gib,speed\n";
      text += fmt::format("{},{},{},{}\n", name,
                          number_text(static_cast<double>(host.per_gpu.millicores) / 1000),
                          number_text(static_cast<double>(host.per_gpu.memory_mib) / kMibInGib),
                          number_text(profile.speed(kind, host.per_gpu)));
    }
  }
  return text;
}

}  // namespace

std::string JobNotes::text(std::string_view name) const {
  const auto found = texts_.find(full_name(name));
  return found == texts_.end() ? "" : found->second;
}

Result<double> JobNotes::number(std::string_view name, double otherwise, double least) const {
  const auto found = texts_.find(full_name(name));
  if (found == texts_.end()) return otherwise;
  const std::string& text = found->second;
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = error == std::errc{} && end == text.data() + text.size();
  if (is_number && std::isfinite(number) && number >= least) return number;
  return fail(ErrorCode::kInvalidArgument, "{} {} is '{}'; it must be a number from {} on", kind_,
              full_name(name), text, least);
}

Result<std::shared_ptr<const SpeedProfile>> NotedSpeeds::of(const JobNotes& notes,
                                                            const Fleet& fleet) {
  const std::string table = notes.text(note::kSpeeds);
  if (table.empty()) return nullptr;
  if (const auto known = known_.find(table); known != known_.end()) return known->second;
  // A table of speeds without the column of models: it is about this one.
  std::string text;
  for (std::size_t begin = 0; begin < table.size();) {
    const std::size_t end = std::min(table.find('\n', begin), table.size());
    if (end > begin) text += "model," + table.substr(begin, end - begin) + "\n";
    begin = end + 1;
  }
  const std::string name = notes.full_name(note::kSpeeds);
  GPEMU_ASSIGN(const scheduling::SpeedTable speeds, scheduling::parse_speeds(text, name, fleet));
  const auto found = std::ranges::find_if(
      speeds, [](const auto& entry) { return entry.first.second == scheduling::kAnyGpus; });
  if (found == speeds.end()) return fail(ErrorCode::kInvalidArgument, "{} has no row", name);
  return known_[table] = found->second;
}

Result<Job> job_of_notes(const JobNotes& notes, const Fleet& fleet, NotedSpeeds& speeds) {
  Job job;
  GPEMU_ASSIGN(const double seconds, notes.number(note::kSeconds, kUnknownSeconds));
  GPEMU_ASSIGN(job.iterations, notes.number(note::kIterations, std::max(seconds, 1e-3)));
  job.iteration_s = std::max(seconds, 1e-3) / job.iterations;
  if (!(job.iterations > 0) || !std::isfinite(job.iteration_s)) {
    return fail(ErrorCode::kInvalidArgument, "{} of {} and {} of {} are no times of iterations",
                notes.full_name(note::kSeconds), seconds, notes.full_name(note::kIterations),
                job.iterations);
  }
  GPEMU_ASSIGN(job.restart_s, notes.number(note::kRestartSeconds, 0));
  GPEMU_ASSIGN(job.stated_s, notes.number(note::kStatedSeconds, 0));
  const auto stages = parse_numbers(notes.text(note::kStageSeconds));
  const bool are_times =
      stages && std::ranges::all_of(*stages, [](double stage_s) { return stage_s >= 0; });
  if (!are_times || (!stages->empty() && stages->size() != job.stages_s.size())) {
    return fail(ErrorCode::kInvalidArgument,
                "{} must be the seconds that an iteration spends on storage and processors, on "
                "GPUs and on the network, with commas between them",
                notes.full_name(note::kStageSeconds));
  }
  std::ranges::copy(*stages, job.stages_s.begin());
  GPEMU_ASSIGN(job.speed, speeds.of(notes, fleet));
  job.opportunistic = notes.text(note::kOpportunistic) == "true";
  return job;
}

std::map<std::string, std::string> notes_of_job(const Fleet& fleet, const Job& job, double done_s) {
  std::map<std::string, std::string> all;
  const auto add = [&](std::string_view name, std::string text) {
    all[std::string(name)] = std::move(text);
  };
  add(note::kSeconds, number_text(job.work_s()));
  add(note::kIterations, number_text(job.iterations));
  add(note::kUser, std::to_string(job.user));
  if (done_s > 0) add(note::kDoneSeconds, number_text(done_s));
  if (job.restart_s > 0) add(note::kRestartSeconds, number_text(job.restart_s));
  if (job.stated_s > 0) add(note::kStatedSeconds, number_text(job.stated_s));
  if (job.opportunistic) add(note::kOpportunistic, "true");
  if (job.stages_s != decltype(job.stages_s){}) {
    add(note::kStageSeconds,
        fmt::format("{},{},{}", number_text(job.stages_s[0]), number_text(job.stages_s[1]),
                    number_text(job.stages_s[2])));
  }
  if (job.speed) add(note::kSpeeds, speeds_text(fleet, *job.speed));
  return all;
}

std::optional<std::vector<double>> parse_numbers(std::string_view text) {
  std::vector<double> numbers;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(','));
    double number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    const bool is_number = error == std::errc{} && end == word.data() + word.size();
    if (!is_number || !std::isfinite(number)) return std::nullopt;
    numbers.push_back(number);
    text.remove_prefix(std::min(word.size() + 1, text.size()));
  }
  return numbers;
}

}  // namespace gpemu::tools
