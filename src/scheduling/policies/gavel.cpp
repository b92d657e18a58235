// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "policies/policies.hpp"
#include "policies/time_fractions.hpp"

namespace gpemu::scheduling {
namespace {

// Source of these: the default values in scheduler/scheduler.py of
// github.com/stanford-futuredata/gavel.
constexpr double kRoundS = 360;
/// New fractions are computed after so many rounds at the earliest: 1,920 s.
constexpr double kRoundsBetweenFractions = 1920 / kRoundS;
/// A job counts as if it had been on each kind for this share of a round.
constexpr double kHeadStart = 0.5;

/// How a policy of Gavel differs from the others.
struct Kind {
  TimeFractions (*fractions)(std::span<const double> gpus, std::span<const TimeDemand> jobs);
  bool blind = false;        ///< it does not know which kind is how fast.
  bool leaves_idle = false;  ///< jobs without a fraction do not get what is left over.
};

/// Gavel (OSDI'20): when jobs have arrived or ended, each job gets a fraction of the time on each
/// kind of GPU. In rounds, those run that have had the least of their fraction.
class Gavel final : public Policy {
 public:
  Gavel(const Kind& kind, double round_s) : kind_(kind), round_s_(round_s) {}

  void decide(const Snapshot& snapshot, Decision& decision) override;

 private:
  /// A job's time on a kind. Units: seconds.
  struct Share {
    double fraction = 0;
    double received_s = 0;  ///< since the fractions were computed, and the head start.
    double missed_s = 0;    ///< what it did not get of earlier fractions.
  };
  struct Active {
    JobIndex job = 0;
    TimeDemand demand;
    std::vector<Share> shares;      ///< by kind.
    double held_s = 0;              ///< at the begin of the round.
    std::optional<std::size_t> on;  ///< the kind that it has.
    std::optional<GpuSet> gpus;     ///< what it is to have in the next round.
    std::size_t next_on = 0;        ///< the kind of these.
  };
  /// A job that may have GPUs of a kind, sorted by whose turn it is.
  struct Turn {
    double priority = 0;
    double missed_s = 0;
    double fraction = 0;
    std::size_t place = 0;  ///< in active_.
  };

  void note_changes(const Snapshot& snapshot);
  [[nodiscard]] Active active(const Snapshot& snapshot, JobIndex job) const;
  [[nodiscard]] static Demand demand_on(const Snapshot& snapshot, JobIndex job, std::size_t kind);
  /// Adds to what each job has received the time since the last round.
  void note_times(const Snapshot& snapshot);
  void renew_fractions(const Snapshot& snapshot);
  [[nodiscard]] std::vector<Turn> turns_on(std::size_t kind) const;
  /// Gives GPUs to the jobs whose turn it is.
  void choose(const Snapshot& snapshot);
  /// Lets those that run have the GPUs that they have, if the others fit beside them.
  void avoid_moves(const Snapshot& snapshot);
  void fill(const Snapshot& snapshot, Decision& decision);

