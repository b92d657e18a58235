// SPDX-License-Identifier: Apache-2.0
#include "gpemu/scheduling/ledger.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "gpemu/scheduling/interleaving.hpp"

namespace gpemu::scheduling {
namespace {

bool overlap(const ServerGpus& part, const GpuSet& gpus) {
  for (std::size_t i = 0; i < gpus.parts(); ++i) {
    if (gpus.part(i).server == part.server && (gpus.part(i).gpus & part.gpus) != 0) return true;
  }
  return false;
}

}  // namespace

Ledger::Ledger(const Fleet& fleet, std::span<const Job> jobs, Accounting accounting,
               Tracking tracking, bool keeps_stints)
    : fleet_(fleet), accounting_(accounting), keeps_stints_(keeps_stints), free_(fleet, tracking) {
  set_jobs(jobs);
}

void Ledger::set_jobs(std::span<const Job> jobs) {
  jobs_ = jobs;
  for (std::size_t i = states_.size(); i < jobs.size(); ++i) {
    states_.emplace_back();
    states_.back().iterations_left = jobs[i].iterations;
    states_.back().iteration_s = jobs[i].iteration_s;
    charges_s_.push_back(jobs[i].restart_s);
  }
  versions_.resize(jobs.size());
  places_.resize(jobs.size());
  if (keeps_stints_) begins_.resize(jobs.size());
}

void Ledger::arrive(JobIndex job) {
  states_[job].phase = JobPhase::kWaiting;
  states_[job].as_of_s = now_s_;
}

void Ledger::recall(JobIndex job, const JobState& known) {
  JobState& state = states_[job];
  state.held_s = known.held_s;
  state.iterations_left = known.iterations_left;
  state.first_start_s = known.first_start_s;
  state.as_of_s = known.as_of_s;
  state.progress_from_s = known.progress_from_s;
}

double Ledger::end_s(JobIndex job) const {
  const JobState& state = states_[job];
  return std::max(state.as_of_s, state.progress_from_s) + state.iterations_left * state.iteration_s;
}

void Ledger::end(JobIndex job) {
  JobState& state = states_[job];
  const bool runs = state.phase == JobPhase::kRunning;
  if (!runs) state.as_of_s = now_s_;  // It has no GPUs.
  state.held_s = state.held_s + now_s_ - state.as_of_s;
  state.as_of_s = now_s_;
  state.iterations_left = 0;
  state.phase = JobPhase::kEnded;
  state.end_s = now_s_;
  if (!runs) return;
  release(job);
  remove_running(job);
}

void Ledger::touch(JobIndex job) {
  JobState& state = states_[job];
  if (state.as_of_s == now_s_) return;  // Adding and subtracting the time would round.
  double since_s = now_s_ - std::max(state.as_of_s, state.progress_from_s);
  if (charges_changes()) since_s = now_s_ - state.as_of_s - charges_s_[job];
  if (since_s > 0) state.iterations_left -= since_s / state.iteration_s;
  state.held_s = state.held_s + now_s_ - state.as_of_s;
  state.as_of_s = now_s_;
}

void Ledger::release(JobIndex job) {
  JobState& state = states_[job];
  ++versions_[job];
  if (!begins_.empty() && now_s_ > begins_[job]) {
    stints_.push_back({.job = job, .gpus = state.gpus, .begin_s = begins_[job], .end_s = now_s_});
  }
  if (state.beside) {
    --beside_;
  } else if (state.group != 0) {
    std::vector<JobIndex>& members = groups_[state.group];
    std::erase(members, job);
    changed_groups_.push_back(state.group);
    if (members.empty()) {
      free_.give_back(state.gpus, group_demand(job));
      groups_.erase(state.group);
    }
  } else {
    free_.give_back(state.gpus, demand_of(job, state.host));
  }
  state.gpus.clear();
  state.host = {};
  state.group = 0;
  state.beside = false;
  state.iteration_s = jobs_[job].iteration_s;
  charges_s_[job] = jobs_[job].restart_s;
}

bool Ledger::take(const Decision::Start& start) {
  if (start.beside) {
    ++beside_;
    return true;
  }
  if (start.group == 0) {
    return free_.take(start.gpus, demand_of(start.job, host_of(start)));
  }
  std::vector<JobIndex>& members = groups_[start.group];
  const bool free = members.empty() ? free_.take(start.gpus, group_demand(start.job))
                                    : states_[members.front()].gpus == start.gpus &&
                                          members.size() < kMostInGroup;
  members.push_back(start.job);
  changed_groups_.push_back(start.group);
  return free;
}

void Ledger::settle_groups() {
  std::ranges::sort(changed_groups_);
  changed_groups_.erase(std::ranges::unique(changed_groups_).begin(), changed_groups_.end());
  std::vector<Stages> stages;
  for (const std::uint32_t group : changed_groups_) {
    const auto found = groups_.find(group);
    if (found == groups_.end()) continue;
    const std::vector<JobIndex>& members = found->second;
    stages.clear();
    double charge_s = 0;
    for (const JobIndex job : members) {
      stages.push_back(jobs_[job].stages_s);
      charge_s += jobs_[job].restart_s;
    }
    const double iteration_s =
        members.size() == 1
            ? iteration_s_with(fleet_, jobs_[members.front()], states_[members.front()].gpus, {})
            : interleaved_iteration_s(stages);
    for (const JobIndex job : members) {
      touch(job);
      charges_s_[job] = charge_s;
      states_[job].iteration_s = iteration_s;
      ++versions_[job];
      moved_.push_back(job);
    }
  }
  changed_groups_.clear();
}

/// Returns how long an iteration of a job takes beside those that have its GPUs.
double Ledger::slowest_beside_s(JobIndex job) const {
  const Iteration own{.stages = jobs_[job].stages_s, .time_s = jobs_[job].iteration_s};
  double slowest_s = own.time_s;
  const GpuSet& gpus = states_[job].gpus;
  for (std::size_t i = 0; i < gpus.parts(); ++i) {
    for (const JobIndex other : on_server_[gpus.part(i).server]) {
      if (!overlap(gpus.part(i), states_[other].gpus)) continue;
      slowest_s =
          std::max(slowest_s, iteration_beside_s(own, {.stages = jobs_[other].stages_s,
                                                       .time_s = jobs_[other].iteration_s}));
    }
  }
  return slowest_s;
}

void Ledger::settle_beside() {
  if (beside_ == 0) return;
  on_server_.resize(fleet_.servers().size());
  for (std::vector<JobIndex>& jobs : on_server_) jobs.clear();
  for (const JobIndex job : running_) {
    if (states_[job].beside) continue;
    for (std::size_t i = 0; i < states_[job].gpus.parts(); ++i) {
      on_server_[states_[job].gpus.part(i).server].push_back(job);
    }
  }
  for (const JobIndex job : running_) {
    if (!states_[job].beside) continue;
    const double iteration_s = slowest_beside_s(job);
    if (iteration_s == states_[job].iteration_s) continue;
    touch(job);
    states_[job].iteration_s = iteration_s;
    ++versions_[job];
    moved_.push_back(job);
  }
}

void Ledger::remove_running(JobIndex job) {
  const std::uint32_t place = places_[job];
  running_[place] = running_.back();
  places_[running_[place]] = place;
  running_.pop_back();
}

Result<void> Ledger::check_start(const Decision::Start& start) const {
  const JobPhase phase = start.job < jobs_.size() ? states_[start.job].phase : JobPhase::kToArrive;
  if (phase == JobPhase::kToArrive) return defect(0, "starts a job that has not arrived, not");
  if (phase == JobPhase::kEnded) return defect(start.job, "starts the ended");
  const Job& job = jobs_[start.job];
  if (start.gpus.empty() || start.gpus.count() != job.demand.gpus) {
    return defect(start.job, "gives another number of GPUs than it needs to");
  }
  if (start.beside && start.group != 0) return defect(start.job, "groups and runs beside others");
  const bool asks_for_more = job.demand.shares_gpus() || job.demand.host != HostShare{};
  if ((start.group != 0 || start.beside) && asks_for_more) {
    return defect(start.job, "groups what needs a share of a GPU, cores or memory:");
  }
  if (!std::isfinite(iteration_s_with(fleet_, job, start.gpus, host_of(start)))) {
    return defect(start.job, "gives GPUs, cores or memory that it cannot run with to");
  }
  return {};
}

void Ledger::place(const Decision::Start& start, Change change) {
  JobState& state = states_[start.job];
  if (!begins_.empty()) begins_[start.job] = now_s_;
  state.gpus = start.gpus;
  state.host = host_of(start);
  state.iteration_s = iteration_s_with(fleet_, jobs_[start.job], start.gpus, state.host);
  state.group = start.group;
  state.beside = start.beside;
  if (change != Change::kStays) {
    const bool pays = accounting_ == Accounting::kChange;
    state.progress_from_s = now_s_ + (pays ? jobs_[start.job].restart_s : 0);
  }
  if (change == Change::kMoves) {
    ++state.moves;
  } else if (change == Change::kStarts) {
    ++state.starts;
    if (state.first_start_s < 0) state.first_start_s = now_s_;
    state.phase = JobPhase::kRunning;
    state.as_of_s = now_s_;
    places_[start.job] = static_cast<std::uint32_t>(running_.size());
    running_.push_back(start.job);
  }
  moved_.push_back(start.job);
}

Result<void> Ledger::apply(const Decision& decision) {
  for (const JobIndex job : decision.preempt) {
    if (job >= jobs_.size() || states_[job].phase != JobPhase::kRunning) {
      return defect(std::min<JobIndex>(job, static_cast<JobIndex>(jobs_.size() - 1)),
                    "preempts what does not run:");
    }
    touch(job);
    release(job);
    states_[job].phase = JobPhase::kWaiting;
    remove_running(job);
  }
  changes_.assign(decision.start.size(), Change::kStarts);
  for (std::size_t i = 0; i < decision.start.size(); ++i) {
    const Decision::Start& start = decision.start[i];
    GPEMU_TRY(check_start(start));
    if (states_[start.job].phase != JobPhase::kRunning) continue;
    if (states_[start.job].gpus.empty()) return defect(start.job, "starts twice");
    const bool stays =
        states_[start.job].gpus == start.gpus && states_[start.job].group == start.group;
    changes_[i] = stays ? Change::kStays : Change::kMoves;
    touch(start.job);
    release(start.job);
  }
  for (std::size_t i = 0; i < decision.start.size(); ++i) {
    const Decision::Start& start = decision.start[i];
    if (!take(start)) return defect(start.job, "gives GPUs that are not free to");
    place(start, changes_[i]);
  }
  settle_groups();
  settle_beside();
  return {};
}

void Ledger::touch_all() {
  for (const JobIndex job : running_) touch(job);
}

}  // namespace gpemu::scheduling
