// SPDX-License-Identifier: Apache-2.0
#include "policies/one_gpu_policy.hpp"

#include <algorithm>
#include <utility>

namespace gpemu::scheduling {

double OneGpuPolicy::time_s(const Snapshot& snapshot, JobIndex job, std::size_t kind) {
  const Job& all = snapshot.jobs[job];
  if ((all.demand.kinds >> kind & 1U) == 0) return kNever;
  return all.restart_s + all.iterations * all.iteration_s_on(kind);
}

std::size_t OneGpuPolicy::best_kind(const Snapshot& snapshot, JobIndex job) const {
  std::size_t best = 0;
  for (std::size_t kind = 1; kind < kinds(); ++kind) {
    if (time_s(snapshot, job, kind) < time_s(snapshot, job, best)) best = kind;
  }
  return best;
}

std::vector<std::uint32_t> OneGpuPolicy::waiting_users(const Snapshot& snapshot) const {
  std::vector<std::uint32_t> users;
  for (const JobIndex job : waiting_) users.push_back(snapshot.jobs[job].user);
  std::ranges::sort(users);
  users.erase(std::ranges::unique(users).begin(), users.end());
  return users;
}

std::uint32_t OneGpuPolicy::held_by(const Snapshot& snapshot, std::uint32_t user,
                                    std::size_t kind) const {
  return static_cast<std::uint32_t>(std::ranges::count_if(running_, [&](const Running& running) {
    return running.kind == kind && snapshot.jobs[running.job].user == user;
  }));
}

void OneGpuPolicy::note_changes(const Snapshot& snapshot) {
  if (of_kind_.empty()) {
    of_kind_ = snapshot.fleet->gpus_by_kind();
    free_of_kind_ = of_kind_;
  }
  if (!snapshot.ended.empty()) {
    std::erase_if(running_, [&](const Running& running) {
      const bool ended = snapshot.states[running.job].phase == JobPhase::kEnded;
      if (ended) ++free_of_kind_[running.kind];
      return ended;
    });
  }
  for (const JobIndex job : snapshot.arrived) {
    if (!snapshot.runs(job)) {
      waiting_.push_back(job);
      continue;
    }
    const std::size_t kind = snapshot.fleet->kind_of(snapshot.states[job].gpus.part(0).server);
    --free_of_kind_[kind];
    running_.push_back({.job = job, .kind = kind, .end_s = snapshot.end_s(job)});
  }
}

void OneGpuPolicy::start(const Snapshot& snapshot, JobIndex job, std::size_t kind,
                         Decision& decision) {
  Demand demand = snapshot.jobs[job].demand;
  demand.kinds = std::uint64_t{1} << kind;
  std::optional<GpuSet> gpus = room_->take_together(demand);
  GPEMU_CHECK(gpus.has_value(), "no GPU of this kind is free");
  decision.start.push_back({.job = job, .gpus = *std::move(gpus)});
  std::erase(waiting_, job);
  --free_of_kind_[kind];
  running_.push_back(
      {.job = job, .kind = kind, .end_s = snapshot.now_s + time_s(snapshot, job, kind)});
}

void OneGpuPolicy::decide(const Snapshot& snapshot, Decision& decision) {
  note_changes(snapshot);
  if (waiting_.empty()) return;
  room_ = *snapshot.free;
  choose(snapshot, decision);
}

}  // namespace gpemu::scheduling
