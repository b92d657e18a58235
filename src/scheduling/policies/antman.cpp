// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "policies/policies.hpp"

namespace gpemu::scheduling {
namespace {

/// How much of a GPU jobs use, which counts for where opportunistic ones run. Part of what a
/// guaranteed job uses is counted when it gets its GPUs, the rest when it has all of them.
/// Source: jobs.py and switch.py in simulator of github.com/Rivendile/Muri. Sums are made in the
/// same order, because what their rounding leaves decides between equal GPUs.
constexpr double kGuaranteedUse = 0.1;
constexpr double kUseWhenComplete = 0.01;
constexpr double kUseWhenTaken = kGuaranteedUse - kUseWhenComplete;
constexpr double kOpportunisticUse = 0.9;
constexpr double kMostUsed = 0.8;

/// AntMan (OSDI'20) as in Muri's simulator: nothing is preempted. A guaranteed job takes GPUs that
/// no other guaranteed job has, in the order of arrival; one that does not fit keeps what the
/// server with the most free GPUs has until the rest is free. Then opportunistic jobs run beside
/// them, on the GPUs that are used the least, wherever they are.
///
/// Muri's simulator would stop if guaranteed jobs waited for each other's GPUs; here they then give
/// them back, and try again.
class AntMan final : public Policy {
 public:
  void decide(const Snapshot& snapshot, Decision& decision) override;

 private:
  /// What a guaranteed job has, of which it may need more; by server, in any order.
  struct Holding {
    std::vector<ServerGpus> parts;
    std::uint32_t missing = 0;
    bool needs_whole_servers = false;  ///< first; what is missing then is on one more server.
    std::uint32_t rest_on = kNoServer;
  };

  struct Gpu {
    double used = 0;
    std::uint32_t server = 0;
    std::uint32_t number = 0;
  };

  void note_changes(const Snapshot& snapshot);
  void take_over(const Snapshot& snapshot, JobIndex job);
  void release(const Snapshot& snapshot, JobIndex job);
  void start_guaranteed(const Snapshot& snapshot, Decision& decision);
  [[nodiscard]] std::vector<Gpu> room_beside() const;
  void start_opportunistic(const Snapshot& snapshot, Decision& decision);
  /// Takes what the job can get. Returns whether it has all.
  bool take(const Fleet& fleet, Holding& holding);
  void take_whole_servers(const Fleet& fleet, Holding& holding);
  void take_of_one_server(Holding& holding);
  void take_of(std::uint32_t server, std::uint32_t count, Holding& holding);
  void give_back(const Holding& holding);
  void add_use(const Holding& holding, double use);
  /// For jobs that wait for each other's GPUs.
  void give_up_holdings();
  [[nodiscard]] static GpuSet set_of(const Holding& holding);
  [[nodiscard]] std::uint32_t free_on(std::uint32_t server) const {
    return static_cast<std::uint32_t>(std::popcount(free_[server]));
  }

