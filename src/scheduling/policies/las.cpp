// SPDX-License-Identifier: Apache-2.0
#include "gpemu/scheduling/ranked_policy.hpp"

#include "policies/policies.hpp"

namespace gpemu::scheduling {
namespace {

/// Least attained service (GPUs x seconds) first, in rounds: short jobs end early, although nobody
/// knows which these are.
class Las final : public RankedPolicy {
 public:
  explicit Las(double round_s) : RankedPolicy(Running::kPreemptible, round_s) {}

 private:
  [[nodiscard]] double rank(const Snapshot& snapshot, JobIndex job) const override {
    return snapshot.held_s(job) * snapshot.jobs[job].demand.gpus;
  }
};

}  // namespace

std::unique_ptr<Policy> make_las(const PolicySettings& settings) {
  return std::make_unique<Las>(settings.round_s.value_or(kSynergyRoundS));
}

}  // namespace gpemu::scheduling
