// SPDX-License-Identifier: Apache-2.0
#include "gpemu/scheduling/policy.hpp"

#include <algorithm>
#include <cmath>

namespace gpemu::scheduling {
double next_round_after(double now_s, double round_s) {
  double round = std::floor(now_s / round_s) + 1;
  // The quotient may have been rounded down to the number of this very round.
  while (round * round_s <= now_s) ++round;
  return round * round_s;
}

double first_round_s(const Snapshot& snapshot, double round_s) {
  const bool takes_over =
      std::ranges::any_of(snapshot.arrived, [&](JobIndex job) { return snapshot.runs(job); });
  return takes_over ? next_round_after(snapshot.now_s, round_s) : 0;
}

double Snapshot::iterations_left(JobIndex job) const {
  const JobState& state = states[job];
  if (state.phase != JobPhase::kRunning) return state.iterations_left;
  const double since_s = now_s - std::max(state.as_of_s, state.progress_from_s);
  if (since_s <= 0) return state.iterations_left;
  return state.iterations_left - since_s / state.iteration_s;
}

double Snapshot::end_s(JobIndex job) const {
  const JobState& state = states[job];
  return std::max(state.as_of_s, state.progress_from_s) + state.iterations_left * state.iteration_s;
}

double Snapshot::held_s(JobIndex job) const {
  const JobState& state = states[job];
  // Adding and subtracting the time would round.
  if (state.phase != JobPhase::kRunning || state.as_of_s == now_s) return state.held_s;
  return state.held_s + now_s - state.as_of_s;
}

void Decision::clear() {
  preempt.clear();
  start.clear();
  ask_again_s = kNever;
}

}  // namespace gpemu::scheduling
