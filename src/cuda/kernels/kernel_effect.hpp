// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <variant>

#include "gpemu/cuda.h"

#include "content.hpp"
#include "kernels/code_facts.hpp"
#include "kernels/kernel_work.hpp"
#include "kernels/parameters.hpp"
#include "kernels/pytorch/elementwise.hpp"
#include "kernels/pytorch/lists.hpp"
#include "kernels/pytorch/motion.hpp"
#include "kernels/pytorch/nonzero.hpp"
#include "kernels/pytorch/reduction.hpp"
#include "kernels/triton/ptx.hpp"

namespace gpemu::cuda {

/// What a kernel's parameters or its text tell; std::monostate: nothing that it writes.
using WrittenEffect = std::variant<std::monostate, ParametersEffect, PtxFacts>;

/// What a kernel is known to write, by its name and its parameters. What is not computed reads as
/// zeros and is counted, for PyTorch's allocator uses memory again: never may the host read what
/// lay there before.
struct KernelEffect {
  WriterId writer = 0;  ///< 0: it writes nothing that is known.
  /// How a kernel of a framework is recognised; std::monostate: it is not.
  std::variant<std::monostate, FillEffect, ElementsEffect, StridedEffect, ReductionEffect,
               ListsEffect, NonzeroEffect, MotionEffect>
      recognised;
  /// Of a kernel that is not recognised, or moves elements and may be launched with other
  /// arguments.
  WrittenEffect written;
};

/// Analyses a mangled name. Takes tens of microseconds, for the names are long.
[[nodiscard]] KernelEffect kernel_effect(std::string_view mangled_name, const FindCode& find_code);

/// Finds out what a launch does from its arguments, which may be gone later.
void describe_work(const KernelEffect& effect, const gpemu_cuda_launch& launch, KernelWork* work);

/// Finds out what a launch does, and does it.
void perform_launch(const KernelEffect& effect, const gpemu_cuda_launch& launch);

}  // namespace gpemu::cuda
