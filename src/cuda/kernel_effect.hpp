// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "gpemu/cuda.h"

namespace gpemu::cuda {

/// What a kernel is known to write, by its name. Kernels do not compute, but where memory held
/// something else before, what the host reads must not be that: PyTorch takes sizes and flags from
/// small results in memory that its allocator uses again. So fills are done, and the results of the
/// kernels listed here read as zeros.
struct KernelEffect {
  enum class Kind : std::uint8_t {
    kNone,
    kFill,       ///< PyTorch's fill: every element takes the functor's value.
    kElements,   ///< an element-wise kernel of PyTorch: the first of its tensors.
    kReduction,  ///< PyTorch's reduce_kernel: its one or two results.
    kValue,      ///< a pointer among the arguments takes one value.
  };
  Kind kind = Kind::kNone;
  std::uint32_t element_bytes = 4;
  int tensors = 1;   ///< kElements: the first is not written where it is read too.
  int argument = 0;  ///< kValue: the pointer's position.
};

/// Analyses a mangled name. Takes microseconds, for the names are long.
[[nodiscard]] KernelEffect kernel_effect(std::string_view mangled_name);

/// Writes what a launch of the kernel writes, if that lies in memory of a device.
void apply_effect(const KernelEffect& effect, const gpemu_cuda_launch& launch);

}  // namespace gpemu::cuda
