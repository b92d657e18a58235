// SPDX-License-Identifier: Apache-2.0
#include "gpemu/scheduling/placing_policy.hpp"

#include <cstddef>
#include <deque>
#include <optional>
#include <set>
#include <utility>

namespace gpemu::scheduling {
namespace {

class PlacingPolicy final : public Policy {
 public:
  PlacingPolicy(const PlacementEntry& entry, std::vector<TypicalDemand> expected,
                std::uint64_t seed)
      : entry_(entry), seed_(seed), expected_(std::move(expected)), learns_(expected_.empty()) {}

  void decide(const Snapshot& snapshot, Decision& decision) override {
    for (const JobIndex job : snapshot.arrived) {
      seen_.push_back(snapshot.jobs[job]);
      if (!snapshot.runs(job)) waiting_.push_back(job);
    }
    if (waiting_.empty()) return;
    learn(*snapshot.fleet);
    room_ = *snapshot.free;
    std::set<Demand> full;
    std::erase_if(waiting_, [&](JobIndex job) {
      const Demand& demand = snapshot.jobs[job].demand;
      if (snapshot.states[job].phase == JobPhase::kEnded) return true;
      if (full.contains(demand)) return false;
      std::optional<GpuSet> gpus = place(demand);
      if (gpus) {
        decision.start.push_back({.job = job, .gpus = *std::move(gpus)});
        return true;
      }
      full.insert(demand);
      return false;
    });
  }

 private:
  /// Makes the placement when twice as many jobs have been seen as before.
  void learn(const Fleet& fleet) {
    if (placement_ && (!learns_ || seen_.size() < 2 * learned_)) return;
    learned_ = seen_.size();
    if (learns_) expected_ = typical_demands(fleet, seen_);
    placement_ = entry_.make({.typical = expected_, .seed = seed_});
  }

  std::optional<GpuSet> place(const Demand& demand) {
    if (demand.gpus > room_->fleet().most_on_one(demand.kinds)) return room_->take_together(demand);
    const std::optional<ServerGpus> chosen = placement_->choose(*room_, demand);
    if (!chosen) return std::nullopt;
    GpuSet gpus;
    gpus.add(*chosen);
    GPEMU_CHECK(room_->take(gpus, demand), "a placement chose what is not free");
    return gpus;
  }

  const PlacementEntry& entry_;
  std::uint64_t seed_;
  std::vector<TypicalDemand> expected_;
  bool learns_;
  std::size_t learned_ = 0;
  std::vector<Job> seen_;
  std::unique_ptr<Placement> placement_;
  std::deque<JobIndex> waiting_;
  std::optional<FreeResources> room_;  ///< what is left in a decision.
};

}  // namespace

std::unique_ptr<Policy> make_placing_policy(const PlacementEntry& placement,
                                            std::vector<TypicalDemand> expected,
                                            std::uint64_t seed) {
  return std::make_unique<PlacingPolicy>(placement, std::move(expected), seed);
}

}  // namespace gpemu::scheduling
