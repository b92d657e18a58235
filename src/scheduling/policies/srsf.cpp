// SPDX-License-Identifier: Apache-2.0
#include "gpemu/scheduling/ranked_policy.hpp"

#include "policies/policies.hpp"

namespace gpemu::scheduling {
namespace {

/// Shortest remaining service first: a job's service is its time multiplied by its GPUs.
class Srsf final : public RankedPolicy {
  [[nodiscard]] double rank(const Snapshot& snapshot, JobIndex job) const override {
    return snapshot.work_left_s(job) * snapshot.jobs[job].demand.gpus;
  }
};

}  // namespace

std::unique_ptr<Policy> make_srsf(const PolicySettings& /*settings*/) {
  return std::make_unique<Srsf>();
}

}  // namespace gpemu::scheduling
