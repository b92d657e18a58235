// SPDX-License-Identifier: Apache-2.0
#include "gpemu/scheduling/policy.hpp"

#include <algorithm>

namespace gpemu::scheduling {
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
