// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "gpemu/scheduling/interleaving.hpp"

#include "matching.hpp"
#include "policies/policies.hpp"

namespace gpemu::scheduling {
namespace {

/// Muri (SIGCOMM'22): jobs that use different resources at different times share their GPUs. Jobs
/// with the same number of GPUs are matched so that their resources are used as much as possible,
/// as often as it takes until they fit on the fleet.
class Muri final : public Policy {
 public:
  explicit Muri(bool knows_durations) : knows_durations_(knows_durations) {}
  void decide(const Snapshot& snapshot, Decision& decision) override;

 private:
  /// Jobs that are to share their GPUs.
  struct Group {
    std::vector<JobIndex> jobs;
    std::uint32_t gpus = 0;
    double rank = 0;
  };
  /// Groups by their number of GPUs, in the order in which the first job of that number was looked
  /// at.
  using Groups = std::vector<std::pair<std::uint32_t, std::vector<Group>>>;

  void sort_jobs(const Snapshot& snapshot);
  [[nodiscard]] Groups choose(const Snapshot& snapshot, std::uint64_t& wanted);
  /// Merges groups that go well together, while more GPUs are wanted than there are.
  void merge(const Snapshot& snapshot, Groups& groups, std::uint64_t& wanted);
  [[nodiscard]] std::vector<Group> those_that_fit(const Snapshot& snapshot, const Groups& groups);
  void fill(const Snapshot& snapshot, std::vector<Group> groups, Decision& decision);

  [[nodiscard]] double iteration_s(const Snapshot& snapshot, const std::vector<JobIndex>& jobs);
  /// Returns which share of the resources two groups would use together, on average.
  [[nodiscard]] double used_share(const Snapshot& snapshot, const Group& a, const Group& b);
  [[nodiscard]] std::uint64_t kind_of(const Snapshot& snapshot, JobIndex job);

