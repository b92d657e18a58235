// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "policies/policies.hpp"

namespace gpemu::scheduling {
namespace {

/// Whose turn it is.
enum class Order : std::uint8_t { kLas, kSrtf };

/// Synergy (OSDI'22): in rounds, the first jobs by their order get GPUs, and cores and memory
/// beside these. Proportional: each GPU's share of its server. Tuned: what makes the job fastest,
/// as long as no other job gets less than its share for that.
class Synergy final : public Policy {
 public:
  Synergy(Order order, bool tuned, double round_s)
      : order_(order), tuned_(tuned), round_s_(round_s) {}

  void decide(const Snapshot& snapshot, Decision& decision) override;

 private:
  /// A job that has GPUs in this decision.
  struct Placed {
    JobIndex job = 0;
    GpuSet gpus;
    HostShare host;
  };

  void note_changes(const Snapshot& snapshot);
  [[nodiscard]] double rank(const Snapshot& snapshot, JobIndex job) const;
  /// Returns the jobs that are to have GPUs, those that are placed first at the front.
  [[nodiscard]] std::vector<JobIndex> chosen(const Snapshot& snapshot, bool new_round);
  /// Places jobs, those that run where they are if `in_place`. Returns whether all fit.
  bool place_all(const Snapshot& snapshot, const std::vector<JobIndex>& jobs, bool in_place);
  bool place(const Snapshot& snapshot, JobIndex job, const GpuSet* where);
  bool take(const Snapshot& snapshot, JobIndex job, const GpuSet* where, const HostShare& host);
  /// Lets the job on a server that has the most cores for a GPU have no more than its share.
  /// Returns whether one had more.
  bool demote_on(const Snapshot& snapshot, std::uint32_t server);
  void fill(const Snapshot& snapshot, Decision& decision);

  /// Returns the cores and memory that a job's GPUs are worth.
  [[nodiscard]] HostShare share_of(const Snapshot& snapshot, JobIndex job) const;
  /// Returns the least cores and memory with which the job is fastest.
  [[nodiscard]] HostShare best_for(const Snapshot& snapshot, JobIndex job) const;

