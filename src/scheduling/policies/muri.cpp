// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "gpemu/scheduling/interleaving.hpp"

#include "matching.hpp"
#include "policies/policies.hpp"
#include "shared_use.hpp"

namespace gpemu::scheduling {
namespace {

/// How many pairings are remembered.
constexpr std::size_t kMostPairings = 4096;

struct MuriOptions {
  bool knows_durations = false;
  /// A group that is slower together than one after the other is split, and the most urgent groups
  /// that fit run, instead of the largest ones. Muri's simulator has this since after its paper.
  bool splits_slow_groups = false;
};

/// Muri (SIGCOMM'22): jobs that use different resources at different times share their GPUs. Jobs
/// with the same number of GPUs are matched so that their resources are used as much as possible,
/// as often as it takes until they fit on the fleet.
class Muri final : public Policy {
 public:
  explicit Muri(MuriOptions options) : options_(options) {}
  void decide(const Snapshot& snapshot, Decision& decision) override;

 private:
  /// Jobs that are to share their GPUs.
  struct Group {
    std::vector<JobIndex> jobs;
    std::uint32_t gpus = 0;
    SharedUse::Mix mix = 0;
    double rank = 0;
  };
  /// Groups by their number of GPUs, in the order in which the first job of that number was looked
  /// at.
  using Groups = std::vector<std::pair<std::uint32_t, std::vector<Group>>>;

  using Partners = std::vector<std::optional<std::size_t>>;

  void sort_jobs(const Snapshot& snapshot);
  [[nodiscard]] double rank(const Snapshot& snapshot, JobIndex job) const;
  [[nodiscard]] Groups choose(const Snapshot& snapshot, std::uint64_t& wanted);
  /// Merges groups that go well together, while more GPUs are wanted than there are.
  void merge(const Snapshot& snapshot, Groups& groups, std::uint64_t& wanted);
  [[nodiscard]] const Partners& partners_of(const std::vector<Group>& groups);
  [[nodiscard]] Partners new_partners_of(const std::vector<Group>& groups);
  [[nodiscard]] std::vector<Group> ranked(const Snapshot& snapshot, const Groups& groups);
  void fill(const Snapshot& snapshot, std::vector<Group> groups, Decision& decision);

  MuriOptions options_;
  std::vector<JobIndex> jobs_;  ///< those that wait or run, in the order of the last decision.
  std::vector<double> ranks_;   ///< by job.
  SharedUse use_;
  HeaviestPairs pairs_;
  std::map<std::vector<SharedUse::Mix>, Partners> pairings_;
  std::optional<FreeResources> room_;
};

/// A job that never ran is taken to need what its table says, even if its iterations need more, as
/// in Muri's simulator.
double Muri::rank(const Snapshot& snapshot, JobIndex job) const {
  const Job& asked = snapshot.jobs[job];
  double time_s = snapshot.held_s(job);
  if (options_.knows_durations) {
    const bool ran = snapshot.states[job].first_start_s >= 0;
    time_s = ran || asked.stated_s == 0 ? snapshot.work_left_s(job) : asked.stated_s;
  }
  return time_s * asked.demand.gpus;
}

void Muri::sort_jobs(const Snapshot& snapshot) {
  if (!snapshot.ended.empty()) {
    std::erase_if(jobs_,
                  [&](JobIndex job) { return snapshot.states[job].phase == JobPhase::kEnded; });
  }
  jobs_.insert(jobs_.end(), snapshot.arrived.begin(), snapshot.arrived.end());
  ranks_.resize(snapshot.jobs.size());
  for (const JobIndex job : jobs_) ranks_[job] = rank(snapshot, job);
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
      single.push_back({.jobs = {same.jobs[i]},
                        .gpus = same.gpus,
                        .mix = use_.of(snapshot.jobs[same.jobs[i]].stages_s)});
    }
    wanted += same.chosen * same.gpus;
    groups.emplace_back(same.gpus, std::move(single));
  }
  return groups;
}

