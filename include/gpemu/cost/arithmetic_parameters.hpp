// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "gpemu/cost/estimate.hpp"
#include "gpemu/profile/gpu_spec.hpp"

namespace gpemu::cost {

/// Parameters of operation_seconds(), and their evidence if they are used as they were fitted.
struct EvidencedParameters {
  profile::OperationParameters values{};
  Evidence evidence = Evidence::kAnalytic;
  /// The bars of a step: on the GPU and in the arithmetic of these parameters, absent if too few
  /// steps tell; and on others.
  std::optional<double> calibrated_error;
  double transferred_error = 0;
};

/// The parameters of a GPU, by arithmetic.
struct ArithmeticParameters {
  EvidencedParameters own;    ///< of work without arithmetic, and of that which was measured.
  EvidencedParameters other;  ///< of the arithmetic that own is not for; FP32 if all were measured.
  EvidencedParameters half;   ///< of convolutions and products in 16 bits.
  EvidencedParameters tf32;   ///< the same in TF32, if all kinds of arithmetic were measured.
  bool tensor_cores = false;  ///< whether the products measured for `own` ran on them.
};

/// Returns the parameters that were fitted to a GPU's measured steps; else those of the GPU that
/// its file names, as far as they hold for this one; else typical ones.
[[nodiscard]] ArithmeticParameters arithmetic_parameters(const profile::GpuSpec& spec);

}  // namespace gpemu::cost
