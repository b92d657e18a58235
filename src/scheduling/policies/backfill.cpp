// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "policies/policies.hpp"

namespace gpemu::scheduling {
namespace {

/// Conservative backfilling reserves GPUs for so many of the waiting jobs, the first ones. Slurm
/// limits the same (bf_max_job_test), to 500 (slurm.conf(5)); here, each is tried at each end.
constexpr std::size_t kMostReservations = 100;

/// The free resources from a time on.
struct Availability {
  double from_s = 0;
  FreeResources free;
};

/// The free resources of the future. Times rise; the last entry lasts forever.
using Timeline = std::vector<Availability>;

/// First come, first served, but a job may overtake others that wait for more than is free. A job
/// runs until its end; its duration is known.
class Backfill : public Policy {
 public:
  void decide(const Snapshot& snapshot, Decision& decision) final;

 protected:
  /// Starts what may overtake the first of the waiting jobs, which does not fit now.
  virtual void overtake(const Snapshot& snapshot, Decision& decision) = 0;

  /// Returns what will be free if nothing else starts than what does in this decision.
  [[nodiscard]] Timeline timeline(const Snapshot& snapshot, const Decision& decision) const;
  /// Returns how long a job that starts will have these GPUs.
  [[nodiscard]] static double duration_s(const Snapshot& snapshot, JobIndex job,
                                         const GpuSet& gpus);

  /// Returns whether a job may fit into what is free.
  [[nodiscard]] bool may_start(const FreeResources& free) const {
    return any_small_ || free.count() != 0;
  }

  std::deque<JobIndex> waiting_;
  std::vector<JobIndex> running_;
  bool any_small_ = false;             ///< a job needs less than a whole GPU.
  std::optional<FreeResources> room_;  ///< what is left in this decision.
};

double Backfill::duration_s(const Snapshot& snapshot, JobIndex job, const GpuSet& gpus) {
  const Job& all = snapshot.jobs[job];
  return all.restart_s +
         all.iterations * iteration_s_with(*snapshot.fleet, all, gpus, all.demand.host);
}

Timeline Backfill::timeline(const Snapshot& snapshot, const Decision& decision) const {
  struct End {
    double end_s = 0;
    const GpuSet* gpus = nullptr;
    JobIndex job = 0;
  };
  std::vector<End> ends;
  for (const JobIndex job : running_) {
    ends.push_back({snapshot.end_s(job), &snapshot.states[job].gpus, job});
  }
  for (const Decision::Start& start : decision.start) {
    const double duration = duration_s(snapshot, start.job, start.gpus);
    ends.push_back({snapshot.now_s + duration, &start.gpus, start.job});
  }
  std::ranges::stable_sort(ends, {}, &End::end_s);
  Timeline times{{.from_s = snapshot.now_s, .free = *room_}};
  for (const End& end : ends) {
    if (end.end_s > times.back().from_s) {
      times.push_back({.from_s = end.end_s, .free = times.back().free});
    }
    times.back().free.give_back(*end.gpus, snapshot.jobs[end.job].demand);
  }
  return times;
}

void Backfill::decide(const Snapshot& snapshot, Decision& decision) {
  for (const JobIndex job : snapshot.arrived) {
    if (snapshot.runs(job)) {
      running_.push_back(job);
    } else {
      waiting_.push_back(job);
    }
    const Demand& demand = snapshot.jobs[job].demand;
    any_small_ = any_small_ || demand.gpus == 0 || demand.shares_gpus();
  }
  if (!snapshot.ended.empty()) {
    std::erase_if(running_,
                  [&](JobIndex job) { return snapshot.states[job].phase == JobPhase::kEnded; });
  }
  room_ = *snapshot.free;
  while (!waiting_.empty()) {
    std::optional<GpuSet> gpus = room_->take_together(snapshot.jobs[waiting_.front()].demand);
    if (!gpus) break;
    decision.start.push_back({.job = waiting_.front(), .gpus = *std::move(gpus)});
    waiting_.pop_front();
  }
  if (waiting_.size() > 1) overtake(snapshot, decision);
  for (const Decision::Start& start : decision.start) running_.push_back(start.job);
}

/// EASY: a job overtakes if the first one does not start later for it. It ends before that, or has
/// GPUs which the first one will not get.
class Easy final : public Backfill {
  void overtake(const Snapshot& snapshot, Decision& decision) override {
    Timeline times = timeline(snapshot, decision);
    const Demand& first = snapshot.jobs[waiting_.front()].demand;
    const auto at = std::ranges::find_if(
        times, [&](Availability& time) { return time.free.take_together(first).has_value(); });
    if (at == times.end()) return;  // It never fits; the driver says so.
    FreeResources both = *room_;
    both.keep_what_is_also_in(at->free);
    for (auto next = waiting_.begin() + 1; next != waiting_.end() && may_start(*room_);) {
      const Demand& demand = snapshot.jobs[*next].demand;
      std::optional<GpuSet> gpus = room_->take_together(demand);
      const bool ends_before =
          gpus && snapshot.now_s + duration_s(snapshot, *next, *gpus) <= at->from_s;
      if (gpus && !ends_before) {
        room_->give_back(*gpus, demand);
        gpus = both.take_together(demand);
        if (gpus) GPEMU_CHECK(room_->take(*gpus, demand), "what is free is not free");
      } else if (gpus) {
        both = *room_;
        both.keep_what_is_also_in(at->free);
      }
      if (!gpus) {
        ++next;
        continue;
      }
      decision.start.push_back({.job = *next, .gpus = *std::move(gpus)});
      next = waiting_.erase(next);
    }
  }
};

/// Conservative backfilling: a job overtakes only if no other starts later for it. Each has GPUs
/// reserved from the first time on from which it can have them until its end.
class Conservative final : public Backfill {
  /// Reserves GPUs for the job. Returns them if that is from now on.
  std::optional<GpuSet> reserve(const Snapshot& snapshot, JobIndex job, Timeline& times);

