// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

#include "gpemu/base/units.hpp"
#include "gpemu/kernels/described_operation.hpp"
#include "gpemu/kernels/launch_facts.hpp"
#include "gpemu/kernels/tensor_lists.hpp"
#include "gpemu/operation.h"

namespace gpemu::kernels {

/// How to find the elements that a launch handles. Only arguments of PyTorch's kernels are read,
/// because their signatures are known.
enum class ElementsFrom : std::uint8_t {
  kThreads,    ///< one per thread of the grid.
  kArgument,   ///< an integer argument.
  kRows,       ///< a row per block; an integer argument is the row's length.
  kProduct,    ///< the product of two integer arguments.
  kReduction,  ///< the configuration inside the first argument, PyTorch's reduce_kernel.
  kChunks,     ///< a chunk per block, PyTorch's multi_tensor_apply_kernel.
  kLists,      ///< the lists of tensors inside the first argument, of the same kernel.
  kAttention,  ///< the argument of an attention kernel, or its blocks of queries.
  kCycles,     ///< none: an integer argument counts cycles of the clock to wait for.
  kOffsets,    ///< an integer argument; the next one has sizes and strides of each tensor.
  kInputs,     ///< an argument with the elements of each input; the grid's second
               ///< dimension is the number of inputs: PyTorch's concatenation.
  kPooling,    ///< height and width of input, output and window, in this order, from
               ///< an integer argument on, and the number of images.
  kDepthwise,  ///< the integer arguments of PyTorch's depthwise convolutions.
  kAccessor,   ///< the sizes of a tensor of three dimensions, samples, channels and the rest,
               ///< that the first argument describes: PyTorch's own batch normalization.
};

/// What is known of a kernel by its name alone. Cheap to copy; analyse a name once and keep it.
struct KernelTraits {
  OperationClass operation_class = OperationClass::kOther;
  /// The kind that describes a launch once its elements are found.
  gpemu_operation_kind kind = GPEMU_OPERATION_KERNEL;
  gpemu_access access = GPEMU_ACCESS_CONTIGUOUS;
  ElementsFrom elements = ElementsFrom::kThreads;
  bool foreign = true;  ///< not one of PyTorch's: it is not known what its threads do.
  int tensors = 3;      ///< how often an element is read or written.
  gpemu_data_type type = GPEMU_TYPE_FP32;
  int argument = 0;            ///< where they look, but kReduction, -Chunks and -Lists: first.
  int second_argument = 0;     ///< where kProduct and -Pooling look as well.
  int rows_per_block = 0;      ///< of queries; kAttention only. 0: in the argument.
  int head_size = 0;           ///< kAttention only.
  int inputs = 0;              ///< kInputs only: at most.
  bool images_first = false;   ///< kPooling only: images and channels stand before the sizes.
  bool channels_last = false;  ///< batch normalization only.
  bool causal = false;         ///< kAttention only.
  gpemu_attention attention = GPEMU_ATTENTION_CUDNN;  ///< likewise.
  std::optional<TensorLists> tensor_lists;            ///< kLists only.
  int converted = 0;  ///< kArgument only: tensors that the kernel converts as it reads them.
  static constexpr int kLoader = 5, kStorer = 6;  ///< the arguments that know their sizes.
};

/// Analyses a mangled name. Takes microseconds, because the names are long.
[[nodiscard]] KernelTraits kernel_traits(std::string_view mangled_name);

/// What else is known about a launch.
struct LaunchContext {
  Bytes memory = std::numeric_limits<Bytes>::max();  ///< of the GPU: no tensor is larger.
  const LaunchFacts* facts = nullptr;                ///< of kernels that are not recognised.
};

/// Describes a launch. The arguments are read here, so the result can be kept and priced on any
/// GPU. Requires: launch.kind is GPEMU_OPERATION_KERNEL.
[[nodiscard]] DescribedOperation describe_kernel(const KernelTraits& traits,
                                                 const gpemu_operation& launch,
                                                 const LaunchContext& context = {});

/// Describes an operation of a library, or a launch by its name, whose analysis takes
/// microseconds.
[[nodiscard]] DescribedOperation describe_operation(const gpemu_operation& operation);

}  // namespace gpemu::kernels