/// Few groups differ, so the shares of those that do are looked up once; and often, the same ones
/// are to be paired as before.
const Muri::Partners& Muri::partners_of(const std::vector<Group>& groups) {
  std::vector<SharedUse::Mix> wanted;
  for (const Group& group : groups) wanted.push_back(group.mix);
  if (pairings_.size() > kMostPairings) pairings_.clear();
  const auto [found, is_new] = pairings_.try_emplace(std::move(wanted));
  if (is_new) found->second = new_partners_of(groups);
  return found->second;
}

Muri::Partners Muri::new_partners_of(const std::vector<Group>& groups) {
  std::vector<SharedUse::Mix> mixes;
  std::vector<std::size_t> places;
  for (const Group& group : groups) {
    const auto found = std::ranges::find(mixes, group.mix);
    places.push_back(static_cast<std::size_t>(found - mixes.begin()));
    if (found == mixes.end()) mixes.push_back(group.mix);
  }
  std::vector<double> shares(mixes.size() * mixes.size());
  for (std::size_t a = 0; a < mixes.size(); ++a) {
    for (std::size_t b = 0; b < mixes.size(); ++b) {
      shares[a * mixes.size() + b] = use_.share(mixes[a], mixes[b]);
    }
  }
  return pairs_.find(places, shares);
}

void Muri::merge(const Snapshot& snapshot, Groups& groups, std::uint64_t& wanted) {
  const std::uint64_t gpus_of_fleet = snapshot.fleet->gpus();
  for (auto& [gpus, same] : groups) {
    const Partners& partners = partners_of(same);
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
      first.mix = use_.together(first.mix, same[i].mix);
      merged.push_back(std::move(first));
      wanted -= gpus;
    }
    same = std::move(merged);
  }
}

/// Returns the groups in the order in which they get GPUs.
std::vector<Muri::Group> Muri::ranked(const Snapshot& snapshot, const Groups& groups) {
  std::vector<Group> all;
  for (const auto& [gpus, same] : groups) {
    for (const Group& group : same) {
      double in_turn = 0;
      for (const JobIndex job : group.jobs) in_turn += snapshot.jobs[job].iteration_s;
      const bool splits = options_.splits_slow_groups && group.jobs.size() > 1 &&
                          use_.iteration_s(group.mix) > in_turn;
      if (!splits) {
        all.push_back(group);
        continue;
      }
      for (const JobIndex job : group.jobs) all.push_back({.jobs = {job}, .gpus = gpus});
    }
  }
  for (Group& group : all) {
    group.rank = ranks_[group.jobs.front()];
    for (const JobIndex job : group.jobs) group.rank = std::min(group.rank, ranks_[job]);
  }
  std::ranges::stable_sort(all, {}, &Group::rank);
  if (!options_.splits_slow_groups) return all;
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
  fill(snapshot, ranked(snapshot, groups), decision);
  std::ranges::stable_sort(jobs_, std::ranges::greater{},
                           [&](JobIndex job) { return snapshot.jobs[job].demand.gpus; });
}

}  // namespace

std::unique_ptr<Policy> make_muri_l(const PolicySettings& /*settings*/) {
  return std::make_unique<Muri>(MuriOptions{});
}

std::unique_ptr<Policy> make_muri_l_split(const PolicySettings& /*settings*/) {
  return std::make_unique<Muri>(MuriOptions{.splits_slow_groups = true});
}

std::unique_ptr<Policy> make_muri_s(const PolicySettings& /*settings*/) {
  return std::make_unique<Muri>(MuriOptions{.knows_durations = true});
}

std::unique_ptr<Policy> make_muri_s_split(const PolicySettings& /*settings*/) {
  return std::make_unique<Muri>(MuriOptions{.knows_durations = true, .splits_slow_groups = true});
}

}  // namespace gpemu::scheduling
