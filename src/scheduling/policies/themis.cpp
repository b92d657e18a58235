// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "gpemu/scheduling/ranked_policy.hpp"

#include "policies/policies.hpp"

namespace gpemu::scheduling {
namespace {

/// How long a round is. Source: Gavel (OSDI'20), whose version of Themis Muri's simulator has, too.
constexpr double kThemisRoundS = 360;
/// How exact the worst unfairness is, relative to it.
constexpr double kSameUnfairness = 1e-9;
/// A job that has had its GPUs for less comes before those that had them for longer.
constexpr double kNotRun = 1e-9;

/// Finish-time fairness (Themis, NSDI'20): how long a job takes is compared with how long it would
/// take if the jobs divided the GPUs among them in equal parts. Each job is to have its GPUs for
/// such a share of the time that the worst ratio is as small as possible, then the second worst,
/// and so on, so that the shares are unique. In rounds, the jobs that have had the least of theirs
/// come first.
class Themis final : public RankedPolicy {
 public:
  explicit Themis(double round_s) : RankedPolicy(Running::kPreemptible, round_s) {}

 private:
  struct Active {
    JobIndex job = 0;
    double gpus = 0;
    double since_s = 0;     ///< since it arrived.
    double left_s = 0;      ///< what it still needs with its GPUs to itself.
    double part = 1;        ///< of the time that it would have them, if GPUs were divided equally.
    double isolated_s = 0;  ///< what it has had until now would have taken so long.
  };

  [[nodiscard]] double rank(const Snapshot& snapshot, JobIndex job) const override {
    return -shares_[job] / std::max(snapshot.held_s(job), kNotRun);
  }
  [[nodiscard]] bool has_new_ranks(const Snapshot& snapshot) override;
  void note_changes(const Snapshot& snapshot);
  void divide(const Snapshot& snapshot);
  /// What all jobs want if none is to be treated worse than that: GPUs, and by how many fewer they
  /// are for more unfairness.
  struct Wanted {
    double gpus = 0;
    double falls = 0;
  };
  [[nodiscard]] static double alone_s(const Active& active) {
    return active.isolated_s + active.left_s / active.part;
  }
  [[nodiscard]] static double share_at(const Active& active, double unfairness);
  [[nodiscard]] Wanted wanted_at(double unfairness) const;
  void find_unfairness(double gpus);

  std::vector<Active> active_;
  std::vector<double> shares_;  ///< by job: the part of the time that it is to have its GPUs.
  double unfairness_ = 1;       ///< the worst ratio of jobs that do not have GPUs all the time.
};

void Themis::note_changes(const Snapshot& snapshot) {
  if (!snapshot.ended.empty()) {
    std::erase_if(active_, [&](const Active& active) {
      return snapshot.states[active.job].phase == JobPhase::kEnded;
    });
  }
  for (const JobIndex job : snapshot.arrived) {
    active_.push_back({.job = job,
                       .gpus = static_cast<double>(snapshot.jobs[job].demand.gpus),
                       .left_s = snapshot.work_left_s(job)});
  }
  const auto jobs = static_cast<double>(active_.size());
  const double equal = std::ceil(static_cast<double>(snapshot.fleet->gpus()) / jobs);
  for (Active& active : active_) {
    const double left_s = snapshot.work_left_s(active.job);
    active.isolated_s += (active.left_s - left_s) / active.part;
    active.left_s = left_s;
    active.since_s = snapshot.now_s - snapshot.jobs[active.job].arrival_s;
    active.part = std::min(1.0, equal / active.gpus);
  }
}

/// Returns the share with which the job's ratio is no worse, or 1.
double Themis::share_at(const Active& active, double unfairness) {
  const double rest_s = unfairness * alone_s(active) - active.since_s;
  return active.left_s < rest_s ? active.left_s / rest_s : 1;
}

Themis::Wanted Themis::wanted_at(double unfairness) const {
  Wanted wanted;
  for (const Active& active : active_) {
    const double share = share_at(active, unfairness);
    wanted.gpus += active.gpus * share;
    if (share < 1) wanted.falls += active.gpus * share * share * alone_s(active) / active.left_s;
  }
  return wanted;
}

/// Newton's method, from the last result on; where it leaves what is known, by halves.
void Themis::find_unfairness(double gpus) {
  double low = 0;
  double high = std::numeric_limits<double>::infinity();
  for (;;) {
    const Wanted wanted = wanted_at(unfairness_);
    (wanted.gpus > gpus ? low : high) = unfairness_;
    double next = unfairness_ + (wanted.gpus - gpus) / wanted.falls;
    if (!(next > low && next < high)) {
      next = std::isinf(high) ? unfairness_ * 2 : (low + high) / 2;
    }
    const bool is_same = std::abs(next - unfairness_) <= kSameUnfairness * unfairness_;
    unfairness_ = next;
    if (is_same) return;
  }
}

void Themis::divide(const Snapshot& snapshot) {
  const auto gpus = static_cast<double>(snapshot.fleet->gpus());
  double all = 0;
  for (const Active& active : active_) all += active.gpus;
  if (all > gpus) find_unfairness(gpus);
  shares_.resize(snapshot.jobs.size());
  for (const Active& active : active_) {
    shares_[active.job] = all > gpus ? share_at(active, unfairness_) : 1;
  }
}

bool Themis::has_new_ranks(const Snapshot& snapshot) {
  note_changes(snapshot);
  divide(snapshot);
  return true;
}

}  // namespace

std::unique_ptr<Policy> make_themis(const PolicySettings& settings) {
  return std::make_unique<Themis>(settings.round_s.value_or(kThemisRoundS));
}

}  // namespace gpemu::scheduling
