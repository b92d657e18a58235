// SPDX-License-Identifier: Apache-2.0
#include "gpemu/scheduling/schedule_metrics.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace gpemu::scheduling {
namespace {

constexpr auto kFigures = std::to_array<ScheduleFigure>({
    {"average_jct_s", "JCT", "s", "the jobs' average time from arrival to end",
     [](const ScheduleMetrics& m) { return m.average_jct_s; }},
    {"p40_jct_s", "", "s", "the 40th percentile of that time",
     [](const ScheduleMetrics& m) { return m.p40_jct_s; }},
    {"median_jct_s", "median", "s", "its median",
     [](const ScheduleMetrics& m) { return m.median_jct_s; }},
    {"p90_jct_s", "", "s", "its 90th percentile",
     [](const ScheduleMetrics& m) { return m.p90_jct_s; }},
    {"p95_jct_s", "p95", "s", "its 95th percentile",
     [](const ScheduleMetrics& m) { return m.p95_jct_s; }},
    {"p99_jct_s", "p99", "s", "its 99th percentile",
     [](const ScheduleMetrics& m) { return m.p99_jct_s; }},
    {"makespan_s", "makespan", "s", "from the first arrival to the last end",
     [](const ScheduleMetrics& m) { return m.makespan_s; }},
    {"average_wait_s", "wait", "s", "of the average time, that without GPUs",
     [](const ScheduleMetrics& m) { return m.average_wait_s; }},
    {"average_run_s", "", "s", "of the average time, that with GPUs",
     [](const ScheduleMetrics& m) { return m.average_jct_s - m.average_wait_s; }},
    {"held_percent", "held", "%", "the share of the GPUs' time, over the makespan, that jobs held",
     [](const ScheduleMetrics& m) { return 100 * m.utilization; }},
    {"preemptions", "preempted", "", "how often jobs lost their GPUs before they ended",
     [](const ScheduleMetrics& m) { return m.preemptions; }},
});

}  // namespace

ScheduleMetrics metrics_of(const Fleet& fleet, std::span<const Job> jobs,
                           const SimulationResult& result) {
  std::vector<double> jct(jobs.size());
  ScheduleMetrics metrics;
  double last_s = 0;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const JobState& state = result.jobs[i];
    jct[i] = state.end_s - jobs[i].arrival_s;
    metrics.average_jct_s += jct[i];
    metrics.average_wait_s += jct[i] - state.held_s;
    metrics.preemptions += state.starts - 1;
    last_s = std::max(last_s, state.end_s);
  }
  const auto count = static_cast<double>(jobs.size());
  metrics.average_jct_s /= count;
  metrics.average_wait_s /= count;
  std::ranges::sort(jct);
  const auto percentile = [&](double share) {
    return jct[std::min(jct.size() - 1, static_cast<std::size_t>(std::floor(share * count)))];
  };
  metrics.p40_jct_s = percentile(0.4);
  metrics.median_jct_s = percentile(0.5);
  metrics.p90_jct_s = percentile(0.9);
  metrics.p95_jct_s = percentile(0.95);
  metrics.p99_jct_s = percentile(0.99);
  metrics.makespan_s = last_s - jobs.front().arrival_s;
  if (metrics.makespan_s > 0) {
    metrics.utilization =
        result.held_gpu_s / (static_cast<double>(fleet.gpus()) * metrics.makespan_s);
  }
  return metrics;
}

std::vector<EvidenceShare> evidence_of(std::span<const Job> jobs, const SimulationResult& result) {
  std::map<std::string, double> held_s;
  double all_s = 0;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    std::string evidence = "stated durations";
    if (jobs[i].speed) evidence = jobs[i].speed->evidence;
    if (evidence.empty()) evidence = "stated speeds";
    held_s[evidence] += result.jobs[i].held_s;
    all_s += result.jobs[i].held_s;
  }
  std::vector<EvidenceShare> shares;
  for (const auto& [evidence, held] : held_s) {
    shares.push_back({.evidence = evidence, .share = all_s > 0 ? held / all_s : 0});
  }
  std::ranges::stable_sort(shares, std::ranges::greater(), &EvidenceShare::share);
  return shares;
}

std::span<const ScheduleFigure> schedule_figures() {
  return kFigures;
}

}  // namespace gpemu::scheduling
