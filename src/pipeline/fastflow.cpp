// SPDX-License-Identifier: Apache-2.0
#include "gpemu/pipeline/fastflow.hpp"

#include <algorithm>

namespace gpemu::pipeline {
namespace {

/// The GPU must be this many times as fast as the local pipeline. Source: the paper's threshold of
/// a CPU bottleneck.
constexpr double kBottleneck = 1.3;

}  // namespace

FastFlowDecision decide_offloading(const FastFlowProfile& profile) {
  const double gpu = profile.gpu_steps_per_s;
  const double local = profile.local_steps_per_s;
  if (profile.cuts.empty() || gpu <= kBottleneck * local) return {};
  const auto rate_of = [local](const CutPoint& cut) {
    return cut.remote_steps_per_s + local * (1 - cut.receive_share);
  };
  const auto best = std::ranges::max_element(profile.cuts, {}, rate_of);
  FastFlowDecision decision{.offloads = true,
                            .cut = static_cast<std::size_t>(best - profile.cuts.begin())};
  const double remote = best->remote_steps_per_s;
  if (local + remote < gpu) {
    decision.local_share = local / (local + remote);
  } else {
    // (gpu - offloaded) steps and the receipt of those offloaded take all of the local rate.
    const double offloaded = (gpu - local) / (1 - best->receive_share);
    decision.local_share = std::max(0.0, (gpu - offloaded) / gpu);
  }
  return decision;
}

}  // namespace gpemu::pipeline
