// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

namespace gpemu::pipeline {

/// A place at which a pipeline can be cut: what comes before it is prepared elsewhere.
struct CutPoint {
  double remote_steps_per_s = 0;  ///< that all remote workers prepare.
  double receive_share = 0;  ///< local work for a received step, of that for a step prepared here.
};

/// What FastFlow measures before it decides.
struct FastFlowProfile {
  double gpu_steps_per_s = 0;    ///< of the model, on a batch that is there.
  double local_steps_per_s = 0;  ///< of the local pipeline.
  std::span<const CutPoint> cuts;
};

/// Where FastFlow cuts the pipeline, and which share of the steps stays local.
struct FastFlowDecision {
  bool offloads = false;
  std::size_t cut = 0;  ///< the index of the cut, if it offloads.
  double local_share = 1;

  bool operator==(const FastFlowDecision&) const = default;
};

/// Decides as FastFlow does:
///
/// * The pipeline stays local unless the GPU is more than 1.3 times as fast as it.
/// * The cut is that with the largest sum of the remote rate and the local rate that it leaves.
/// * If both rates together do not reach the GPU's, each gets its part of the steps. Else only as
///   many steps are offloaded as the GPU needs, with the local work that receiving them takes.
///
/// Source: Um et al., "FastFlow: accelerating deep learning model training with smart offloading of
/// input data pipeline", VLDB 2023.
/// Requires: rates above zero; shares in [0, 1).
[[nodiscard]] FastFlowDecision decide_offloading(const FastFlowProfile& profile);

}  // namespace gpemu::pipeline
