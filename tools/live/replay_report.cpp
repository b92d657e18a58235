// SPDX-License-Identifier: Apache-2.0
#include "live/replay_report.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

#include <fmt/format.h>

namespace gpemu::tools {
namespace {

using scheduling::Job;
using scheduling::JobState;

/// Places in an order of times: by job, from 1.
std::vector<std::size_t> places_of(const std::vector<double>& times) {
  std::vector<std::size_t> sorted(times.size());
  std::iota(sorted.begin(), sorted.end(), std::size_t{0});
  std::ranges::stable_sort(sorted, {}, [&](std::size_t job) { return times[job]; });
  std::vector<std::size_t> places(times.size());
  for (std::size_t i = 0; i < sorted.size(); ++i) places[sorted[i]] = i + 1;
  return places;
}

/// Returns why a job starts in another place than in the simulation: another job had ended before
/// it here, or there, which the policy saw; or else starts that are close to each other.
std::string reason_for_place(std::size_t job, double apart_s, std::span<const Job> jobs,
                             std::span<const ReplayedJob> replayed,
                             std::span<const JobState> simulated) {
  for (std::size_t other = 0; other < jobs.size(); ++other) {
    const bool is_before = replayed[other].end_s <= replayed[job].start_s;
    const bool was_before = simulated[other].end_s <= simulated[job].first_start_s;
    if (is_before == was_before) continue;
    const double by_s = std::abs(simulated[other].end_s - simulated[job].first_start_s);
    return fmt::format("{} ends {} it starts, in the simulation {:.1f} s {}", jobs[other].id,
                       is_before ? "before" : "after", by_s, is_before ? "after" : "before");
  }
  return fmt::format("the same jobs have ended; in the simulation, the two start {:.1f} s apart",
                     apart_s);
}

/// Returns the jobs that do not start in their place of the simulation, each with why: a line for
/// each. Jobs that the simulation starts at one time may start in any order.
std::vector<std::string> moved_jobs(std::span<const Job> jobs,
                                    std::span<const ReplayedJob> replayed,
                                    std::span<const JobState> simulated) {
  std::vector<double> starts;
  std::vector<double> sorted;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    starts.push_back(replayed[i].start_s);
    sorted.push_back(simulated[i].first_start_s);
  }
  const std::vector<std::size_t> places = places_of(starts);
  std::ranges::sort(sorted);
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const double start_s = simulated[i].first_start_s;
    const auto [first, last] = std::ranges::equal_range(sorted, start_s);
    const auto from = static_cast<std::size_t>(first - sorted.begin()) + 1;
    const auto to = static_cast<std::size_t>(last - sorted.begin());
    if (places[i] >= from && places[i] <= to) continue;
    const double apart_s = std::abs(sorted[places[i] - 1] - start_s);
    lines.push_back(fmt::format("{}: no. {}, simulated as no. {}: {}", jobs[i].id, places[i], from,
                                reason_for_place(i, apart_s, jobs, replayed, simulated)));
  }
  return lines;
}

}  // namespace

std::string replay_report(std::span<const Job> jobs, std::span<const ReplayedJob> replayed,
                          std::span<const JobState> simulated, const ReplayWords& words) {
  double jct_s = 0;
  double simulated_jct_s = 0;
  int evictions = 0;
  const auto count = static_cast<double>(jobs.size());
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    jct_s += (replayed[i].end_s - jobs[i].arrival_s) / count;
    simulated_jct_s += (simulated[i].end_s - jobs[i].arrival_s) / count;
    evictions += replayed[i].evictions;
  }
  const std::vector<std::string> moved = moved_jobs(jobs, replayed, simulated);
  std::string text =
      fmt::format("jobs             {}, {} {} times\n", jobs.size(), words.evictions, evictions);
  text += fmt::format("mean JCT         {:.1f} s {}, {:.1f} s simulated: {:+.1f} %\n", jct_s,
                      words.where, simulated_jct_s, 100 * (jct_s / simulated_jct_s - 1));
  text += fmt::format("order of starts  {} jobs have another place\n", moved.size());
  for (const std::string& line : moved) text += fmt::format("  {}\n", line);
  return text;
}

std::string replayed_jobs_table(std::span<const Job> jobs, std::span<const ReplayedJob> replayed,
                                std::span<const JobState> simulated) {
  std::string text = "job,arrival_s,start_s,end_s,evictions,simulated_start_s,simulated_end_s\n";
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    text += fmt::format("{},{:.3f},{:.3f},{:.3f},{},{:.3f},{:.3f}\n", jobs[i].id, jobs[i].arrival_s,
                        replayed[i].start_s, replayed[i].end_s, replayed[i].evictions,
                        simulated[i].first_start_s, simulated[i].end_s);
  }
  return text;
}

}  // namespace gpemu::tools
