// SPDX-License-Identifier: Apache-2.0
#include <deque>
#include <optional>
#include <utility>

#include "policies/policies.hpp"

namespace gpemu::scheduling {
namespace {

/// First in, first out. A job that does not fit holds up all behind it; a job runs until its end.
class Fifo final : public Policy {
 public:
  void decide(const Snapshot& snapshot, Decision& decision) override {
    for (const JobIndex job : snapshot.arrived) {
      if (!snapshot.runs(job)) waiting_.push_back(job);
    }
    if (waiting_.empty()) return;
    const Demand& first_demand = snapshot.jobs[waiting_.front()].demand;
    if (!first_demand.shares_gpus() && snapshot.free->count() < first_demand.gpus) return;
    room_ = *snapshot.free;
    while (!waiting_.empty()) {
      const JobIndex first = waiting_.front();
      std::optional<GpuSet> gpus = room_->take_together(snapshot.jobs[first].demand);
      if (!gpus) return;
      decision.start.push_back({.job = first, .gpus = *std::move(gpus)});
      waiting_.pop_front();
    }
  }

 private:
  std::deque<JobIndex> waiting_;
  std::optional<FreeResources> room_;  ///< what is left during a decision.
};

}  // namespace

std::unique_ptr<Policy> make_fifo(const PolicySettings& /*settings*/) {
  return std::make_unique<Fifo>();
}

}  // namespace gpemu::scheduling
