// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpemu/step/step_cost.hpp"

namespace gpemu::step {

inline profile::Curve curve_for_test(profile::Quantity quantity,
                                     std::vector<profile::CurvePoint> points) {
  return {.key = {"toynet", "TOY", "fp32", quantity},
          .pack = "test",
          .points = std::move(points),
          .p90_relative_error = 0.02};
}

/// A model with 3 x 8 x 16 inputs on a GPU of 1000 MiB that copies 1.536 GB/s, so that one sample
/// takes 1 us. Times are in ms and memory in MiB of batches 1, 8, 16 and 32.
inline StepEvidence evidence_for_test() {
  using profile::Quantity;
  StepEvidence known;
  known.gpu.name = "TOY";
  known.gpu.memory_bytes = 1000 * kMiB;
  known.gpu.pinned_copy_bytes_per_s = 1.536e9;
  known.model = {.name = "toynet", .parameters = 1000, .input_shape = {3, 8, 16}, .pack = "test"};
  known.precision = "fp32";
  known.curves = {
      curve_for_test(Quantity::kForward, {{1, 10}, {8, 10}, {16, 18}, {32, 34}}),
      curve_for_test(Quantity::kBackwardOptimizer, {{1, 20}, {8, 20}, {16, 36}, {32, 68}}),
      curve_for_test(Quantity::kInputCopyPageable, {{1, 0.5}, {8, 4}, {16, 8}, {32, 16}}),
      curve_for_test(Quantity::kPeakMemory, {{1, 110}, {8, 180}, {16, 260}, {32, 420}}),
      curve_for_test(Quantity::kPersistentMemory, {{1, 60}, {8, 60}, {16, 60}, {32, 60}})};
  return known;
}

}  // namespace gpemu::step
