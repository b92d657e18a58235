// SPDX-License-Identifier: Apache-2.0
#include "gpemu/scheduling/simulator.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <queue>
#include <set>
#include <unordered_map>
#include <utility>

#include "gpemu/scheduling/interleaving.hpp"

namespace gpemu::scheduling {
namespace {

/// Muri's simulator compares times by Python's math.isclose(), whose tolerance this is, relative to
/// the times; and, if an end meets an arrival, with this one in seconds.
constexpr double kMuriSameTime = 1e-9;
constexpr double kMuriSameTimeS = 1e-4;

bool is_same_for_muri(double end_s, double arrival_s) {
  if (end_s == kNever || arrival_s == kNever) return false;
  const double tolerance = std::max(kMuriSameTime * std::max(end_s, arrival_s), kMuriSameTimeS);
  return std::abs(end_s - arrival_s) <= tolerance;
}

bool overlap(const ServerGpus& part, const GpuSet& gpus) {
  for (std::size_t i = 0; i < gpus.parts(); ++i) {
    if (gpus.part(i).server == part.server && (gpus.part(i).gpus & part.gpus) != 0) return true;
  }
  return false;
}

/// Asking for progress, or whether to stop, at each decision would take longer than most decisions.
constexpr std::uint64_t kDecisionsBetweenCalls = 4096;

/// When a running job will end. Entries of jobs that were touched since are stale.
struct End {
  double end_s = 0;
  JobIndex job = 0;
  std::uint32_t version = 0;

  friend bool operator>(const End& a, const End& b) {
    return a.end_s != b.end_s ? a.end_s > b.end_s : a.job > b.job;
  }
};

class Simulation {
 public:
  Simulation(const Fleet& fleet, std::span<const Job> jobs, Policy& policy,
             const SimulationOptions& options)
      : fleet_(fleet),
        jobs_(jobs),
        policy_(policy),
        options_(options),
        charges_changes_(options.accounting == Accounting::kMuri),
        free_(fleet),
        states_(jobs.size()),
        charges_s_(jobs.size()),
        versions_(jobs.size()),
        places_(jobs.size()),
        begins_(options.keeps_stints ? jobs.size() : 0) {
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      states_[i].iterations_left = jobs[i].iterations;
      states_[i].iteration_s = jobs[i].iteration_s;
      charges_s_[i] = jobs[i].restart_s;
    }
  }

  Result<SimulationResult> run();

 private:
  /// What a decision does to a job that it starts.
  enum class Change : std::uint8_t {
    kStarts,  ///< it had no GPUs.
    kMoves,   ///< it had others.
    kStays,   ///< it has other cores and memory beside the same GPUs.
  };

  [[nodiscard]] double next_arrival_s() const {
    return arrived_ < jobs_.size() ? jobs_[arrived_].arrival_s : kNever;
  }
  [[nodiscard]] double next_end_s();
  /// Advances the time to the next change, or to when the policy wants to be asked.
  Result<void> advance();
  /// Ends the jobs that end at `end_s`, which is the time, or almost.
  void end_jobs(double end_s);
  void end_job(JobIndex job);
  void charge_running();
  /// Brings a running job's state up to the present.
  void touch(JobIndex job);
  Result<void> decide();
  Result<void> apply();
  [[nodiscard]] Result<void> check_start(const Decision::Start& start) const;
  void release(JobIndex job);
  /// Takes the GPUs of a start, or joins its group. Returns whether that is possible.
  [[nodiscard]] bool take(const Decision::Start& start);
  /// Gives the jobs of groups that changed their new speed.
  void settle_groups();
  /// Gives the jobs that run beside others their speed.
  void settle_beside();
  [[nodiscard]] double slowest_beside_s(JobIndex job) const;
  /// Returns the cores and memory that a start gives.
  [[nodiscard]] HostShare host_of(const Decision::Start& start) const {
    return start.host.value_or(jobs_[start.job].demand.host);
  }
  [[nodiscard]] Demand demand_of(JobIndex job, const HostShare& host) const {
    Demand demand = jobs_[job].demand;
    demand.host = host;
    return demand;
  }
  /// Returns what all jobs of a group ask for together.
  [[nodiscard]] Demand group_demand(JobIndex job) const {
    return {.gpus = jobs_[job].demand.gpus, .host = {}};
  }
  void queue_end(JobIndex job);
  void place(const Decision::Start& start, Change change);
  void remove_running(JobIndex job);
  [[nodiscard]] double end_s_of(JobIndex job) const;
  [[nodiscard]] std::unexpected<Error> stalled() const;
  [[nodiscard]] std::unexpected<Error> defect(JobIndex job, std::string_view what) const {
    return fail(ErrorCode::kInternal, "the policy is wrong: at {} s, it {} job {}", now_s_, what,
                jobs_[job].id);
  }