  Order order_;
  bool tuned_;
  double round_s_;
  std::optional<double> next_round_s_;
  std::vector<JobIndex> jobs_;  ///< those that wait or run, in the order of arrival.
  std::vector<Placed> placed_;
  std::optional<FreeResources> room_;
};

HostShare multiplied(const HostShare& host, std::uint64_t count) {
  return {.millicores = host.millicores * count, .memory_mib = host.memory_mib * count};
}

Demand demand_with(const Job& job, const HostShare& host) {
  Demand demand = job.demand;
  demand.host = host;
  return demand;
}

HostShare Synergy::share_of(const Snapshot& snapshot, JobIndex job) const {
  return multiplied(snapshot.fleet->host_for_each_gpu(), snapshot.jobs[job].demand.gpus);
}

HostShare Synergy::best_for(const Snapshot& snapshot, JobIndex job) const {
  const Job& all = snapshot.jobs[job];
  if (!tuned_ || !all.speed) return share_of(snapshot, job);
  // Of several kinds, the first on which it can run counts.
  const auto kind = static_cast<std::size_t>(std::countr_zero(all.demand.kinds));
  const SpeedProfile::WithHost* best = nullptr;
  for (const SpeedProfile::WithHost& entry : all.speed->hosts_on(kind)) {
    const bool better = best == nullptr || entry.speed > best->speed ||
                        (entry.speed == best->speed && entry.per_gpu < best->per_gpu);
    if (better) best = &entry;
  }
  if (best == nullptr) return share_of(snapshot, job);
  return multiplied(best->per_gpu, all.demand.gpus);
}

double Synergy::rank(const Snapshot& snapshot, JobIndex job) const {
  if (order_ == Order::kSrtf) return snapshot.work_left_s(job);
  return snapshot.held_s(job) * snapshot.jobs[job].demand.gpus;
}

void Synergy::note_changes(const Snapshot& snapshot) {
  if (!snapshot.ended.empty()) {
    std::erase_if(jobs_,
                  [&](JobIndex job) { return snapshot.states[job].phase == JobPhase::kEnded; });
  }
  jobs_.insert(jobs_.end(), snapshot.arrived.begin(), snapshot.arrived.end());
}

std::vector<JobIndex> Synergy::chosen(const Snapshot& snapshot, bool new_round) {
  struct Ranked {
    bool may_wait = false;  ///< between rounds, jobs that run go on.
    double rank = 0;
    JobIndex job = 0;
    auto operator<=>(const Ranked&) const = default;
  };
  std::vector<Ranked> ranked;
  for (const JobIndex job : jobs_) {
    const bool runs = snapshot.states[job].phase == JobPhase::kRunning;
    ranked.push_back({.may_wait = new_round || !runs, .rank = rank(snapshot, job), .job = job});
  }
  std::ranges::sort(ranked);
  std::vector<JobIndex> jobs;
  std::uint64_t left = snapshot.fleet->gpus();
  for (const Ranked& next : ranked) {
    const std::uint32_t gpus = snapshot.jobs[next.job].demand.gpus;
    if (gpus > left) continue;
    left -= gpus;
    jobs.push_back(next.job);
  }
  // Those that run keep their places; large ones are hard to place.
  std::ranges::stable_sort(jobs, [&](JobIndex a, JobIndex b) {
    const bool a_runs = snapshot.states[a].phase == JobPhase::kRunning;
    const bool b_runs = snapshot.states[b].phase == JobPhase::kRunning;
    if (a_runs != b_runs) return a_runs;
    return snapshot.jobs[a].demand.gpus > snapshot.jobs[b].demand.gpus;
  });
  return jobs;
}

bool Synergy::take(const Snapshot& snapshot, JobIndex job, const GpuSet* where,
                   const HostShare& host) {
  const Demand demand = demand_with(snapshot.jobs[job], host);
  std::optional<GpuSet> gpus;
  if (where == nullptr) {
    gpus = room_->take_together(demand);
  } else if (room_->take(*where, demand)) {
    gpus = *where;
  }
  if (!gpus) return false;
  placed_.push_back({.job = job, .gpus = *std::move(gpus), .host = host});
  return true;
}

bool Synergy::demote_on(const Snapshot& snapshot, std::uint32_t server) {
  Placed* greediest = nullptr;
  std::uint64_t most = 0;
  for (Placed& placed : placed_) {
    bool here = false;
    for (std::size_t i = 0; i < placed.gpus.parts(); ++i) {
      here = here || placed.gpus.part(i).server == server;
    }
    const Job& job = snapshot.jobs[placed.job];
    const std::uint64_t cores = placed.host.millicores / std::max(job.demand.gpus, 1U);
    if (!here || placed.host.fits_in(share_of(snapshot, placed.job)) || cores < most) continue;
    greediest = &placed;
    most = cores;
  }
  if (greediest == nullptr) return false;
  const Job& job = snapshot.jobs[greediest->job];
  const HostShare share = share_of(snapshot, greediest->job);
  room_->give_back(greediest->gpus, demand_with(job, greediest->host));
  // Of cores and memory, one may be less than the share.
  if (room_->take(greediest->gpus, demand_with(job, share))) {
    greediest->host = share;
    return true;
  }
  GPEMU_CHECK(room_->take(greediest->gpus, demand_with(job, greediest->host)), "it does not fit");
  return false;
}

bool Synergy::place(const Snapshot& snapshot, JobIndex job, const GpuSet* where) {
  const HostShare share = share_of(snapshot, job);
  if (take(snapshot, job, where, best_for(snapshot, job))) return true;
  if (take(snapshot, job, where, share)) return true;
  const auto servers = static_cast<std::uint32_t>(snapshot.fleet->servers().size());
  for (std::uint32_t server = 0; server < servers; ++server) {
    if (room_->on(server) == 0) continue;
    while (demote_on(snapshot, server)) {
      if (take(snapshot, job, where, share)) return true;
    }
  }
  return false;
}

bool Synergy::place_all(const Snapshot& snapshot, const std::vector<JobIndex>& jobs,
                        bool in_place) {
  room_.emplace(*snapshot.fleet);
  placed_.clear();
  bool all = true;
  for (const JobIndex job : jobs) {
    const JobState& state = snapshot.states[job];
    const bool stays = in_place && state.phase == JobPhase::kRunning;
    all = place(snapshot, job, stays ? &state.gpus : nullptr) && all;
  }
  return all;
}

void Synergy::fill(const Snapshot& snapshot, Decision& decision) {
  std::vector<JobIndex> waits = jobs_;
  for (const Placed& placed : placed_) {
    std::erase(waits, placed.job);
    const JobState& state = snapshot.states[placed.job];
    if (state.gpus == placed.gpus && state.host == placed.host) continue;
    decision.start.push_back({.job = placed.job, .gpus = placed.gpus, .host = placed.host});
  }
  for (const JobIndex job : waits) {
    if (snapshot.states[job].phase == JobPhase::kRunning) decision.preempt.push_back(job);
  }
}

void Synergy::decide(const Snapshot& snapshot, Decision& decision) {
  note_changes(snapshot);
  if (!next_round_s_) next_round_s_ = first_round_s(snapshot, round_s_);
  const bool new_round = snapshot.now_s >= *next_round_s_;
  if (new_round) next_round_s_ = next_round_after(snapshot.now_s, round_s_);
  decision.ask_again_s = *next_round_s_;
  const std::vector<JobIndex> jobs = chosen(snapshot, new_round);
  const bool fit = place_all(snapshot, jobs, true);
  // In a new round, jobs may move if others do not fit otherwise.
  if (!fit && new_round) place_all(snapshot, jobs, false);
  fill(snapshot, decision);
}

std::unique_ptr<Policy> synergy(Order order, bool tuned, const PolicySettings& settings) {
  return std::make_unique<Synergy>(order, tuned, settings.round_s.value_or(kSynergyRoundS));
}

}  // namespace

std::unique_ptr<Policy> make_las_proportional(const PolicySettings& settings) {
  return synergy(Order::kLas, false, settings);
}

std::unique_ptr<Policy> make_las_synergy(const PolicySettings& settings) {
  return synergy(Order::kLas, true, settings);
}

std::unique_ptr<Policy> make_srtf_proportional(const PolicySettings& settings) {
  return synergy(Order::kSrtf, false, settings);
}

std::unique_ptr<Policy> make_srtf_synergy(const PolicySettings& settings) {
  return synergy(Order::kSrtf, true, settings);
}

}  // namespace gpemu::scheduling
