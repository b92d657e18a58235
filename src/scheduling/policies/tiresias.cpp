// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "policies/policies.hpp"

namespace gpemu::scheduling {
namespace {

/// The service (GPUs x seconds) with which a job leaves a queue for the next one.
/// Source: queue_limit of Tiresias's and Muri's simulators (jobs.py).
constexpr std::array<double, 2> kQueueLimits{3250, 7200};

/// Discretized least attained service in two dimensions (Tiresias, NSDI'19): the more service a job
/// has had, the later its queue. A queue runs what fits in order of when its jobs last began to run
/// or to wait; jobs that run come first. GPUs count, wherever they are.
class Tiresias final : public Policy {
 public:
  void decide(const Snapshot& snapshot, Decision& decision) override {
    note_changes(snapshot);
    choose(snapshot, decision);
    for (Queue& queue : queues_) std::ranges::stable_partition(queue, &Entry::runs);
    decision.ask_again_s = next_demotion_s(snapshot);
    assign(snapshot, decision);
  }

 private:
  struct Entry {
    JobIndex job = 0;
    bool runs = false;
  };
  using Queue = std::vector<Entry>;

  void note_changes(const Snapshot& snapshot);
  void demote(const Snapshot& snapshot);
  void choose(const Snapshot& snapshot, Decision& decision);
  void assign(const Snapshot& snapshot, Decision& decision);
  [[nodiscard]] double next_demotion_s(const Snapshot& snapshot) const;

  std::array<Queue, kQueueLimits.size() + 1> queues_;
  std::vector<JobIndex> starting_;
  std::optional<FreeResources> room_;
};

void Tiresias::note_changes(const Snapshot& snapshot) {
  if (!snapshot.ended.empty()) {
    for (Queue& queue : queues_) {
      std::erase_if(queue, [&](const Entry& entry) {
        return snapshot.states[entry.job].phase == JobPhase::kEnded;
      });
    }
  }
  for (const JobIndex job : snapshot.arrived) {
    const double service = snapshot.held_s(job) * snapshot.jobs[job].demand.gpus;
    const auto* const limit = std::ranges::upper_bound(kQueueLimits, service);
    queues_[static_cast<std::size_t>(limit - kQueueLimits.begin())].push_back(
        {.job = job, .runs = snapshot.runs(job)});
  }
  demote(snapshot);
}

void Tiresias::demote(const Snapshot& snapshot) {
  std::array<Queue, kQueueLimits.size()> leaving;
  for (std::size_t q = 0; q < kQueueLimits.size(); ++q) {
    const auto leaves = [&](const Entry& entry) {
      return entry.runs &&
             snapshot.held_s(entry.job) * snapshot.jobs[entry.job].demand.gpus >= kQueueLimits[q];
    };
    std::ranges::copy_if(queues_[q], std::back_inserter(leaving[q]), leaves);
    std::erase_if(queues_[q], leaves);
    // In the order of arrival, which is that of the jobs' indices.
    std::ranges::sort(leaving[q], {}, &Entry::job);
  }
  for (std::size_t q = 0; q < kQueueLimits.size(); ++q) {
    queues_[q + 1].insert(queues_[q + 1].end(), leaving[q].begin(), leaving[q].end());
  }
}

void Tiresias::choose(const Snapshot& snapshot, Decision& decision) {
  std::uint64_t room = snapshot.fleet->gpus();
  starting_.clear();
  for (Queue& queue : queues_) {
    for (Entry& entry : queue) {
      const bool fits = snapshot.jobs[entry.job].demand.gpus <= room;
      if (fits) room -= snapshot.jobs[entry.job].demand.gpus;
      if (fits && !entry.runs) starting_.push_back(entry.job);
      if (!fits && entry.runs) decision.preempt.push_back(entry.job);
      entry.runs = fits;
    }
  }
}

void Tiresias::assign(const Snapshot& snapshot, Decision& decision) {
  if (starting_.empty()) return;
  room_ = *snapshot.free;
  for (const JobIndex job : decision.preempt)
    room_->give_back(snapshot.states[job].gpus, snapshot.jobs[job].demand);
  for (const JobIndex job : starting_) {
    std::optional<GpuSet> gpus = room_->take_anywhere(snapshot.jobs[job].demand.gpus);
    GPEMU_CHECK(gpus.has_value(), "the jobs that run need more GPUs than there are");
    decision.start.push_back({.job = job, .gpus = *std::move(gpus)});
  }
}

/// A job's service reaches its limit in whole seconds of running, as in Tiresias's simulator, so
/// that jobs with several GPUs are demoted up to a second later.
double Tiresias::next_demotion_s(const Snapshot& snapshot) const {
  double next_s = kNever;
  for (std::size_t q = 0; q < kQueueLimits.size(); ++q) {
    for (const Entry& entry : queues_[q]) {
      if (!entry.runs) break;  // Those that run come first.
      const double limit_s = std::ceil(kQueueLimits[q] / snapshot.jobs[entry.job].demand.gpus);
      next_s = std::min(next_s, limit_s - snapshot.held_s(entry.job) + snapshot.now_s);
    }
  }
  // What is missing may be less than the least difference between times.
  return std::max(next_s, std::nextafter(snapshot.now_s, kNever));
}

}  // namespace

std::unique_ptr<Policy> make_tiresias(const PolicySettings& /*settings*/) {
  return std::make_unique<Tiresias>();
}

}  // namespace gpemu::scheduling
