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

/// Source: 5 to 10 us is commonly measured for small cudaMemcpy calls over PCIe. GPEmu (VLDB 2025)
/// measured 4 to 6 GB/s, and 12 with pinned memory.
inline constexpr CopyCost kUsualCopy = {.latency = std::chrono::microseconds(6),
                                        .pageable_share = 0.42};

/// Source: an H200 on PCIe 5.0 (tools/measure/measure_sharing.py, 2026-11-26). A copy of 64 KiB
/// took 4.7 us beside others in a stream, its bytes 1.2 us of that; pageable copies had 17.6 GB/s
/// to the device and 16.7 from it, pinned ones 55.4 and 55.3.
inline constexpr CopyCost kHopperCopy = {.latency = Duration(3500), .pageable_share = 0.31};

[[nodiscard]] inline const CopyCost& copy_cost(const profile::GpuSpec& spec) {
  constexpr int kHopper = 9;
  return spec.compute_capability_major == kHopper ? kHopperCopy : kUsualCopy;
}

}  // namespace gpemu::cost
