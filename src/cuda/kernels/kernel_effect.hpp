// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string_view>
#include <variant>

#include "gpemu/cuda.h"

#include "content.hpp"
#include "kernels/code_facts.hpp"
#include "kernels/kernel_work.hpp"
#include "kernels/parameters.hpp"
#include "kernels/ptx.hpp"
#include "kernels/pytorch/elementwise.hpp"
#include "kernels/pytorch/held_tensors.hpp"
#include "kernels/pytorch/lists.hpp"
#include "kernels/pytorch/motion.hpp"
#include "kernels/pytorch/nonzero.hpp"
#include "kernels/pytorch/packed_move.hpp"
#include "kernels/pytorch/reduction.hpp"

namespace gpemu::cuda {

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

/// Analyses a mangled name. Takes tens of microseconds, because the names are long. Requires: the
/// name and what `find_code` refers to live as long as the effect.
[[nodiscard]] KernelEffect kernel_effect(std::string_view mangled_name, const FindCode& find_code);

/// Describes a launch by its arguments, which may not exist later.
void describe_work(const KernelEffect& effect, const gpemu_cuda_launch& launch, KernelWork* work);

/// Describes a launch, which was queued in `stream`, and performs it.
void perform_launch(const KernelEffect& effect, const gpemu_cuda_launch& launch,
                    gpemu_cuda_stream* stream);

}  // namespace gpemu::cuda