  bool knows_durations_;
  std::vector<JobIndex> jobs_;  ///< those that wait or run, in the order of the last decision.
  std::vector<double> ranks_;   ///< by job.
  std::map<Stages, std::uint64_t> kinds_;
  std::vector<std::uint64_t> kind_of_;                 ///< by job; 0: not looked up.
  std::unordered_map<std::uint64_t, double> periods_;  ///< of groups, by their kinds.
  std::optional<FreeResources> room_;
};

std::uint64_t Muri::kind_of(const Snapshot& snapshot, JobIndex job) {
  if (kind_of_.size() < snapshot.jobs.size()) kind_of_.resize(snapshot.jobs.size());
  if (kind_of_[job] == 0) {
    kind_of_[job] =
        kinds_.try_emplace(snapshot.jobs[job].stages_s, kinds_.size() + 1).first->second;
  }
  return kind_of_[job];
}

double Muri::iteration_s(const Snapshot& snapshot, const std::vector<JobIndex>& jobs) {
  if (jobs.size() == 1) return snapshot.jobs[jobs.front()].iteration_s;
  std::array<std::uint64_t, kMostInGroup> kinds{};
  for (std::size_t i = 0; i < jobs.size(); ++i) kinds[i] = kind_of(snapshot, jobs[i]);
  std::ranges::sort(kinds);
  std::uint64_t key = 0;
  for (const std::uint64_t kind : kinds) key = key << 16U | kind;
  const auto [found, is_new] = periods_.try_emplace(key, 0);
  if (is_new) {
    std::vector<Stages> stages;
    for (const JobIndex job : jobs) stages.push_back(snapshot.jobs[job].stages_s);
    found->second = interleaved_iteration_s(stages);
  }
  return found->second;
}

double Muri::used_share(const Snapshot& snapshot, const Group& a, const Group& b) {
  std::vector<JobIndex> jobs = a.jobs;
  jobs.insert(jobs.end(), b.jobs.begin(), b.jobs.end());
  if (jobs.size() > kMostInGroup) return 0;
  double used = 0;
  for (const JobIndex job : jobs) {
    const Stages& stages = snapshot.jobs[job].stages_s;
    const double busy = std::accumulate(stages.begin(), stages.end(), 0.0);
    if (busy <= 0) return 0;  // Its stages are not known.
    used += busy;
  }
  return used / (iteration_s(snapshot, jobs) * static_cast<double>(kMostInGroup));
}

void Muri::sort_jobs(const Snapshot& snapshot) {
  if (!snapshot.ended.empty()) {
    std::erase_if(jobs_,
                  [&](JobIndex job) { return snapshot.states[job].phase == JobPhase::kEnded; });
  }
  jobs_.insert(jobs_.end(), snapshot.arrived.begin(), snapshot.arrived.end());
  ranks_.resize(snapshot.jobs.size());
  for (const JobIndex job : jobs_) {
    const double time_s = knows_durations_ ? snapshot.work_left_s(job) : snapshot.held_s(job);
    ranks_[job] = time_s * snapshot.jobs[job].demand.gpus;
  }
  std::ranges::stable_sort(jobs_, {}, [&](JobIndex job) { return ranks_[job]; });
}

Muri::Groups Muri::choose(const Snapshot& snapshot, std::uint64_t& wanted) {
  struct Class {
    std::uint32_t gpus = 0;
    std::vector<JobIndex> jobs;
    std::size_t seen = 0;
    std::size_t chosen = 0;
    bool full = false;
  };
  std::vector<Class> classes;
  std::vector<std::size_t> class_of(jobs_.size());
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    const std::uint32_t gpus = snapshot.jobs[jobs_[i]].demand.gpus;
    const auto found = std::ranges::find(classes, gpus, &Class::gpus);
    class_of[i] = static_cast<std::size_t>(found - classes.begin());
    if (found == classes.end()) classes.push_back({.gpus = gpus});
    classes[class_of[i]].jobs.push_back(jobs_[i]);
  }
  room_.emplace(*snapshot.fleet);
  for (const std::size_t index : class_of) {
    Class& same = classes[index];
    if (same.seen++ < same.chosen || same.full) continue;
    same.full = !room_->take_together({.gpus = same.gpus});
    if (!same.full) same.chosen = std::min(same.chosen + kMostInGroup, same.jobs.size());
  }
  Groups groups;
  for (const Class& same : classes) {
    std::vector<Group> single;
    for (std::size_t i = 0; i < same.chosen; ++i) {
      single.push_back({.jobs = {same.jobs[i]}, .gpus = same.gpus});
    }
    wanted += same.chosen * same.gpus;
    groups.emplace_back(same.gpus, std::move(single));
  }
  return groups;
}

void Muri::merge(const Snapshot& snapshot, Groups& groups, std::uint64_t& wanted) {
  const std::uint64_t gpus_of_fleet = snapshot.fleet->gpus();
  for (auto& [gpus, same] : groups) {
    const auto partners = heaviest_pairs(same.size(), [&](std::size_t a, std::size_t b) {
      return used_share(snapshot, same[a], same[b]);
    });
    std::vector<Group> merged;
    for (std::size_t i = 0; i < same.size(); ++i) {
      if (partners[i] && *partners[i] > i) continue;  // With the other one, below.
      if (!partners[i]) {
        merged.push_back(std::move(same[i]));
        continue;
      }
      Group& first = same[*partners[i]];
      if (wanted <= gpus_of_fleet) {
        merged.push_back(std::move(first));
        merged.push_back(std::move(same[i]));
        continue;
      }
      first.jobs.insert(first.jobs.end(), same[i].jobs.begin(), same[i].jobs.end());
      merged.push_back(std::move(first));
      wanted -= gpus;
    }
    same = std::move(merged);
  }
}

/// Groups that are slower together than one after the other are divided again. The most urgent ones
/// that fit run.
std::vector<Muri::Group> Muri::those_that_fit(const Snapshot& snapshot, const Groups& groups) {
  std::vector<Group> all;
  for (const auto& [gpus, same] : groups) {
    for (const Group& group : same) {
      double in_turn = 0;
      for (const JobIndex job : group.jobs) in_turn += snapshot.jobs[job].iteration_s;
      if (iteration_s(snapshot, group.jobs) > in_turn) {
        for (const JobIndex job : group.jobs) all.push_back({.jobs = {job}, .gpus = gpus});
      } else {
        all.push_back(group);
      }
    }
  }
  for (Group& group : all) {
    group.rank = ranks_[group.jobs.front()];
    for (const JobIndex job : group.jobs) group.rank = std::min(group.rank, ranks_[job]);
  }
  std::ranges::stable_sort(all, {}, &Group::rank);
  room_.emplace(*snapshot.fleet);
  std::erase_if(all,
                [&](const Group& group) { return !room_->take_together({.gpus = group.gpus}); });
  return all;
}

void Muri::fill(const Snapshot& snapshot, std::vector<Group> groups, Decision& decision) {
  std::ranges::stable_sort(groups, std::ranges::greater{}, &Group::gpus);
  room_.emplace(*snapshot.fleet);
  std::vector<bool> runs(snapshot.jobs.size());
  for (const Group& group : groups) {
    const std::optional<GpuSet> gpus = room_->take_together({.gpus = group.gpus});
    if (!gpus) continue;
    const std::uint32_t number = group.jobs.front() + 1;
    for (const JobIndex job : group.jobs) {
      runs[job] = true;
      const JobState& state = snapshot.states[job];
      if (state.gpus == *gpus && state.group == number) continue;
      decision.start.push_back({.job = job, .gpus = *gpus, .group = number});
    }
  }
  for (const JobIndex job : jobs_) {
    if (!runs[job] && snapshot.states[job].phase == JobPhase::kRunning) {
      decision.preempt.push_back(job);
    }
  }
}

void Muri::decide(const Snapshot& snapshot, Decision& decision) {
  sort_jobs(snapshot);
  std::uint64_t wanted = 0;
  Groups groups = choose(snapshot, wanted);
  for (std::size_t round = 0; round < kMostInGroup; ++round) {
    merge(snapshot, groups, wanted);
    if (wanted <= snapshot.fleet->gpus()) break;
  }
  fill(snapshot, those_that_fit(snapshot, groups), decision);
  std::ranges::stable_sort(jobs_, std::ranges::greater{},
                           [&](JobIndex job) { return snapshot.jobs[job].demand.gpus; });
}

}  // namespace

std::unique_ptr<Policy> make_muri_l(const PolicySettings& /*settings*/) {
  return std::make_unique<Muri>(false);
}

std::unique_ptr<Policy> make_muri_s(const PolicySettings& /*settings*/) {
  return std::make_unique<Muri>(true);
}

}  // namespace gpemu::scheduling
