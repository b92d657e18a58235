// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "gpemu/cuda.h"
#include "gpemu/kernels/arguments.hpp"
#include "gpemu/kernels/kernel_name.hpp"
#include "gpemu/kernels/kernel_work.hpp"
#include "gpemu/kernels/pytorch/tensor_work.hpp"

namespace gpemu::kernels {

/// The kernels of PyTorch that move elements without changing them.
enum class Motion : std::uint8_t {
  kNone,
  kFlip,
  kIndex,
  kIndexPut,
  kIndexFill,
  kIndexCopy,
  kTake,
  kPut,
  kGather,
  kScatter,
  kScatterFill,
  kGatherRows,   ///< vectorized_gather_kernel.
  kSelect,       ///< index_select, embedding.
  kConcatenate,  ///< cat, stack.
  kSequence,     ///< arange, range: computed by the place.
};

/// cat, stack.
struct CatEffect {
  std::uint32_t element_bytes = 4;
  int dimensions = 0;
  int most_tensors = 0;
  int strided_tensors = 0;  ///< the number of these, or 1 if all are contiguous.
  int vector = 1;           ///< elements that are taken as one.
};

/// arange, range.
struct SequenceEffect {
  NumberType type = NumberType::kUnknown;
  NumberType work_type = NumberType::kUnknown;  ///< that it is computed in.
  std::uint8_t count_bytes = 4;
};

/// A kernel of PyTorch that moves elements as they are, by indices or side by side.
struct MotionEffect {
  Motion motion = Motion::kNone;
  std::uint32_t element_bytes = 4;
  std::size_t arguments = 0;
  bool combines = false;  ///< elements are added to what is there, or the like.
  NumberType index_type = NumberType::kInt64;
  CatEffect cat;
  SequenceEffect sequence;
};

/// Recognises one. Returns nothing for other kernels, or if the template's arguments are not as
/// expected.
[[nodiscard]] std::optional<MotionEffect> motion_effect(const KernelName& name);

/// Describes a launch of one. Returns false, and adds nothing, if the arguments are not as
/// expected.
[[nodiscard]] bool describe_motion(const MotionEffect& effect, const Launch& launch,
                                   KernelWork* work);

}  // namespace gpemu::kernels
