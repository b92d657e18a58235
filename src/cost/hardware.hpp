// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "gpemu/operation.h"
#include "gpemu/profile/gpu_spec.hpp"

namespace gpemu::cost {

/// Returns a size of an operation; 0 for a negative one.
[[nodiscard]] inline double entry(const gpemu_operation& operation, int index) {
  return static_cast<double>(std::max<std::int64_t>(operation.shape[index], 0));
}

/// Returns the type in which an operation calculates.
[[nodiscard]] inline gpemu_data_type arithmetic_type(const gpemu_operation& operation) {
  return operation.compute_type == GPEMU_TYPE_UNKNOWN ? operation.type : operation.compute_type;
}

/// Returns how many real products one of this type takes: four if it is complex.
[[nodiscard]] inline double arithmetic_factor(gpemu_data_type type) {
  return type == GPEMU_TYPE_COMPLEX64 || type == GPEMU_TYPE_COMPLEX128 ? 4 : 1;
}

/// Returns whether numbers of this type have 16 bits or less.
[[nodiscard]] inline bool is_half_type(gpemu_data_type type) {
  return type == GPEMU_TYPE_FP16 || type == GPEMU_TYPE_BF16 || type == GPEMU_TYPE_FP8 ||
         type == GPEMU_TYPE_INT8;
}

/// The rate of a type's arithmetic.
struct Peak {
  double flops = 0;  ///< per second.
  bool tensor_cores = false;
};

/// A type for which a GPU has no tensor cores is computed at its FP32 rate.
[[nodiscard]] Peak peak_of(gpemu_data_type type, const profile::GpuSpec& spec);

/// The same for products of matrices: a board that reaches its power limit lowers its clock. Not
/// for convolutions: published steps of ResNet-50 on T4 (evidence/published/scaling/resnet50.csv)
/// take half as long as at the clock of T4's products. Nor are there more of them than boards are
/// reported to do.
[[nodiscard]] Peak sustained_peak_of(gpemu_data_type type, const profile::GpuSpec& spec);

/// The L2 cache serves all of what an operation touches if that is at most the first share of it,
/// and nothing from the second on. Source: evidence/ours/h200/raw.csv, copies and sums of 1 KiB to
/// 1 GiB.
inline constexpr double kAllCached = 0.7;
inline constexpr double kNoneCached = 0.95;

/// Returns the part of an operation's bytes that the L2 cache serves, if it touches so many.
[[nodiscard]] inline double cached_part(double bytes, const profile::GpuSpec& spec) {
  const double share = bytes / static_cast<double>(std::max<Bytes>(spec.l2_cache_bytes, 1));
  return std::clamp((kNoneCached - share) / (kNoneCached - kAllCached), 0.0, 1.0);
}

}  // namespace gpemu::cost
