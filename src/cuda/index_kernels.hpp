// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernel_effect.hpp"
#include "kernel_name.hpp"

namespace gpemu::cuda {

/// Bytes of a calculator of offsets for so many tensors. Source: OffsetCalculator.cuh.
[[nodiscard]] constexpr Bytes calculator_bytes(Bytes tensors) {
  return 4 + Bytes{kMostDimensions} * (kDividerBytes + 4 * tensors);
}

/// Reads a calculator of offsets for so many tensors; the places of one of them.
[[nodiscard]] Places read_places(const std::byte* calculator, Bytes tensors, Bytes tensor);

/// Recognises PyTorch's kernels that move elements as they are, by indices or side by side.
[[nodiscard]] Motion read_motion(const KernelName& name);

/// Reads what a motion needs of the template's arguments. Returns false where they are others.
[[nodiscard]] bool read_motion_types(const KernelName& name, KernelEffect* effect);

/// Describes a launch of one. Returns false, and adds nothing, where the arguments are not what
/// they should be.
[[nodiscard]] bool describe_motion(const KernelEffect& effect, const gpemu_cuda_launch& launch,
                                   KernelWork* work);

}  // namespace gpemu::cuda
