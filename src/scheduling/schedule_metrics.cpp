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
    {"average_jct_s", "JCT", "s", 1, "the jobs' average time from arrival to end",
     [](const ScheduleMetrics& m) { return m.average_jct_s; }},
    {"p40_jct_s", "", "s", 1, "the 40th percentile of that time",
     [](const ScheduleMetrics& m) { return m.p40_jct_s; }},
    {"median_jct_s", "median", "s", 1, "its median",
     [](const ScheduleMetrics& m) { return m.median_jct_s; }},
    {"p90_jct_s", "", "s", 1, "its 90th percentile",
     [](const ScheduleMetrics& m) { return m.p90_jct_s; }},
    {"p95_jct_s", "p95", "s", 1, "its 95th percentile",
     [](const ScheduleMetrics& m) { return m.p95_jct_s; }},
    {"p99_jct_s", "p99", "s", 1, "its 99th percentile",
     [](const ScheduleMetrics& m) { return m.p99_jct_s; }},
    {"makespan_s", "makespan", "s", 1, "from the first arrival to the last end",
     [](const ScheduleMetrics& m) { return m.makespan_s; }},
    {"average_wait_s", "wait", "s", 1, "of the average time, that without GPUs",
     [](const ScheduleMetrics& m) { return m.average_wait_s; }},
    {"average_run_s", "", "s", 1, "of the average time, that with GPUs",
     [](const ScheduleMetrics& m) { return m.average_jct_s - m.average_wait_s; }},
    {"average_queue_s", "queue", "s", 1, "of it, that before the first GPUs",
     [](const ScheduleMetrics& m) { return m.average_queue_s; }, true},
    {"held_percent", "held", "%", 1,
     "the share of the GPUs' time, over the makespan, that jobs held",
     [](const ScheduleMetrics& m) { return 100 * m.utilization; }},
    {"held_waited_percent", "packed", "%", 1, "the same while one job or more waited",
     [](const ScheduleMetrics& m) { return 100 * m.utilization_waited; }, true},
    {"average_rho", "rho", "", 2, "the jobs' average finish-time fairness; fair: 1",
     [](const ScheduleMetrics& m) { return m.average_rho; }},
    {"worst_rho", "worst rho", "", 2, "that of the job to which the schedule is least fair",
     [](const ScheduleMetrics& m) { return m.worst_rho; }, true},
    {"preemptions", "preempted", "", 0, "how often jobs lost their GPUs before they ended",
     [](const ScheduleMetrics& m) { return m.preemptions; }},
});

/// Returns for each job how many there were, on average, between its arrival and its end.
std::vector<double> contention(std::span<const Job> jobs, const SimulationResult& result) {
  struct Event {
    double at_s;
    std::size_t job;
    bool is_end;
  };
  std::vector<Event> events;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    events.push_back({jobs[i].arrival_s, i, false});
    events.push_back({result.jobs[i].end_s, i, true});
  }
  std::ranges::stable_sort(events, {}, &Event::at_s);
  std::vector<double> averages(jobs.size());
  double present = 0;
  double job_s = 0;  ///< the integral of the number of jobs.
  double before_s = events.front().at_s;
  for (const Event& event : events) {
    job_s += present * (event.at_s - before_s);
    before_s = event.at_s;
    present += event.is_end ? -1 : 1;
    if (event.is_end) {
      const double stay_s = event.at_s - jobs[event.job].arrival_s;
      averages[event.job] = stay_s > 0 ? (job_s - averages[event.job]) / stay_s : 1;
    } else {
      averages[event.job] = job_s;
    }
  }
  return averages;
}

/// Returns how many iterations a job does in a second on GPUs of a kind of its own.
double speed_on(const Fleet& fleet, const Job& job, std::size_t kind) {
  if ((job.demand.kinds >> kind & 1U) == 0) return 0;
  const double iteration_s = job.iteration_s_on(kind);
  if (std::isfinite(iteration_s) || !job.speed) return 1 / iteration_s;
  // With the cores that it asks for, it cannot run: a policy hands them out.
  return job.speed->speed(kind, fleet.host_for_each_gpu()) / job.iteration_s;
}

/// Returns how long a job would take with 1 / `jobs` of the fleet.
double alone_s(const Fleet& fleet, const Job& job, double jobs) {
  const double gpus = static_cast<double>(job.demand.gpus) * job.demand.gpu_share / kWholeGpu;
  double fractions = 0;
  double speed = 0;
  for (std::size_t kind = 0; kind < fleet.kinds().size() && gpus > 0; ++kind) {
    const double on_kind = speed_on(fleet, job, kind);
    if (on_kind == 0) continue;
    const double fraction = static_cast<double>(fleet.gpus_by_kind()[kind]) / (jobs * gpus);
    fractions += fraction;
    speed += fraction * on_kind;
  }
  if (speed == 0) return job.work_s();
  return job.iterations * std::max(fractions, 1.0) / speed;
}

void add_fairness(const Fleet& fleet, std::span<const Job> jobs, const SimulationResult& result,
                  ScheduleMetrics& metrics) {
  const std::vector<double> present = contention(jobs, result);
  double sum = 0;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const double jct_s = result.jobs[i].end_s - jobs[i].arrival_s;
    const double rho = jct_s / alone_s(fleet, jobs[i], present[i]);
    sum += rho;
    metrics.worst_rho = std::max(metrics.worst_rho, rho);
  }
  metrics.average_rho = sum / static_cast<double>(jobs.size());
}

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
    metrics.average_queue_s += state.first_start_s - jobs[i].arrival_s;
    metrics.preemptions += state.starts - 1;
    last_s = std::max(last_s, state.end_s);
  }
  const auto count = static_cast<double>(jobs.size());
  metrics.average_jct_s /= count;
  metrics.average_wait_s /= count;
  metrics.average_queue_s /= count;
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
  metrics.utilization_waited =
      result.waited_s > 0
          ? result.held_gpu_waited_s / (static_cast<double>(fleet.gpus()) * result.waited_s)
          : 1;
  add_fairness(fleet, jobs, result, metrics);
  return metrics;
}

std::vector<EvidenceShare> evidence_of(std::span<const Job> jobs, const SimulationResult& result) {
  std::map<std::string, double> held_s;
  double all_s = 0;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    std::string evidence = "stated durations";
    if (!jobs[i].evidence.empty()) evidence = jobs[i].evidence;
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
