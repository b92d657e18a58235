// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include "gpemu/base/units.hpp"
#include "gpemu/profile/gpu_spec.hpp"

namespace gpemu::cost {

/// What a kind of GPU adds to the time that the bytes of a copy between host and device take.
struct CopyCost {
  Duration latency;       ///< from a copy's start to its first byte.
  double pageable_share;  ///< the rate of a pageable copy as a share of a pinned one's.
};

[[nodiscard]] inline CopyCost copy_cost(const profile::GpuSpec& spec) {
  return {.latency = std::chrono::nanoseconds(spec.generation.copy_latency_ns),
          .pageable_share = spec.generation.pageable_share};
}

}  // namespace gpemu::cost
