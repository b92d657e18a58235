// SPDX-License-Identifier: Apache-2.0
#include "gpemu/scheduling/ranked_policy.hpp"

#include "policies/policies.hpp"

namespace gpemu::scheduling {
namespace {

/// Shortest job first: a job runs until its end, and longer ones overtake those that do not fit.
class Sjf final : public RankedPolicy {
 public:
  Sjf() : RankedPolicy(Running::kKept) {}

 private:
  [[nodiscard]] double rank(const Snapshot& snapshot, JobIndex job) const override {
    return snapshot.work_left_s(job);
  }
};

}  // namespace

std::unique_ptr<Policy> make_sjf(const PolicySettings& /*settings*/) {
  return std::make_unique<Sjf>();
}

}  // namespace gpemu::scheduling
