// SPDX-License-Identifier: Apache-2.0
#include "gpemu/scheduling/ranked_policy.hpp"

#include <algorithm>
#include <cmath>
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

/// The waiting jobs in order, without those of classes that are full.
class RankedPolicy::Walk {
 public:
  explicit Walk(std::vector<Class>& classes) {
    for (Class& same : classes) {
      same.full = false;
      if (!same.waiting.empty()) heads_.push_back({.next = same.waiting.begin(), .same = &same});
    }
  }

  /// Returns the first job; null if there is none.
  [[nodiscard]] const Ranked* first() {
    std::erase_if(heads_, [](const Head& head) { return head.same->full; });
    first_ = 0;
    for (std::size_t i = 1; i < heads_.size(); ++i) {
      if (*heads_[i].next < *heads_[first_].next) first_ = i;
    }
    return heads_.empty() ? nullptr : &*heads_[first_].next;
  }

  /// Goes on behind the job that first() returned.
  void advance() {
    if (++heads_[first_].next == heads_[first_].same->waiting.end()) {
      heads_.erase(heads_.begin() + static_cast<std::ptrdiff_t>(first_));
    }
  }

 private:
  struct Head {
    std::set<Ranked>::const_iterator next;
    Class* same = nullptr;
  };
  std::vector<Head> heads_;
  std::size_t first_ = 0;
};

void RankedPolicy::add_to_class(const Snapshot& snapshot, JobIndex job) {
  const Demand& demand = snapshot.jobs[job].demand;
  const auto [found, is_new] =
      class_by_demand_.try_emplace(demand, static_cast<std::uint32_t>(classes_.size()));
  if (is_new) classes_.push_back({.demand = demand});
  any_small_ = any_small_ || demand.gpus == 0 || demand.shares_gpus();
  if (class_of_.size() <= job) class_of_.resize(job + 1);
  class_of_[job] = found->second;
}

void RankedPolicy::rank_waiting(const Snapshot& snapshot) {
  for (Class& same : classes_) {
    const std::set<Ranked> before = std::exchange(same.waiting, {});
    for (Ranked ranked : before) {
      const double now = rank(snapshot, ranked.job);
      if (now != ranked.rank) ranked = {.rank = now, .since = ++changes_, .job = ranked.job};
      same.waiting.insert(ranked);
    }
  }
}

void RankedPolicy::note_changes(const Snapshot& snapshot) {
  if (has_new_ranks(snapshot)) rank_waiting(snapshot);
  if (!snapshot.ended.empty() && !kept_) {
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
  for (const JobIndex job : snapshot.arrived) {
    add_to_class(snapshot, job);
    const Ranked ranked{.rank = rank(snapshot, job), .since = ++changes_, .job = job};
    if (!snapshot.runs(job)) {
      class_of(job).waiting.insert(ranked);
    } else if (!kept_) {
      running_.push_back(ranked);
    }
  }
  insertion_sort(running_);
}

void RankedPolicy::choose(const Snapshot& snapshot) {
  if (!all_free_) all_free_.emplace(*snapshot.fleet);
  room_ = all_free_;
  chosen_.clear();
  passed_over_.clear();
  Walk walk(classes_);
  std::size_t next_running = 0;
  while (room_->count() != 0 || any_small_) {
    const Ranked* waiting = walk.first();
    const bool runs =
        next_running < running_.size() && (waiting == nullptr || running_[next_running] < *waiting);
    if (!runs && waiting == nullptr) break;
    const Ranked& ranked = runs ? running_[next_running] : *waiting;
    Class& same = class_of(ranked.job);
    std::optional<GpuSet> found;
    if (!same.full) found = room_->take_together(same.demand);
    if (found) {
      chosen_.push_back({.ranked = ranked, .gpus = *std::move(found), .runs = runs});
      if (!runs) walk.advance();
    } else {
      same.full = true;
      if (runs) passed_over_.push_back(ranked);
    }
    if (runs) ++next_running;
  }
  passed_over_.insert(passed_over_.end(),
                      running_.begin() + static_cast<std::ptrdiff_t>(next_running), running_.end());
}

void RankedPolicy::start_only(const Snapshot& snapshot, Decision& decision) {
  room_ = *snapshot.free;
  Walk walk(classes_);
  for (const Ranked* waiting = walk.first(); waiting != nullptr; waiting = walk.first()) {
    const Ranked ranked = *waiting;
    Class& same = class_of(ranked.job);
    std::optional<GpuSet> found = room_->take_together(same.demand);
    if (!found) {
      same.full = true;
      continue;
    }
    walk.advance();
    same.waiting.erase(ranked);
    if (!kept_) running_.push_back(ranked);
    decision.start.push_back({.job = ranked.job, .gpus = *std::move(found)});
  }
}

void RankedPolicy::avoid_moves(const Snapshot& snapshot) {
  room_ = all_free_;
  std::vector<Chosen*> starting;
  for (Chosen& chosen : chosen_) {
    if (chosen.runs) {
      const JobIndex job = chosen.ranked.job;
      GPEMU_CHECK(room_->take(snapshot.states[job].gpus, class_of(job).demand),
                  "two jobs have one GPU");
    } else {
      starting.push_back(&chosen);
    }
  }
  std::ranges::stable_sort(starting, [&](const Chosen* a, const Chosen* b) {
    return snapshot.jobs[a->ranked.job].demand.gpus > snapshot.jobs[b->ranked.job].demand.gpus;
  });
  std::vector<GpuSet> found;
  for (const Chosen* chosen : starting) {
    std::optional<GpuSet> gpus = room_->take_together(class_of(chosen->ranked.job).demand);
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
    if (!chosen.runs) class_of(chosen.ranked.job).waiting.erase(chosen.ranked);
    if (!(snapshot.states[chosen.ranked.job].gpus == chosen.gpus)) {
      decision.start.push_back({.job = chosen.ranked.job, .gpus = chosen.gpus});
    }
  }
  for (const Ranked& ranked : passed_over_) {
    decision.preempt.push_back(ranked.job);
    class_of(ranked.job).waiting.insert(ranked);
  }
}

void RankedPolicy::decide(const Snapshot& snapshot, Decision& decision) {
  note_changes(snapshot);
  if (round_s_ > 0) {
    if (!next_round_s_) next_round_s_ = first_round_s(snapshot, round_s_);
    const bool begins = snapshot.now_s >= *next_round_s_;
    if (begins) next_round_s_ = next_round_after(snapshot.now_s, round_s_);
    decision.ask_again_s = *next_round_s_;
    if (!begins) return start_only(snapshot, decision);
  }
  if (kept_) return start_only(snapshot, decision);
  choose(snapshot);
  if (!snapshot.moves_are_free) avoid_moves(snapshot);
  fill(snapshot, decision);
}

}  // namespace gpemu::scheduling
