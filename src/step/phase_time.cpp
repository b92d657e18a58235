// SPDX-License-Identifier: Apache-2.0
#include "gpemu/step/phase_time.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string_view>

#include "gpemu/step/host_times.hpp"

namespace gpemu::step {
Result<std::vector<Phase>> step_phases(const Recording& recording) {
  constexpr std::array<std::string_view, 2> kNames = {"forward", "backward"};
  std::vector<Phase> step;
  for (const std::string_view name : kNames) {
    const auto found = std::ranges::find(recording.phases, name, &RecordedPhase::name);
    if (found == recording.phases.end()) {
      return fail(ErrorCode::kInvalidArgument, "the recording of {} has no phase {}",
                  recording.model, name);
    }
    Phase& phase = step.emplace_back();
    for (std::size_t i = 0; i < found->operations.size(); ++i) {
      const auto at = [&](std::size_t place) {
        return place < found->operations.size() ? &recording.operations[found->operations[place]]
                                                : nullptr;
      };
      const int cost =
          host_cost(*at(i), {.previous = at(i - 1), .next = at(i + 1)}, name == kNames[0]);
      phase.push_back({.operation = found->operations[i], .host_cost = cost});
    }
  }
  return step;
}

double phase_seconds(std::span<const double> launches, std::span<const double> operations,
                     std::size_t* critical) {
  double device = std::accumulate(operations.begin(), operations.end(), 0.0);
  double host = 0, longest = 0;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    host += launches[i];
    if (host + device > longest) {
      longest = host + device;
      if (critical != nullptr) *critical = i;
    }
    device -= operations[i];
  }
  return longest;
}

double PhaseTimes::seconds(const PhaseScale& scale) const {
  std::vector<double> host = launches, device = operations;
  for (double& time : host) time *= scale.host;
  for (double& time : device) time *= scale.device;
  return phase_seconds(host, device) + scale.host * wait;
}

PhaseScale scale_to(const PhaseTimes& phase, double measured) {
  std::size_t critical = 0;
  const double running = phase_seconds(phase.launches, phase.operations, &critical);
  const auto gap = phase.launches.begin() +
                   static_cast<std::ptrdiff_t>(std::min(critical + 1, phase.launches.size()));
  const double host =
      (std::accumulate(phase.launches.begin(), gap, 0.0) + phase.wait) / (running + phase.wait);
  const auto at = [&](double change) {
    return PhaseScale{.host = std::exp(change * host), .device = std::exp(change * (1 - host))};
  };
  // A phase takes longer if its parts do. One part has a share of at least a half.
  const double furthest = 2 * std::abs(std::log(measured / phase.seconds())) + 1;
  constexpr int kHalvings = 40;
  double low = -furthest, high = furthest;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    (phase.seconds(at(middle)) < measured ? low : high) = middle;
  }
  return at((low + high) / 2);
}

double corrected_seconds(const PhaseTimes& phase, const PhaseScale& scale, double doublings) {
  const double share = (1 + std::exp2(-doublings)) / 2;
  return std::pow(phase.seconds(), 1 - share) * std::pow(phase.seconds(scale), share);
}

}  // namespace gpemu::step
