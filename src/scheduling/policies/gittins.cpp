// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include "gpemu/scheduling/ranked_policy.hpp"

#include "policies/policies.hpp"

namespace gpemu::scheduling {
namespace {

/// So many of the last ended jobs tell what to expect of others.
constexpr std::size_t kHistory = 1000;
/// The history is looked at anew after so many ends.
constexpr std::size_t kEndsBetween = 50;

/// The greatest Gittins index first (Tiresias, NSDI'19): the chance that a job ends with a little
/// more service, for each unit of it, given the service that it has had and that the jobs which
/// have ended needed. Until the first have ended, the least attained service is first.
class Gittins final : public RankedPolicy {
 public:
  explicit Gittins(double round_s) : RankedPolicy(Running::kPreemptible, round_s) {}

 private:
  [[nodiscard]] double rank(const Snapshot& snapshot, JobIndex job) const override;
  [[nodiscard]] bool has_new_ranks(const Snapshot& snapshot) override;

  std::vector<double> ended_;    ///< services of jobs that have ended, the last ones.
  std::size_t next_ = 0;         ///< where the next one goes.
  std::size_t new_ = 0;          ///< how many have ended since the last look.
  std::vector<double> history_;  ///< those at the last look, sorted.
};

bool Gittins::has_new_ranks(const Snapshot& snapshot) {
  for (const JobIndex job : snapshot.ended) {
    const double service = snapshot.held_s(job) * snapshot.jobs[job].demand.gpus;
    if (ended_.size() < kHistory) {
      ended_.push_back(service);
    } else {
      ended_[next_++ % kHistory] = service;
    }
    ++new_;
  }
  if (new_ < kEndsBetween) return false;
  new_ = 0;
  history_ = ended_;
  std::ranges::sort(history_);
  return true;
}

double Gittins::rank(const Snapshot& snapshot, JobIndex job) const {
  const double attained = snapshot.held_s(job) * snapshot.jobs[job].demand.gpus;
  if (history_.empty()) return attained;
  const auto first = std::ranges::upper_bound(history_, attained);
  const auto longer = static_cast<double>(history_.end() - first);
  // Nothing is known of jobs that have had more than any: they come last.
  if (longer == 0) return std::numeric_limits<double>::max();
  double best = 0;
  double ended = 0;
  double spent = 0;  // By those that end until then.
  for (auto needed = first; needed != history_.end(); ++needed) {
    const double more = *needed - attained;
    ended += 1;
    spent += more;
    best = std::max(best, ended / (spent + (longer - ended) * more));
  }
  return -best;
}

}  // namespace

std::unique_ptr<Policy> make_gittins(const PolicySettings& settings) {
  return std::make_unique<Gittins>(settings.round_s.value_or(kSynergyRoundS));
}

}  // namespace gpemu::scheduling
