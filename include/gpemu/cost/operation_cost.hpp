// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

#include "gpemu/base/units.hpp"
#include "gpemu/cost/described_operation.hpp"
#include "gpemu/cost/estimate.hpp"
#include "gpemu/cost/launch_facts.hpp"
#include "gpemu/kernels/tensor_lists.hpp"
#include "gpemu/operation.h"
#include "gpemu/profile/gpu_spec.hpp"

namespace gpemu::cost {

struct OperationWork;  ///< operation_time.hpp

/// What limits an operation's speed.
enum class Limit : std::uint8_t { kCompute, kMemory, kLatency };

struct OperationCost {
  Estimate estimate;
  double training_error = 0;  ///< as the estimate's relative_error, in a step that trains.
  OperationClass operation_class = OperationClass::kOther;
  /// The part of the time that memory takes at its full rate, whatever the clock of the
  /// multiprocessors is.
  double memory_share = 0;
  /// Of a kernel: the share of the multiprocessors that its blocks reach, and how often its blocks
  /// fill them. Prices do not depend on them; whoever launches it knows them.
  double width = 1;
  int waves = 1;
};

/// What is known of a kernel by its name alone. Cheap to copy; analyse a name once and keep it.
struct KernelTraits {
  OperationClass operation_class = OperationClass::kOther;
  /// The kind that describes a launch once its elements are found.
  gpemu_operation_kind kind = GPEMU_OPERATION_KERNEL;
  gpemu_access access = GPEMU_ACCESS_CONTIGUOUS;
  /// How to find the elements that a launch handles. Only arguments of PyTorch's kernels are read,
  /// because their signatures are known.
  enum class Elements : std::uint8_t {
    kFromThreads,    ///< one per thread of the grid.
    kFromArgument,   ///< an integer argument.
    kFromRows,       ///< a row per block; an integer argument is the row's length.
    kFromProduct,    ///< the product of two integer arguments.
    kFromReduction,  ///< the configuration inside the first argument, PyTorch's reduce_kernel.
    kFromChunks,     ///< a chunk per block, PyTorch's multi_tensor_apply_kernel.
    kFromLists,      ///< the lists of tensors inside the first argument, of the same kernel.
    kFromAttention,  ///< the argument of an attention kernel, or its blocks of queries.
    kFromCycles,     ///< none: an integer argument counts cycles of the clock to wait for.
    kFromOffsets,    ///< an integer argument; the next one has sizes and strides of each tensor.
    kFromInputs,     ///< an argument with the elements of each input; the grid's second
                     ///< dimension is the number of inputs: PyTorch's concatenation.
    kFromPooling,    ///< height and width of input, output and window, in this order, from
                     ///< an integer argument on, and the number of images.
    kFromDepthwise,  ///< the integer arguments of PyTorch's depthwise convolutions.
    kFromAccessor,   ///< the sizes of a tensor of three dimensions, samples, channels and the rest,
                     ///< that the first argument describes: PyTorch's own batch normalization.
  };
  Elements elements = Elements::kFromThreads;
  bool foreign = true;  ///< not one of PyTorch's: it is not known what its threads do.
  int tensors = 3;      ///< how often an element is read or written.
  gpemu_data_type type = GPEMU_TYPE_FP32;
  int argument = 0;            ///< where they look, but kFromReduction, -Chunks and -Lists: first.
  int second_argument = 0;     ///< where kFromProduct and -Pooling look as well.
  int rows_per_block = 0;      ///< of queries; kFromAttention only. 0: in the argument.
  int head_size = 0;           ///< kFromAttention only.
  int inputs = 0;              ///< kFromInputs only: at most.
  bool images_first = false;   ///< kFromPooling only: images and channels stand before the sizes.
  bool channels_last = false;  ///< batch normalization only.
  bool causal = false;         ///< kFromAttention only.
  gpemu_attention attention = GPEMU_ATTENTION_CUDNN;  ///< likewise.
  std::optional<kernels::TensorLists> tensor_lists;   ///< kFromLists only.
  int converted = 0;  ///< kFromArgument only: tensors that the kernel converts as it reads them.
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
[[nodiscard]] DescribedOperation describe(const gpemu_operation& operation);

/// Predicts how long an operation takes on one GPU, by operation_seconds(). The parameters are
/// those fitted to this GPU's measured steps, else those of the GPU that its file names, else
/// typical ones. docs/design/operation-costs.md has the equations.
///
/// If those parameters were measured with tensor cores and a convolution or product does not use
/// them, or the other way round, spec.other_arithmetic prices it. In 16 bits, spec.half does.
///
/// A pure function of its inputs; no operation costs nothing. Thread safety: any thread.
class OperationCostModel {
 public:
  explicit OperationCostModel(profile::GpuSpec spec);

  /// Prices an operation. Negative entries of the shape count as 0. A kernel that is not described
  /// yet is analysed and described first, which takes microseconds.
  [[nodiscard]] OperationCost price(const gpemu_operation& operation) const;

  [[nodiscard]] OperationCost price(const DescribedOperation& described) const;

  /// Returns what takes most of an operation's time: its arithmetic, its bytes, or what remains
  /// without both. Separate from price() because it takes as long, and only predictions need it.
  [[nodiscard]] Limit limit(const DescribedOperation& described) const;

 private:
  /// Parameters, and their evidence if they are used as they were fitted.
  struct Parameters {
    profile::OperationParameters values{};
    Evidence evidence = Evidence::kAnalytic;
    /// The bars of a step: on the GPU and in the arithmetic of these parameters, absent if too few
    /// steps tell; and on others.
    std::optional<double> calibrated_error;
    double transferred_error = 0;
  };

  [[nodiscard]] OperationCost price(const gpemu_operation& operation,
                                    OperationClass operation_class) const;
  [[nodiscard]] const Parameters& parameters_for(const OperationWork& work) const;
  /// Returns how long work takes, in seconds.
  [[nodiscard]] double seconds_of(const OperationWork& work, const Parameters& parameters) const;

  profile::GpuSpec spec_;
  Parameters own_;
  Parameters other_arithmetic_;
  Parameters half_;            ///< for convolutions and products in 16 bits.
  Parameters tf32_;            ///< the same in TF32, if all kinds of arithmetic were measured.
  bool tensor_cores_ = false;  ///< whether the products measured for own_ ran on them.
};

}  // namespace gpemu::cost