  std::optional<FreeResources> all_along_;  ///< free from one time to another.

  void overtake(const Snapshot& snapshot, Decision& decision) override {
    Timeline times = timeline(snapshot, decision);
    std::size_t looked_at = 0;
    for (auto next = waiting_.begin();
         next != waiting_.end() && looked_at < kMostReservations && may_start(times.front().free);
         ++looked_at) {
      std::optional<GpuSet> gpus = reserve(snapshot, *next, times);
      if (!gpus) {
        ++next;
        continue;
      }
      decision.start.push_back({.job = *next, .gpus = *std::move(gpus)});
      next = waiting_.erase(next);
    }
  }
};

std::optional<GpuSet> Conservative::reserve(const Snapshot& snapshot, JobIndex job,
                                            Timeline& times) {
  const Demand& demand = snapshot.jobs[job].demand;
  for (std::size_t from = 0; from < times.size(); ++from) {
    if (!demand.shares_gpus() && times[from].free.count() < demand.gpus) continue;
    all_along_ = times[from].free;
    std::optional<GpuSet> gpus = all_along_->take_together(demand);
    if (!gpus) continue;
    const double end_s = times[from].from_s + duration_s(snapshot, job, *gpus);
    all_along_ = times[from].free;
    std::size_t to = from + 1;
    for (; to < times.size() && times[to].from_s < end_s; ++to) {
      all_along_->keep_what_is_also_in(times[to].free);
    }
    gpus = all_along_->take_together(demand);
    // Other GPUs may be slower; then it starts later.
    if (!gpus || times[from].from_s + duration_s(snapshot, job, *gpus) > end_s) continue;
    if (to == times.size() || times[to].from_s > end_s) {
      times.insert(times.begin() + static_cast<std::ptrdiff_t>(to),
                   {.from_s = end_s, .free = times[to - 1].free});
    }
    for (std::size_t i = from; i < to; ++i) {
      GPEMU_CHECK(times[i].free.take(*gpus, demand), "what is free is not free");
    }
    if (from == 0) return gpus;
    return std::nullopt;
  }
  return std::nullopt;  // It never fits; the driver says so.
}

}  // namespace

std::unique_ptr<Policy> make_conservative(const PolicySettings& /*settings*/) {
  return std::make_unique<Conservative>();
}

std::unique_ptr<Policy> make_easy(const PolicySettings& /*settings*/) {
  return std::make_unique<Easy>();
}

}  // namespace gpemu::scheduling