  const Fleet& fleet_;
  std::span<const Job> jobs_;
  Policy& policy_;
  const SimulationOptions& options_;
  bool charges_changes_;
  FreeResources free_;
  std::vector<JobState> states_;
  double now_s_ = 0;
  double ask_again_s_ = kNever;
  double held_gpu_s_ = 0;
  double waited_s_ = 0;
  double held_gpu_waited_s_ = 0;
  UseOverTime use_;
  std::size_t arrived_ = 0;
  std::size_t ended_ = 0;
  std::uint64_t decisions_ = 0;
  std::vector<JobIndex> running_;
  std::vector<double> charges_s_;  ///< what a job pays at a change, with charges_changes_.
  /// The jobs of each group that runs.
  std::unordered_map<std::uint32_t, std::vector<JobIndex>> groups_;
  std::vector<std::uint32_t> changed_groups_;
  std::size_t beside_ = 0;  ///< how many jobs run beside others.
  /// Those that do not, by server; only kept while others run beside them.
  std::vector<std::vector<JobIndex>> on_server_;
  std::vector<std::uint32_t> versions_;  ///< of a job's entry in ends_.
  std::vector<std::uint32_t> places_;    ///< of a running job in running_.
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;  ///< unless charges_changes_.
  std::vector<JobIndex> new_arrived_;
  std::vector<JobIndex> new_ended_;
  Decision decision_;
  std::vector<Change> changes_;  ///< of the jobs that a decision starts.
  std::vector<double> begins_;   ///< when each job got its GPUs; empty unless stints are kept.
  std::vector<Stint> stints_;
};

double Simulation::end_s_of(JobIndex job) const {
  const JobState& state = states_[job];
  return std::max(state.as_of_s, state.progress_from_s) + state.iterations_left * state.iteration_s;
}

double Simulation::next_end_s() {
  if (charges_changes_) {
    double first = kNever;
    for (const JobIndex job : running_) first = std::min(first, end_s_of(job));
    return first;
  }
  while (!ends_.empty() && ends_.top().version != versions_[ends_.top().job]) ends_.pop();
  return ends_.empty() ? kNever : ends_.top().end_s;
}

std::unexpected<Error> Simulation::stalled() const {
  for (std::size_t i = 0; i < arrived_; ++i) {
    if (states_[i].phase != JobPhase::kWaiting) continue;
    return fail(
        ErrorCode::kResourceLimit,
        "job {} waits for {} GPUs forever, although no job runs: the fleet's servers cannot "
        "give it so many, or the policy does not start it",
        jobs_[i].id, jobs_[i].demand.gpus);
  }
  return fail(ErrorCode::kInternal, "nothing runs and nothing waits");
}

Result<void> Simulation::advance() {
  const double end_s = next_end_s();
  const double arrival_s = next_arrival_s();
  const bool both = charges_changes_ ? is_same_for_muri(end_s, arrival_s) : end_s == arrival_s;
  const double change_s = both ? arrival_s : std::min(end_s, arrival_s);
  new_arrived_.clear();
  new_ended_.clear();
  if (change_s == kNever && ask_again_s_ == kNever) return stalled();
  const double before_s = now_s_;
  now_s_ = std::max(now_s_, std::min(change_s, ask_again_s_));
  const auto held = static_cast<double>(fleet_.gpus() - free_.count());
  held_gpu_s_ += held * (now_s_ - before_s);
  if (arrived_ - ended_ > running_.size()) {
    waited_s_ += now_s_ - before_s;
    held_gpu_waited_s_ += held * (now_s_ - before_s);
  }
  use_.add(before_s, now_s_, held);
  if (ask_again_s_ < change_s) return {};
  if (both || end_s == change_s) end_jobs(end_s);
  if (arrival_s != change_s) return {};
  for (; next_arrival_s() == change_s; ++arrived_) {
    const auto job = static_cast<JobIndex>(arrived_);
    states_[job].phase = JobPhase::kWaiting;
    states_[job].as_of_s = now_s_;
    new_arrived_.push_back(job);
  }
  return {};
}

void Simulation::end_jobs(double end_s) {
  if (!charges_changes_) {
    while (next_end_s() == end_s) {
      new_ended_.push_back(ends_.top().job);
      end_job(new_ended_.back());
    }
    return;
  }
  const double last_s = end_s + end_s * kMuriSameTime;
  for (const JobIndex job : running_) {
    if (end_s_of(job) <= last_s) new_ended_.push_back(job);
  }
  std::ranges::sort(new_ended_);
  for (const JobIndex job : new_ended_) end_job(job);
}

void Simulation::end_job(JobIndex job) {
  JobState& state = states_[job];
  state.held_s = state.held_s + now_s_ - state.as_of_s;
  state.as_of_s = now_s_;
  state.iterations_left = 0;
  state.phase = JobPhase::kEnded;
  state.end_s = now_s_;
  release(job);
  remove_running(job);
  ++ended_;
}

void Simulation::touch(JobIndex job) {
  JobState& state = states_[job];
  if (state.as_of_s == now_s_) return;  // Adding and subtracting the time would round.
  double since_s = now_s_ - std::max(state.as_of_s, state.progress_from_s);
  if (charges_changes_) since_s = now_s_ - state.as_of_s - charges_s_[job];
  if (since_s > 0) state.iterations_left -= since_s / state.iteration_s;
  state.held_s = state.held_s + now_s_ - state.as_of_s;
  state.as_of_s = now_s_;
}

void Simulation::release(JobIndex job) {
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

bool Simulation::take(const Decision::Start& start) {
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

void Simulation::settle_groups() {
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
      queue_end(job);
    }
  }
  changed_groups_.clear();
}

/// Returns how long an iteration of a job takes beside those that have its GPUs.
double Simulation::slowest_beside_s(JobIndex job) const {
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

void Simulation::settle_beside() {
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
    queue_end(job);
  }
}

void Simulation::queue_end(JobIndex job) {
  if (charges_changes_) return;
  ends_.push({.end_s = end_s_of(job), .job = job, .version = versions_[job]});
}

void Simulation::remove_running(JobIndex job) {
  const std::uint32_t place = places_[job];
  running_[place] = running_.back();
  places_[running_[place]] = place;
  running_.pop_back();
}

Result<void> Simulation::check_start(const Decision::Start& start) const {
  if (start.job >= arrived_) return defect(0, "starts a job that has not arrived, not");
  const JobPhase phase = states_[start.job].phase;
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

void Simulation::place(const Decision::Start& start, Change change) {
  JobState& state = states_[start.job];
  if (!begins_.empty()) begins_[start.job] = now_s_;
  state.gpus = start.gpus;
  state.host = host_of(start);
  state.iteration_s = iteration_s_with(fleet_, jobs_[start.job], start.gpus, state.host);
  state.group = start.group;
  state.beside = start.beside;
  if (change != Change::kStays) {
    const bool pays = options_.accounting == Accounting::kChange;
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
  queue_end(start.job);
}

Result<void> Simulation::apply() {
  for (const JobIndex job : decision_.preempt) {
    if (job >= arrived_ || states_[job].phase != JobPhase::kRunning) {
      return defect(std::min<JobIndex>(job, static_cast<JobIndex>(jobs_.size() - 1)),
                    "preempts what does not run:");
    }
    touch(job);
    release(job);
    states_[job].phase = JobPhase::kWaiting;
    remove_running(job);
  }
  changes_.assign(decision_.start.size(), Change::kStarts);
  for (std::size_t i = 0; i < decision_.start.size(); ++i) {
    const Decision::Start& start = decision_.start[i];
    GPEMU_TRY(check_start(start));
    if (states_[start.job].phase != JobPhase::kRunning) continue;
    if (states_[start.job].gpus.empty()) return defect(start.job, "starts twice");
    const bool stays =
        states_[start.job].gpus == start.gpus && states_[start.job].group == start.group;
    changes_[i] = stays ? Change::kStays : Change::kMoves;
    touch(start.job);
    release(start.job);
  }
  for (std::size_t i = 0; i < decision_.start.size(); ++i) {
    const Decision::Start& start = decision_.start[i];
    if (!take(start)) return defect(start.job, "gives GPUs that are not free to");
    place(start, changes_[i]);
  }
  settle_groups();
  settle_beside();
  ask_again_s_ = decision_.ask_again_s;
  return {};
}

void Simulation::charge_running() {
  for (const JobIndex job : running_) touch(job);
}

Result<void> Simulation::decide() {
  if (charges_changes_) charge_running();
  decision_.clear();
  const Snapshot snapshot{.now_s = now_s_,
                          .fleet = &fleet_,
                          .free = &free_,
                          .jobs = jobs_,
                          .states = states_,
                          .arrived = new_arrived_,
                          .ended = new_ended_,
                          .moves_are_free = options_.accounting != Accounting::kChange};
  policy_.decide(snapshot, decision_);
  return apply();
}

Result<SimulationResult> Simulation::run() {
  while (ended_ < jobs_.size()) {
    GPEMU_TRY(advance());
    GPEMU_TRY(decide());
    if (++decisions_ % kDecisionsBetweenCalls != 0) continue;
    if (options_.stop != nullptr && options_.stop->load()) {
      return fail(ErrorCode::kInterrupted, "the simulation was stopped");
    }
    if (options_.progress) options_.progress(ended_);
  }
  return SimulationResult{.jobs = std::move(states_),
                          .decisions = decisions_,
                          .held_gpu_s = held_gpu_s_,
                          .use = use_,
                          .waited_s = waited_s_,
                          .held_gpu_waited_s = held_gpu_waited_s_,
                          .stints = std::move(stints_)};
}

/// Returns an error if even the whole fleet has not what the job asks for; nothing if it has.
std::optional<std::unexpected<Error>> why_never(const Fleet& fleet, const Job& job) {
  std::uint64_t gpus = 0;
  bool host = false;
  for (std::uint32_t server = 0; server < fleet.servers().size(); ++server) {
    if ((job.demand.kinds >> fleet.kind_of(server) & 1U) == 0) continue;
    gpus += fleet.servers()[server].gpus;
    host = host || job.demand.host.fits_in(fleet.servers()[server].host);
  }
  if (job.demand.gpus > gpus) {
    return fail(ErrorCode::kInvalidArgument, "job {} needs {} GPUs, and the fleet has {}{}", job.id,
                job.demand.gpus, gpus,
                gpus == fleet.gpus() ? "" : " of the kinds that it may have");
  }
  if (host || job.demand.gpus > 1) return std::nullopt;  // A policy may spread it or give it less.
  return fail(ErrorCode::kInvalidArgument,
              "job {} needs {} cores and {} MiB of memory, which no server that it may have has",
              job.id, static_cast<double>(job.demand.host.millicores) / 1000,
              job.demand.host.memory_mib);
}

}  // namespace

Result<SimulationResult> simulate(const Fleet& fleet, std::span<const Job> jobs, Policy& policy,
                                  const SimulationOptions& options) {
  FreeResources all(fleet);
  std::set<Demand> possible;
  for (const Job& job : jobs) {
    if (possible.contains(job.demand)) continue;
    const std::optional<GpuSet> gpus = all.take_together(job.demand);
    if (gpus) {
      all.give_back(*gpus, job.demand);
    } else if (auto why = why_never(fleet, job)) {
      return *std::move(why);
    }
    possible.insert(job.demand);
  }
  return Simulation(fleet, jobs, policy, options).run();
}

}  // namespace gpemu::scheduling
