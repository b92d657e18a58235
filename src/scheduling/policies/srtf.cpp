// SPDX-License-Identifier: Apache-2.0
#include "gpemu/scheduling/ranked_policy.hpp"

#include "policies/policies.hpp"

namespace gpemu::scheduling {
namespace {

/// Shortest remaining time first: the least average JCT on one GPU, if all durations are known.
class Srtf final : public RankedPolicy {
  [[nodiscard]] double rank(const Snapshot& snapshot, JobIndex job) const override {
    return snapshot.work_left_s(job);
  }
};

}  // namespace

std::unique_ptr<Policy> make_srtf(const PolicySettings& /*settings*/) {
  return std::make_unique<Srtf>();
}

}  // namespace gpemu::scheduling
