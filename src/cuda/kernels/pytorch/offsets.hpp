// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "gpemu/base/units.hpp"

#include "kernels/pytorch/tensor_work.hpp"

namespace gpemu::cuda {

/// IntDivider<uint32_t>: the divisor, a factor and a shift. Source: IntegerDivider.cuh.
inline constexpr Bytes kDividerBytes = 12;

/// Returns the size of a calculator of offsets for `tensors` tensors. Source: OffsetCalculator.cuh.
[[nodiscard]] constexpr Bytes calculator_bytes(Bytes tensors) {
  return 4 + Bytes{kMostDimensions} * (kDividerBytes + 4 * tensors);
}

/// Reads a calculator of offsets for `tensors` tensors; returns the places of one of them.
[[nodiscard]] Places read_places(const std::byte* calculator, Bytes tensors, Bytes tensor);

}  // namespace gpemu::cuda