  Kind kind_;
  double round_s_;
  double next_round_s_ = 0;
  std::uint64_t rounds_ = 0;
  double renewed_s_ = 0;  ///< when the fractions were computed.
  bool changed_ = false;  ///< jobs have arrived or ended since.
  std::vector<double> gpus_;
  std::vector<Active> active_;  ///< those that wait or run, in the order of arrival.
};

Gavel::Active Gavel::active(const Snapshot& snapshot, JobIndex job) const {
  const Job& asked = snapshot.jobs[job];
  Active made;
  made.job = job;
  made.demand.gpus = asked.demand.gpus;
  for (std::size_t kind = 0; kind < gpus_.size(); ++kind) {
    const bool may = (asked.demand.kinds >> kind & 1U) != 0 && asked.demand.gpus <= gpus_[kind];
    made.demand.speeds.push_back(may ? 1 / asked.iteration_s_on(kind) : 0);
    made.shares.push_back({.received_s = kHeadStart * round_s_});
  }
  return made;
}

void Gavel::note_changes(const Snapshot& snapshot) {
  if (!snapshot.ended.empty()) {
    std::erase_if(active_, [&](const Active& active) {
      return snapshot.states[active.job].phase == JobPhase::kEnded;
    });
  }
  for (const JobIndex job : snapshot.arrived) {
    active_.push_back(active(snapshot, job));
    if (!snapshot.runs(job)) continue;
    active_.back().on = snapshot.fleet->kind_of(snapshot.states[job].gpus.part(0).server);
    active_.back().held_s = snapshot.held_s(job);
  }
  changed_ = changed_ || !snapshot.ended.empty() || !snapshot.arrived.empty();
}

Demand Gavel::demand_on(const Snapshot& snapshot, JobIndex job, std::size_t kind) {
  Demand demand = snapshot.jobs[job].demand;
  demand.kinds = std::uint64_t{1} << kind;
  return demand;
}

void Gavel::note_times(const Snapshot& snapshot) {
  for (Active& active : active_) {
    const double held_s = snapshot.held_s(active.job);
    if (active.on) active.shares[*active.on].received_s += held_s - active.held_s;
    active.held_s = held_s;
  }
}

void Gavel::renew_fractions(const Snapshot& snapshot) {
  const double since_s = snapshot.now_s - renewed_s_;
  std::vector<TimeDemand> demands;
  for (Active& active : active_) {
    active.demand.iterations_left = snapshot.iterations_left(active.job);
    demands.push_back(active.demand);
  }
  const TimeFractions fractions = kind_.fractions(gpus_, demands);
  const double head_start_s = kHeadStart * round_s_;
  for (std::size_t i = 0; i < active_.size(); ++i) {
    for (std::size_t kind = 0; kind < gpus_.size(); ++kind) {
      Share& share = active_[i].shares[kind];
      share.missed_s += share.fraction * since_s - (share.received_s - head_start_s);
      share.received_s = head_start_s;
      share.fraction = fractions[i][kind];
    }
  }
  renewed_s_ = snapshot.now_s;
  changed_ = false;
}

std::vector<Gavel::Turn> Gavel::turns_on(std::size_t kind) const {
  std::vector<Turn> turns;
  for (std::size_t i = 0; i < active_.size(); ++i) {
    const Active& active = active_[i];
    const Share& share = active.shares[kind];
    const bool is_idle = kind_.leaves_idle && share.fraction <= 0;
    if (active.gpus || active.demand.speeds[kind] == 0 || is_idle) continue;
    turns.push_back({.priority = share.fraction / share.received_s,
                     .missed_s = share.missed_s,
                     .fraction = share.fraction,
                     .place = i});
  }
  std::ranges::stable_sort(turns, [](const Turn& a, const Turn& b) {
    if (a.priority != b.priority) return a.priority > b.priority;
    if (a.missed_s != b.missed_s) return a.missed_s > b.missed_s;
    return a.fraction > b.fraction;
  });
  return turns;
}

void Gavel::choose(const Snapshot& snapshot) {
  FreeResources room(*snapshot.fleet);
  for (Active& active : active_) active.gpus.reset();
  // A blind policy begins with each kind in turn.
  const std::uint64_t first = kind_.blind ? rounds_ : 0;
  for (std::size_t i = 0; i < gpus_.size(); ++i) {
    const std::size_t kind = (first + i) % gpus_.size();
    double left = gpus_[kind];
    for (const Turn& turn : turns_on(kind)) {
      Active& active = active_[turn.place];
      if (active.demand.gpus > left) continue;
      active.gpus = room.take_together(demand_on(snapshot, active.job, kind));
      if (!active.gpus) continue;
      active.next_on = kind;
      left -= active.demand.gpus;
    }
  }
}

void Gavel::avoid_moves(const Snapshot& snapshot) {
  FreeResources room(*snapshot.fleet);
  std::vector<std::pair<Active*, GpuSet>> places;
  std::vector<Active*> others;
  for (Active& active : active_) {
    if (!active.gpus) continue;
    const JobState& state = snapshot.states[active.job];
    if (state.phase == JobPhase::kRunning && active.on == active.next_on) {
      GPEMU_CHECK(room.take(state.gpus, snapshot.jobs[active.job].demand), "two jobs have a GPU");
      places.emplace_back(&active, state.gpus);
    } else {
      others.push_back(&active);
    }
  }
  std::ranges::stable_sort(others, std::ranges::greater{},
                           [](const Active* active) { return active->demand.gpus; });
  for (Active* const active : others) {
    std::optional<GpuSet> gpus =
        room.take_together(demand_on(snapshot, active->job, active->next_on));
    if (!gpus) return;
    places.emplace_back(active, *std::move(gpus));
  }
  for (auto& [active, gpus] : places) active->gpus = std::move(gpus);
}

void Gavel::fill(const Snapshot& snapshot, Decision& decision) {
  for (Active& active : active_) {
    const JobState& state = snapshot.states[active.job];
    active.on.reset();
    if (active.gpus) {
      active.on = active.next_on;
      if (state.gpus != *active.gpus) {
        decision.start.push_back({.job = active.job, .gpus = *active.gpus});
      }
    } else if (state.phase == JobPhase::kRunning) {
      decision.preempt.push_back(active.job);
    }
  }
}

void Gavel::decide(const Snapshot& snapshot, Decision& decision) {
  if (gpus_.empty()) {
    const std::vector<std::uint32_t>& gpus = snapshot.fleet->gpus_by_kind();
    gpus_.assign(gpus.begin(), gpus.end());
  }
  note_changes(snapshot);
  const auto runs = [](const Active& active) { return active.on.has_value(); };
  const bool any_runs = std::ranges::any_of(active_, runs);
  if (any_runs && snapshot.now_s < next_round_s_) {
    decision.ask_again_s = next_round_s_;
    return;
  }
  note_times(snapshot);
  const bool may_renew = snapshot.now_s >= renewed_s_ + kRoundsBetweenFractions * round_s_;
  // In the first round, the fractions are not known, though jobs may run: another object's.
  if (changed_ && (may_renew || !any_runs || rounds_ == 0)) renew_fractions(snapshot);
  choose(snapshot);
  avoid_moves(snapshot);
  fill(snapshot, decision);
  ++rounds_;
  next_round_s_ = snapshot.now_s + round_s_;
  if (std::ranges::any_of(active_, runs)) decision.ask_again_s = next_round_s_;
}

std::unique_ptr<Policy> gavel(const Kind& kind, const PolicySettings& settings) {
  return std::make_unique<Gavel>(kind, settings.round_s.value_or(kRoundS));
}

}  // namespace

std::unique_ptr<Policy> make_gavel_fifo(const PolicySettings& settings) {
  return gavel({.fractions = fifo_fractions, .leaves_idle = true}, settings);
}

std::unique_ptr<Policy> make_gavel_makespan(const PolicySettings& settings) {
  return gavel({.fractions = makespan_fractions}, settings);
}

std::unique_ptr<Policy> make_gavel_max_min(const PolicySettings& settings) {
  return gavel({.fractions = max_min_fractions}, settings);
}

std::unique_ptr<Policy> make_max_min(const PolicySettings& settings) {
  return gavel({.fractions = blind_max_min_fractions, .blind = true}, settings);
}

}  // namespace gpemu::scheduling
