// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string_view>
#include <variant>

#include "gpemu/cuda.h"
#include "gpemu/kernels/code_facts.hpp"
#include "gpemu/kernels/kernel_work.hpp"
#include "gpemu/kernels/parameters.hpp"
#include "gpemu/kernels/ptx.hpp"
#include "gpemu/kernels/pytorch/elementwise.hpp"
#include "gpemu/kernels/pytorch/held_tensors.hpp"
#include "gpemu/kernels/pytorch/lists.hpp"
#include "gpemu/kernels/pytorch/motion.hpp"
#include "gpemu/kernels/pytorch/nonzero.hpp"
#include "gpemu/kernels/pytorch/packed_move.hpp"
#include "gpemu/kernels/pytorch/reduction.hpp"

namespace gpemu::kernels {

/// The writes that a kernel's parameters or its text show; std::monostate: none.
using WrittenEffect = std::variant<std::monostate, ParametersEffect, PtxFacts>;

/// The known writes of a kernel, by its name and its parameters. Results that are not computed read
/// as zeros and are counted. PyTorch's allocator reuses memory, so the host must never read the
/// previous content.
struct KernelEffect {
  WriterId writer = 0;  ///< 0: it writes nothing that is known.
  /// How a kernel of a framework is recognised; std::monostate: it is not.
  std::variant<std::monostate, FillEffect, ElementsEffect, StridedEffect, ReductionEffect,
               ListsEffect, NonzeroEffect, MotionEffect, PackedEffect, HeldEffect>
      recognised;
  WrittenEffect written;  ///< for a kernel that is not recognised.
  /// Finds the same for one that is, when a launch has other arguments than expected; null: it has
  /// none. Takes milliseconds the first time.
  std::function<const WrittenEffect&()> written_otherwise;
};

/// Analyses a mangled name. Takes tens of microseconds, because the names are long. The effect has
/// `writer` if anything is written that is known. Requires: the name and what `find_code` refers to
/// live as long as the effect.
[[nodiscard]] KernelEffect kernel_effect(std::string_view mangled_name, const FindCode& find_code,
                                         WriterId writer);

/// Describes a launch by its arguments, which may not exist later.
void describe_work(const KernelEffect& effect, const Launch& launch, KernelWork* work);

}  // namespace gpemu::kernels
