// SPDX-License-Identifier: Apache-2.0
#include "gpemu/scheduling/ranked_policy.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace gpemu::scheduling {
namespace {

/// Sorts what is nearly sorted, as the running jobs are: their ranks fall at similar speeds.
template <typename T>
void insertion_sort(std::vector<T>& values) {
  for (std::size_t i = 1; i < values.size(); ++i) {
    if (values[i - 1] <= values[i]) continue;
    const T value = values[i];
    std::size_t to = i;
    for (; to > 0 && value < values[to - 1]; --to) values[to] = values[to - 1];
    values[to] = value;
  }
}

}  // namespace

/// The waiting jobs in order, without those that need a number of GPUs that did not fit.
class RankedPolicy::Walk {
 public:
  explicit Walk(std::map<std::uint32_t, Queue>& waiting) {
    for (auto& [gpus, queue] : waiting) {
      if (!queue.empty())
        heads_.push_back({.next = queue.begin(), .end = queue.end(), .gpus = gpus});
    }
  }

  /// Returns the first job; null if there is none.
  [[nodiscard]] const Ranked* first() {
    first_ = heads_.size();
    for (std::size_t i = 0; i < heads_.size(); ++i) {
      if (first_ == heads_.size() || *heads_[i].next < *heads_[first_].next) first_ = i;
    }
    return first_ == heads_.size() ? nullptr : &*heads_[first_].next;
  }

  /// Goes on behind the job that first() returned.
  void advance() {
    if (++heads_[first_].next == heads_[first_].end) drop(first_);
  }

  /// Leaves out the jobs that need so many GPUs.
  void leave_out(std::uint32_t gpus) {
    for (std::size_t i = 0; i < heads_.size(); ++i) {
      if (heads_[i].gpus == gpus) return drop(i);
    }
  }

 private:
  struct Head {
    Queue::const_iterator next;
    Queue::const_iterator end;
    std::uint32_t gpus = 0;
  };
  void drop(std::size_t index) {
    heads_[index] = heads_.back();
    heads_.pop_back();
  }

  std::vector<Head> heads_;
  std::size_t first_ = 0;
};

void RankedPolicy::note_changes(const Snapshot& snapshot) {
  if (!snapshot.ended.empty()) {
    std::erase_if(running_, [&](const Ranked& ranked) {
      return snapshot.states[ranked.job].phase == JobPhase::kEnded;
    });
  }
  for (Ranked& ranked : running_) {
    const double now = rank(snapshot, ranked.job);
    if (now == ranked.rank) continue;
    ranked.rank = now;
    ranked.since = ++changes_;
  }
  insertion_sort(running_);
  for (const JobIndex job : snapshot.arrived) {
    waiting_[snapshot.jobs[job].gpus].insert(
        {.rank = rank(snapshot, job), .since = ++changes_, .job = job});
  }
}

void RankedPolicy::choose(const Snapshot& snapshot) {
  if (!all_free_) all_free_.emplace(*snapshot.fleet);
  room_ = all_free_;
  chosen_.clear();
  passed_over_.clear();
  Walk walk(waiting_);
  std::size_t next_running = 0;
  std::uint64_t not_fitting = 0;  // A bit for each small number of GPUs.
  while (room_->count() != 0) {
    const Ranked* waiting = walk.first();
    const bool runs =
        next_running < running_.size() && (waiting == nullptr || running_[next_running] < *waiting);
    if (!runs && waiting == nullptr) break;
    const Ranked& ranked = runs ? running_[next_running] : *waiting;
    const std::uint32_t gpus = snapshot.jobs[ranked.job].gpus;
    const std::uint64_t bit = gpus < 64 ? std::uint64_t{1} << gpus : 0;
    std::optional<GpuSet> found;
    if ((not_fitting & bit) == 0) found = room_->take_together(gpus);
    if (found) {
      chosen_.push_back({.ranked = ranked, .gpus = *std::move(found), .runs = runs});
    } else {
      not_fitting |= bit;
      if (runs) passed_over_.push_back(ranked);
    }
    if (runs) ++next_running;
    if (!runs && found.has_value()) walk.advance();
    if (!found.has_value()) walk.leave_out(gpus);
  }
  passed_over_.insert(passed_over_.end(),
                      running_.begin() + static_cast<std::ptrdiff_t>(next_running), running_.end());
}

void RankedPolicy::avoid_moves(const Snapshot& snapshot) {
  room_ = all_free_;
  std::vector<Chosen*> starting;
  for (Chosen& chosen : chosen_) {
    if (chosen.runs) {
      GPEMU_CHECK(room_->take(snapshot.states[chosen.ranked.job].gpus), "two jobs have one GPU");
    } else {
      starting.push_back(&chosen);
    }
  }
  std::ranges::stable_sort(starting, [&](const Chosen* a, const Chosen* b) {
    return snapshot.jobs[a->ranked.job].gpus > snapshot.jobs[b->ranked.job].gpus;
  });
  std::vector<GpuSet> found;
  for (const Chosen* chosen : starting) {
    std::optional<GpuSet> gpus = room_->take_together(snapshot.jobs[chosen->ranked.job].gpus);
    if (!gpus) return;
    found.push_back(*std::move(gpus));
  }
  for (std::size_t i = 0; i < starting.size(); ++i) starting[i]->gpus = std::move(found[i]);
  for (Chosen& chosen : chosen_) {
    if (chosen.runs) chosen.gpus = snapshot.states[chosen.ranked.job].gpus;
  }
}

void RankedPolicy::fill(const Snapshot& snapshot, Decision& decision) {
  running_.clear();
  for (const Chosen& chosen : chosen_) {
    running_.push_back(chosen.ranked);
    if (!chosen.runs) waiting_[snapshot.jobs[chosen.ranked.job].gpus].erase(chosen.ranked);
    if (!(snapshot.states[chosen.ranked.job].gpus == chosen.gpus)) {
      decision.start.push_back({.job = chosen.ranked.job, .gpus = chosen.gpus});
    }
  }
  for (const Ranked& ranked : passed_over_) {
    decision.preempt.push_back(ranked.job);
    waiting_[snapshot.jobs[ranked.job].gpus].insert(ranked);
  }
}

void RankedPolicy::decide(const Snapshot& snapshot, Decision& decision) {
  note_changes(snapshot);
  choose(snapshot);
  if (!snapshot.moves_are_free) avoid_moves(snapshot);
  fill(snapshot, decision);
}

}  // namespace gpemu::scheduling