  std::vector<std::uint64_t> free_;        ///< the GPUs of each server that no guaranteed job has.
  std::vector<std::vector<double>> used_;  ///< by server and GPU.
  std::uint64_t free_gpus_ = 0;
  std::size_t running_ = 0;              ///< guaranteed jobs that have all their GPUs.
  std::vector<JobIndex> guaranteed_;     ///< those that wait.
  std::vector<JobIndex> opportunistic_;  ///< those that wait.
  std::unordered_map<JobIndex, Holding> holdings_;
};

void AntMan::note_changes(const Snapshot& snapshot) {
  if (free_.empty()) {
    for (const Server& server : snapshot.fleet->servers()) {
      free_.push_back(server.all_gpus());
      used_.emplace_back(server.gpus);
    }
    free_gpus_ = snapshot.fleet->gpus();
  }
  for (const bool opportunistic : {false, true}) {
    for (const JobIndex job : snapshot.ended) {
      if (snapshot.jobs[job].opportunistic == opportunistic) release(snapshot, job);
    }
  }
  for (const JobIndex job : snapshot.arrived) {
    if (snapshot.runs(job)) {
      take_over(snapshot, job);
    } else {
      (snapshot.jobs[job].opportunistic ? opportunistic_ : guaranteed_).push_back(job);
    }
  }
}

/// Notes the GPUs of a job that runs already.
void AntMan::take_over(const Snapshot& snapshot, JobIndex job) {
  Holding& holding = holdings_[job];
  const GpuSet& gpus = snapshot.states[job].gpus;
  for (std::size_t i = 0; i < gpus.parts(); ++i) holding.parts.push_back(gpus.part(i));
  if (snapshot.jobs[job].opportunistic) return add_use(holding, kOpportunisticUse);
  for (const ServerGpus& part : holding.parts) {
    free_[part.server] &= ~part.gpus;
    free_gpus_ -= part.count();
  }
  ++running_;
  add_use(holding, kGuaranteedUse);
}

void AntMan::release(const Snapshot& snapshot, JobIndex job) {
  const Holding& holding = holdings_[job];
  const bool opportunistic = snapshot.jobs[job].opportunistic;
  add_use(holding, opportunistic ? -kOpportunisticUse : -kGuaranteedUse);
  if (!opportunistic) {
    --running_;
    give_back(holding);
  }
  holdings_.erase(job);
}

void AntMan::give_back(const Holding& holding) {
  for (const ServerGpus& part : holding.parts) {
    free_[part.server] |= part.gpus;
    free_gpus_ += part.count();
  }
}

void AntMan::add_use(const Holding& holding, double use) {
  for (const ServerGpus& part : holding.parts) {
    for (std::uint64_t left = part.gpus; left != 0; left &= left - 1) {
      used_[part.server][static_cast<std::size_t>(std::countr_zero(left))] += use;
    }
  }
}

void AntMan::take_of(std::uint32_t server, std::uint32_t count, Holding& holding) {
  if (count == 0) return;
  ServerGpus taken{.server = server};
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint64_t first = free_[server] & (~free_[server] + 1);
    free_[server] &= ~first;
    taken.gpus |= first;
  }
  add_use({.parts = {taken}}, kUseWhenTaken);
  free_gpus_ -= count;
  holding.missing -= count;
  if (!holding.parts.empty() && holding.parts.back().server == server) {
    holding.parts.back().gpus |= taken.gpus;
  } else {
    holding.parts.push_back(taken);
  }
}

void AntMan::take_whole_servers(const Fleet& fleet, Holding& holding) {
  for (std::uint32_t server = 0; server < free_.size(); ++server) {
    const Server& whole = fleet.servers()[server];
    if (whole.gpus > holding.missing || free_[server] != whole.all_gpus()) continue;
    take_of(server, whole.gpus, holding);
  }
}

/// If no server has as many free GPUs as are missing, takes those of the one with the most.
void AntMan::take_of_one_server(Holding& holding) {
  std::uint32_t best = 0;
  for (std::uint32_t server = 0; server < free_.size(); ++server) {
    if (free_on(server) > free_on(best)) best = server;
    if (free_on(server) < holding.missing) continue;
    best = server;
    break;
  }
  if (free_on(best) == 0) return;
  holding.rest_on = best;
  take_of(best, std::min(free_on(best), holding.missing), holding);
}

bool AntMan::take(const Fleet& fleet, Holding& holding) {
  if (holding.rest_on != kNoServer) {
    take_of(holding.rest_on, std::min(free_on(holding.rest_on), holding.missing), holding);
    return holding.missing == 0;
  }
  if (holding.needs_whole_servers) {
    take_whole_servers(fleet, holding);
    if (holding.missing == 0 || holding.missing >= fleet.most_on_one()) return holding.missing == 0;
  }
  take_of_one_server(holding);
  return holding.missing == 0;
}

GpuSet AntMan::set_of(const Holding& holding) {
  GpuSet gpus;
  for (const ServerGpus& part : holding.parts) gpus.add(part);
  return gpus;
}

void AntMan::start_guaranteed(const Snapshot& snapshot, Decision& decision) {
  std::erase_if(guaranteed_, [&](JobIndex job) {
    if (free_gpus_ == 0) return false;
    Holding& holding = holdings_[job];
    if (holding.parts.empty()) {
      holding.missing = snapshot.jobs[job].demand.gpus;
      holding.needs_whole_servers = holding.missing > snapshot.fleet->most_on_one();
    }
    if (!take(*snapshot.fleet, holding)) return false;
    add_use(holding, kUseWhenComplete);
    ++running_;
    decision.start.push_back({.job = job, .gpus = set_of(holding)});
    return true;
  });
}

/// Returns the GPUs on which opportunistic jobs may run, the least used first.
std::vector<AntMan::Gpu> AntMan::room_beside() const {
  std::vector<Gpu> room;
  for (std::uint32_t server = 0; server < used_.size(); ++server) {
    for (std::uint32_t i = 0; i < used_[server].size(); ++i) {
      if (used_[server][i] >= kMostUsed) continue;
      room.push_back({.used = used_[server][i], .server = server, .number = i});
    }
  }
  std::ranges::stable_sort(room, {}, &Gpu::used);
  return room;
}

void AntMan::start_opportunistic(const Snapshot& snapshot, Decision& decision) {
  if (opportunistic_.empty()) return;
  std::vector<Gpu> room = room_beside();
  std::erase_if(opportunistic_, [&](JobIndex job) {
    const std::uint32_t wanted = snapshot.jobs[job].demand.gpus;
    if (room.size() < wanted) return false;
    const auto end = room.begin() + wanted;
    std::sort(room.begin(), end, [](const Gpu& a, const Gpu& b) { return a.server < b.server; });
    Holding& holding = holdings_[job];
    for (auto gpu = room.begin(); gpu != end; ++gpu) {
      if (holding.parts.empty() || holding.parts.back().server != gpu->server) {
        holding.parts.push_back({.server = gpu->server});
      }
      holding.parts.back().gpus |= std::uint64_t{1} << gpu->number;
    }
    room.erase(room.begin(), end);
    add_use(holding, kOpportunisticUse);
    decision.start.push_back({.job = job, .gpus = set_of(holding), .beside = true});
    return true;
  });
}

void AntMan::give_up_holdings() {
  for (const JobIndex job : guaranteed_) {
    const auto found = holdings_.find(job);
    if (found == holdings_.end()) continue;
    add_use(found->second, -kUseWhenTaken);
    give_back(found->second);
    holdings_.erase(found);
  }
}

void AntMan::decide(const Snapshot& snapshot, Decision& decision) {
  note_changes(snapshot);
  start_guaranteed(snapshot, decision);
  if (running_ == 0 && !guaranteed_.empty()) {
    give_up_holdings();
    start_guaranteed(snapshot, decision);
  }
  start_opportunistic(snapshot, decision);
}

}  // namespace

std::unique_ptr<Policy> make_antman(const PolicySettings& /*settings*/) {
  return std::make_unique<AntMan>();
}

}  // namespace gpemu::scheduling
