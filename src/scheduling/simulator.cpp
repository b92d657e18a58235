// SPDX-License-Identifier: Apache-2.0
#include "gpemu/scheduling/simulator.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <queue>
#include <set>
#include <span>
#include <utility>

#include "gpemu/scheduling/ledger.hpp"

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
        ledger_(fleet, jobs, options.accounting, Tracking::kNone, options.keeps_stints) {}

  Result<SimulationResult> run();

 private:
  [[nodiscard]] double next_arrival_s() const {
    return arrived_ < jobs_.size() ? jobs_[arrived_].arrival_s : kNever;
  }
  [[nodiscard]] double next_end_s();
  /// Advances the time to the next change, or to when the policy wants to be asked.
  Result<void> advance();
  /// Ends the jobs that end at `end_s`, which is the time, or almost.
  void end_jobs(double end_s);
  void end_job(JobIndex job);
  Result<void> decide();
  [[nodiscard]] std::unexpected<Error> stalled() const;

  const Fleet& fleet_;
  std::span<const Job> jobs_;
  Policy& policy_;
  const SimulationOptions& options_;
  bool charges_changes_;
  Ledger ledger_;
  double now_s_ = 0;
  double ask_again_s_ = kNever;
  double held_gpu_s_ = 0;
  double waited_s_ = 0;
  double held_gpu_waited_s_ = 0;
  UseOverTime use_;
  std::size_t arrived_ = 0;
  std::size_t ended_ = 0;
  std::uint64_t decisions_ = 0;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;  ///< unless charges_changes_.
  std::vector<JobIndex> new_arrived_;
  std::vector<JobIndex> new_ended_;
  Decision decision_;
};

double Simulation::next_end_s() {
  if (charges_changes_) {
    double first = kNever;
    for (const JobIndex job : ledger_.running()) first = std::min(first, ledger_.end_s(job));
    return first;
  }
  while (!ends_.empty() && ends_.top().version != ledger_.version_of(ends_.top().job)) ends_.pop();
  return ends_.empty() ? kNever : ends_.top().end_s;
}

std::unexpected<Error> Simulation::stalled() const {
  for (std::size_t i = 0; i < arrived_; ++i) {
    if (ledger_.states()[i].phase != JobPhase::kWaiting) continue;
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
  ledger_.set_time(now_s_);
  const auto held = static_cast<double>(fleet_.gpus() - ledger_.free().count());
  held_gpu_s_ += held * (now_s_ - before_s);
  if (arrived_ - ended_ > ledger_.running().size()) {
    waited_s_ += now_s_ - before_s;
    held_gpu_waited_s_ += held * (now_s_ - before_s);
  }
  use_.add(before_s, now_s_, held);
  if (ask_again_s_ < change_s) return {};
  if (both || end_s == change_s) end_jobs(end_s);
  if (arrival_s != change_s) return {};
  for (; next_arrival_s() == change_s; ++arrived_) {
    const auto job = static_cast<JobIndex>(arrived_);
    ledger_.arrive(job);
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
  for (const JobIndex job : ledger_.running()) {
    if (ledger_.end_s(job) <= last_s) new_ended_.push_back(job);
  }
  std::ranges::sort(new_ended_);
  for (const JobIndex job : new_ended_) end_job(job);
}

void Simulation::end_job(JobIndex job) {
  ledger_.end(job);
  ++ended_;
}

Result<void> Simulation::decide() {
  if (charges_changes_) ledger_.touch_all();
  decision_.clear();
  const Snapshot snapshot{.now_s = now_s_,
                          .fleet = &fleet_,
                          .free = &ledger_.free(),
                          .jobs = jobs_,
                          .states = ledger_.states(),
                          .arrived = new_arrived_,
                          .ended = new_ended_,
                          .moves_are_free = options_.accounting != Accounting::kChange};
  policy_.decide(snapshot, decision_);
  GPEMU_TRY(ledger_.apply(decision_));
  ask_again_s_ = decision_.ask_again_s;
  if (!charges_changes_) {
    for (const JobIndex job : ledger_.moved()) {
      ends_.push({.end_s = ledger_.end_s(job), .job = job, .version = ledger_.version_of(job)});
    }
  }
  ledger_.clear_moved();
  return {};
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
  const std::span<const JobState> states = ledger_.states();
  return SimulationResult{.jobs = {states.begin(), states.end()},
                          .decisions = decisions_,
                          .held_gpu_s = held_gpu_s_,
                          .use = use_,
                          .waited_s = waited_s_,
                          .held_gpu_waited_s = held_gpu_waited_s_,
                          .stints = ledger_.stints()};
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
