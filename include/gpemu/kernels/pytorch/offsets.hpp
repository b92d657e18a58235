// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "gpemu/base/units.hpp"
#include "gpemu/kernels/places.hpp"

namespace gpemu::kernels {

/// IntDivider<uint32_t>: the divisor, a factor and a shift. Source: IntegerDivider.cuh.
inline constexpr Bytes kDividerBytes = 12;

/// Returns the size of a calculator of offsets for `tensors` tensors. Source: OffsetCalculator.cuh.
[[nodiscard]] constexpr Bytes calculator_bytes(Bytes tensors) {
  return 4 + Bytes{kMostDimensions} * (kDividerBytes + 4 * tensors);
}

/// Reads a calculator of offsets for `tensors` tensors; returns the places of one of them.
[[nodiscard]] Places read_places(const std::byte* calculator, Bytes tensors, Bytes tensor);

/// PyTorch's TensorInfo with sizes and strides of 4 bytes, in elements. Source: TensorInfo.cuh.
struct TensorInfo {
  std::uint64_t address = 0;
  std::array<std::uint32_t, kMostDimensions> sizes{}, strides{};
  std::int32_t dimensions = 0;

  /// Returns the places of the elements in bytes; the last dimension comes first.
  [[nodiscard]] Places places(Bytes width) const;
};

[[nodiscard]] TensorInfo read_tensor_info(const void* argument);

}  // namespace gpemu::kernels
