// SPDX-License-Identifier: Apache-2.0
//
// Descriptions of kernel launches, from their names and arguments.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>

#include "gpemu/kernels/arguments.hpp"
#include "gpemu/kernels/kernel_traits.hpp"
#include "gpemu/kernels/pytorch/concatenation.hpp"
#include "gpemu/kernels/pytorch/offsets.hpp"
#include "gpemu/kernels/pytorch/reduction.hpp"

#include "pytorch/attention_sizes.hpp"

namespace gpemu::kernels {

namespace {

using Arithmetic = LaunchFacts::Arithmetic;

constexpr double kChunkElements = TensorLists::kChunkElements;

/// Converts a number to an entry of a shape. Larger numbers make no sense.
std::int64_t entry(double value) {
  constexpr double kMost = 9e18;
  return static_cast<std::int64_t>(std::clamp(value, 0.0, kMost));
}

double shape(const gpemu_operation& operation, int index) {
  return static_cast<double>(std::max<std::int64_t>(operation.shape[index], 0));
}

/// Returns the low 32 bits of an integer argument, because sizes are smaller; 0 if there is none.
std::int64_t argument(const gpemu_operation& launch, int index) {
  if (launch.arguments == nullptr || launch.arguments[index] == nullptr) return 0;
  std::int32_t value = 0;
  std::memcpy(&value, launch.arguments[index], sizeof(value));
  return std::max(value, 0);
}

/// Returns all 64 bits of an integer argument; 0 if there is none.
std::int64_t wide_argument(const gpemu_operation& launch, int index) {
  if (launch.arguments == nullptr || launch.arguments[index] == nullptr) return 0;
  std::int64_t value = 0;
  std::memcpy(&value, launch.arguments[index], sizeof(value));
  return std::max<std::int64_t>(value, 0);
}

struct Threads {
  double blocks;
  double all;
};

Threads grid_threads(const gpemu_operation& launch) {
  const auto size = [&launch](int entry) { return std::max(shape(launch, entry), 1.0); };
  const double blocks = size(0) * size(1) * size(2);
  return {.blocks = blocks, .all = blocks * (size(3) * size(4) * size(5))};
}

/// Makes an operation of the kind that describes a launch.
gpemu_operation described(const KernelTraits& traits, const gpemu_operation& launch) {
  return {.struct_size = sizeof(gpemu_operation),
          .kind = traits.kind,
          .type = traits.type,
          .compute_type = GPEMU_TYPE_UNKNOWN,
          .channels_last = 0,
          .shape = {},
          .name = launch.name,
          .arguments = nullptr,
          .access = traits.access};
}

/// Finds the sizes of PyTorch's reduce_kernel.
std::optional<ReductionConfig> reduction_of(const gpemu_operation& launch) {
  if (launch.arguments == nullptr || launch.arguments[0] == nullptr) return std::nullopt;
  const auto find = [&launch](Bytes from) {
    return find_reduction(launch.arguments[0], static_cast<std::uint32_t>(launch.shape[3]),
                          static_cast<std::uint32_t>(launch.shape[4]), from);
  };
  auto config = find(0);
  // If a block is one thread, other members look the same.
  while (config && (config->inputs == 0 || config->outputs == 0)) config = find(config->at + 4);
  return config;
}

/// What a launch over lists of tensors handles.
struct ListWork {
  double elements = 0;
  std::int64_t tensors = 0;  ///< that it finishes; 0: not known.
};

/// Finds what a launch over lists of tensors handles. A tensor that one launch does not finish is
/// the first one of the next launch.
ListWork list_work(const TensorLists& layout, const gpemu_operation& launch) {
  const double all_blocks = grid_threads(launch).blocks;
  const ListWork most{.elements = all_blocks * kChunkElements};
  if (launch.arguments == nullptr || launch.arguments[0] == nullptr ||
      all_blocks > static_cast<double>(layout.most_blocks)) {
    return most;
  }
  const ListedTensors listed(layout, launch.arguments[0]);
  const auto last_block = static_cast<Bytes>(all_blocks) - 1;
  const Bytes last_tensor = listed.tensor_of(last_block);
  if (last_tensor >= layout.most_tensors) return most;
  double elements = -kChunkElements * static_cast<double>(listed.chunk_of(0));
  for (Bytes tensor = 0; tensor <= last_tensor; ++tensor) {
    elements += static_cast<double>(listed.elements(tensor));
  }
  const double left = static_cast<double>(listed.elements(last_tensor)) -
                      kChunkElements * (static_cast<double>(listed.chunk_of(last_block)) + 1);
  elements -= std::max(left, 0.0);
  // Impossible values are ignored.
  if (elements < all_blocks || elements > most.elements) return most;
  return {.elements = elements,
          .tensors = static_cast<std::int64_t>(last_tensor) + (left > 0 ? 0 : 1)};
}

/// Returns how many elements a launch handles; one per thread if nothing else is known.
double elements_of(const KernelTraits& traits, const gpemu_operation& launch) {
  const auto blocks = [&launch] { return grid_threads(launch).blocks; };
  double elements = 0;
  switch (traits.elements) {
    case ElementsFrom::kArgument:
    case ElementsFrom::kOffsets:
      elements = static_cast<double>(argument(launch, traits.argument));
      break;
    case ElementsFrom::kRows:
      elements = blocks() * static_cast<double>(argument(launch, traits.argument));
      break;
    case ElementsFrom::kProduct:
      elements = static_cast<double>(argument(launch, traits.argument)) *
                 static_cast<double>(argument(launch, traits.second_argument));
      break;
    case ElementsFrom::kChunks:
      elements = blocks() * kChunkElements;
      break;
    case ElementsFrom::kLists:
      elements = list_work(*traits.tensor_lists, launch).elements;
      break;
    default:
      break;
  }
  return elements > 0 ? elements : grid_threads(launch).all;
}

struct Reads {
  double elements = 0;
  double apart = 0;  ///< of 32 bytes, for tensors whose elements lie apart.
};

/// Returns how many reads of 32 bytes the warps need for a tensor, if each is like the first one; 0
/// if that needs no more than 8, as for 32 elements of 64 bits side by side.
double reads_apart(const Places& places, double elements) {
  constexpr Bytes kThreads = 32, kBytes = 32, kFew = 8;
  const auto first = static_cast<std::int64_t>(places.strides[0]);
  // Most tensors' first elements are neighbours.
  if (elements < static_cast<double>(kThreads) ||
      (places.sizes[0] >= kThreads && std::abs(first) <= static_cast<std::int64_t>(kFew))) {
    return 0;
  }
  std::array<std::int64_t, kThreads> lines{};
  for (Bytes thread = 0; thread < kThreads; ++thread) {
    lines.at(thread) =
        static_cast<std::int64_t>(places.offset(thread)) / static_cast<std::int64_t>(kBytes);
  }
  std::ranges::sort(lines);
  const auto distinct = std::ranges::distance(lines.begin(), std::ranges::unique(lines).begin());
  return distinct > static_cast<std::ptrdiff_t>(kFew)
             ? static_cast<double>(distinct) * elements / static_cast<double>(kThreads)
             : 0;
}

/// Describes PyTorch's element-wise kernels whose tensors have strides: strides of broadcast
/// dimensions are 0, and repeated elements are read once. The argument after the number of elements
/// begins with a calculator of offsets, for the output first. Source: gpu_kernel_impl_nocast in
/// aten/src/ATen/native/cuda/CUDALoops.cuh.
Reads strided_reads(const KernelTraits& traits, const gpemu_operation& launch, double elements) {
  const auto tensors = static_cast<Bytes>(traits.tensors);
  const Reads most{.elements = elements * (traits.tensors - 1)};
  if (launch.arguments == nullptr || launch.arguments[traits.argument + 1] == nullptr) return most;
  const auto* const calculator =
      static_cast<const std::byte*>(launch.arguments[traits.argument + 1]);
  const auto dimensions = read<std::int32_t>(calculator);
  if (dimensions < 1 || dimensions > kMostDimensions) return most;
  Reads reads;
  for (Bytes tensor = 1; tensor < tensors; ++tensor) {
    const Places places = read_places(calculator, tensors, tensor);
    double all = 1, read = 1;
    for (std::size_t i = 0; i < static_cast<std::size_t>(dimensions); ++i) {
      const auto size = static_cast<double>(places.sizes[i]);
      all *= size;
      if (places.strides[i] != 0) read *= size;
    }
    if (all != elements) return most;  // Impossible values are ignored.
    reads.elements += read;
    reads.apart += reads_apart(places, elements);
  }
  return reads;
}

/// Finds how many elements PyTorch's concatenation copies.
std::optional<double> input_elements(const KernelTraits& traits, const gpemu_operation& launch) {
  if (launch.arguments == nullptr || launch.arguments[traits.argument] == nullptr ||
      launch.shape[1] > traits.inputs) {
    return std::nullopt;
  }
  const ConcatenatedInputs inputs(launch.arguments[traits.argument], traits.inputs);
  double elements = 0;
  for (std::int64_t i = 0; i < launch.shape[1]; ++i) {
    elements += static_cast<double>(inputs.elements(static_cast<Bytes>(i)));
  }
  if (elements <= 0) return std::nullopt;
  return elements;
}

/// The arguments of PyTorch's pooling kernels have height and width of the input, of the output and
/// of the window, in this order. Adaptive pooling has no window, and a block for each image. In the
/// backward pass, max pooling has the number of images and channels first; otherwise the first
/// argument is the number of elements written. Source: DilatedMaxPool2d.cu, AveragePool2d.cu and
/// AdaptiveAveragePooling.cu in aten/src/ATen/native/cuda.
bool describe_pooling(const KernelTraits& traits, const gpemu_operation& launch,
                      gpemu_operation& operation) {
  std::array<double, 6> sizes{};
  const bool adaptive = traits.second_argument == 0;  // Has no window.
  for (int i = 0; i < (adaptive ? 4 : 6); ++i) {
    sizes[static_cast<std::size_t>(i)] = static_cast<double>(argument(launch, traits.argument + i));
  }
  const double input = sizes[0] * sizes[1], output = sizes[2] * sizes[3];
  if (input <= 0 || output <= 0) return false;
  const bool backward = traits.kind == GPEMU_OPERATION_POOLING_BACKWARD;
  double window = sizes[4] * sizes[5];
  double images = static_cast<double>(argument(launch, 0)) / (backward ? input : output);
  if (adaptive) {
    window = std::max(input / output, 1.0);
    images = shape(launch, 0);
  } else if (traits.images_first) {
    images = static_cast<double>(argument(launch, traits.argument - 2)) *
             static_cast<double>(argument(launch, traits.argument - 1));
  }
  // Max pooling stores the place of each maximum in 64 bits.
  const std::int64_t place = traits.tensors > 2 ? 8 : 0;
  const std::array entries = {entry(images * input), entry(images * output), entry(window), place};
  std::ranges::copy(entries, operation.shape);
  return images > 0;
}

/// The integer arguments of PyTorch's depthwise convolutions end with width and height of input,
/// output, filter, stride, padding and dilation. Before them come the number of elements written,
/// output channels, and output channels per input channel; in the backward pass, the elements,
/// input channels, their multiplier and output channels; for the filter, the batch replaces the
/// elements, and the multiplier comes last. Source: aten/src/ATen/native/cuda/DepthwiseConv2d.cu.
bool describe_depthwise(const KernelTraits& traits, const gpemu_operation& launch,
                        gpemu_operation& operation) {
  const bool forward = traits.kind == GPEMU_OPERATION_CONVOLUTION_FORWARD;
  const bool filter = traits.kind == GPEMU_OPERATION_CONVOLUTION_BACKWARD_FILTER;
  const auto value = [&](int index) { return argument(launch, traits.argument + index); };
  const int sizes = forward ? 3 : 4;
  const std::int64_t in_width = value(sizes), in_height = value(sizes + 1);
  const std::int64_t out_width = value(sizes + 2), out_height = value(sizes + 3);
  const std::int64_t multiplier = std::max<std::int64_t>(value(filter ? 3 : 2), 1);
  const std::int64_t in_channels = forward ? value(1) / multiplier : value(1);
  const std::int64_t out_channels = in_channels * multiplier;
  // The arguments may be any numbers, and the product may exceed 64 bits.
  const double image = static_cast<double>(forward ? out_channels : in_channels) *
                       static_cast<double>(forward ? out_width : in_width) *
                       static_cast<double>(forward ? out_height : in_height);
  if (image <= 0 || out_width <= 0 || out_height <= 0) return false;
  const auto first = static_cast<double>(value(0));
  const std::array<std::int64_t, 20> entries = {entry(filter ? first : first / image),
                                                in_channels,
                                                out_channels,
                                                in_channels,
                                                2,
                                                in_height,
                                                in_width,
                                                1,
                                                value(sizes + 5),
                                                value(sizes + 4),
                                                1,
                                                out_height,
                                                out_width,
                                                1,
                                                value(sizes + 7),
                                                value(sizes + 6),
                                                1,
                                                value(sizes + 11),
                                                value(sizes + 10),
                                                1};
  std::ranges::copy(entries, operation.shape);
  return entries[0] > 0;
}

/// Describes PyTorch's own batch normalization, for which cuDNN does not serve. Source: struct
/// GenericPackedTensorAccessor in aten/src/ATen/core/TensorAccessor.h: the address, then the sizes.
/// Only the transform and the gradient of the input by itself spread a channel over blocks.
bool describe_batch_norm(const KernelTraits& traits, const gpemu_operation& launch,
                         gpemu_operation& operation) {
  if (launch.arguments == nullptr || launch.arguments[0] == nullptr) return false;
  const int spread_tensors = traits.kind == GPEMU_OPERATION_NORMALIZATION_BACKWARD ? 3 : 2;
  std::array<std::int32_t, 3> sizes{};
  std::memcpy(sizes.data(), static_cast<const char*>(launch.arguments[0]) + sizeof(void*),
              sizeof(sizes));
  if (std::ranges::any_of(sizes, [](std::int32_t size) { return size < 1; })) return false;
  const auto [samples, channels, rest] = sizes;
  operation.shape[0] = entry(static_cast<double>(samples) * channels * rest);
  operation.shape[1] = traits.tensors == spread_tensors ? 0 : channels;
  operation.shape[2] = traits.tensors;
  return true;
}

/// Finds the sizes in the argument of an attention kernel, if they fit its name and its grid.
std::optional<AttentionSizes> attention_sizes(const KernelTraits& traits,
                                              const gpemu_operation& launch) {
  if (launch.arguments == nullptr || launch.arguments[0] == nullptr) return std::nullopt;
  const void* const argument = launch.arguments[0];
  const std::int64_t heads = launch.shape[1], batch = launch.shape[2];
  if (traits.attention == GPEMU_ATTENTION_FLASH) {
    auto sizes = flash_sizes(argument);
    if (!sizes || sizes->head_size > traits.head_size) return std::nullopt;
    sizes->causal = traits.causal;
    return sizes;
  }
  if (traits.kind == GPEMU_OPERATION_ATTENTION_BACKWARD) {
    return efficient_backward_sizes(argument, heads, batch);
  }
  // The grid has the queries' blocks.
  const auto sizes = efficient_sizes(argument, heads, batch);
  const std::int64_t blocks = std::max<std::int64_t>(launch.shape[0], 1);
  if (!sizes || (sizes->queries - 1) / traits.rows_per_block + 1 != blocks) return std::nullopt;
  return sizes;
}

/// Describes attention by its argument. If that does not have the sizes, by the grid: a block
/// handles rows of the queries of a head or, in the backward pass, of its keys, and the other
/// dimensions are heads and batch, whose order does not matter here.
void describe_attention(const KernelTraits& traits, const gpemu_operation& launch,
                        gpemu_operation& operation) {
  std::optional<AttentionSizes> sizes = attention_sizes(traits, launch);
  if (!sizes) {
    const std::int64_t rows = entry(std::max(shape(launch, 0), 1.0) * traits.rows_per_block);
    sizes = {.batch = launch.shape[2],
             .heads = launch.shape[1],
             .kv_heads = launch.shape[1],
             .queries = rows,
             .keys = rows,
             .head_size = traits.head_size,
             .causal = traits.causal};
  }
  const std::array<std::int64_t, 8> entries = {std::max<std::int64_t>(sizes->batch, 1),
                                               std::max<std::int64_t>(sizes->heads, 1),
                                               std::max<std::int64_t>(sizes->kv_heads, 1),
                                               sizes->queries,
                                               sizes->keys,
                                               sizes->head_size,
                                               sizes->causal ? 1 : 0,
                                               traits.attention};
  std::ranges::copy(entries, operation.shape);
}

/// Returns the bytes of an element of each of a kernel's tensors together, from the argument that
/// converts them; 0 if there is none. Source: LoadWithCast and StoreWithCast in
/// aten/src/ATen/native/cuda/MemoryAccess.cuh: types of a byte each, then sizes.
double converted_bytes(const gpemu_operation& launch, int index, int tensors) {
  if (launch.arguments == nullptr || launch.arguments[index] == nullptr) return 0;
  constexpr int kMostBytes = 16;
  constexpr int kSize = sizeof(std::uint32_t);
  const auto* place = static_cast<const char*>(launch.arguments[index]);
  place += (tensors + kSize - 1) / kSize * kSize;
  double bytes = 0;
  for (int i = 0; i < tensors; ++i, place += kSize) {
    std::uint32_t size = 0;
    std::memcpy(&size, place, kSize);
    if (size < 1 || size > kMostBytes) return 0;
    bytes += size;
  }
  return bytes;
}

/// Describes element-wise work.
void describe_elements(const KernelTraits& traits, const gpemu_operation& launch,
                       gpemu_operation& operation) {
  const double elements = elements_of(traits, launch);
  // All lists except the read-only ones are written.
  const int lists = traits.tensor_lists ? traits.tensor_lists->lists : 0;
  const int written = lists > 0 ? std::max(traits.tensors - lists, 1) : 1;
  double reads = elements * (traits.tensors - written);
  if (traits.elements == ElementsFrom::kOffsets) {
    const Reads strided = strided_reads(traits, launch, elements);
    reads = strided.elements;
    operation.shape[kReadsApart] = entry(strided.apart);
  }
  double writes = elements * written;
  if (traits.converted > 0) {
    const double read = converted_bytes(launch, KernelTraits::kLoader, traits.converted);
    const double stored = converted_bytes(launch, KernelTraits::kStorer, 1);
    const double bytes = gpemu_data_type_bytes(traits.type);
    if (read > 0) reads = elements * read / bytes;
    if (stored > 0) writes = elements * stored / bytes;
  }
  operation.shape[0] = entry(reads);
  operation.shape[1] = entry(writes);
  if (traits.elements == ElementsFrom::kLists) {
    operation.shape[kListedTensors] = list_work(*traits.tensor_lists, launch).tensors;
  }
}

/// Adds how a normalization's rows are distributed. A row may have a block. Where sums over rows
/// are the result, as for the weights of a layer normalization, a block takes 32 columns and moves
/// about 16 times as many bytes per clock as one that takes a channel of images. Source:
/// evidence/ours/h200/kernels.
void describe_rows(const KernelTraits& traits, const gpemu_operation& launch,
                   gpemu_operation& operation) {
  constexpr std::int64_t kColumns = 2;
  if (traits.elements == ElementsFrom::kRows) {
    operation.shape[3] = entry(grid_threads(launch).blocks);
  } else if (traits.channels_last) {
    operation.channels_last = 1;
    operation.shape[1] = argument(launch, traits.second_argument);
  } else if (traits.kind == GPEMU_OPERATION_NORMALIZATION_BACKWARD) {
    operation.shape[1] =
        std::max<std::int64_t>(argument(launch, traits.second_argument) / kColumns, 1);
  }
}

/// Fills the shape of a described operation; returns whether it is known.
bool describe_shape(const KernelTraits& traits, const gpemu_operation& launch,
                    gpemu_operation& operation) {
  switch (traits.elements) {
    case ElementsFrom::kThreads:
      return false;
    case ElementsFrom::kCycles:
      operation.shape[0] = wide_argument(launch, traits.argument);
      return true;
    case ElementsFrom::kAttention:
      describe_attention(traits, launch, operation);
      return true;
    case ElementsFrom::kPooling:
      return describe_pooling(traits, launch, operation);
    case ElementsFrom::kDepthwise:
      return describe_depthwise(traits, launch, operation);
    case ElementsFrom::kAccessor:
      return describe_batch_norm(traits, launch, operation);
    case ElementsFrom::kReduction: {
      const auto reduction = reduction_of(launch);
      if (!reduction) return false;
      const auto outputs = static_cast<double>(reduction->outputs);
      operation.shape[0] = entry(static_cast<double>(reduction->inputs) * outputs);
      operation.shape[1] = entry(outputs);
      return true;
    }
    case ElementsFrom::kInputs: {
      const std::optional<double> elements = input_elements(traits, launch);
      if (!elements) return false;
      operation.shape[0] = operation.shape[1] = entry(*elements);
      return true;
    }
    case ElementsFrom::kRows:
    case ElementsFrom::kProduct:
      if (traits.operation_class == OperationClass::kNormalization) {
        operation.shape[0] = entry(elements_of(traits, launch));
        operation.shape[2] = traits.tensors;
        describe_rows(traits, launch, operation);
        return true;
      }
      [[fallthrough]];
    default:
      describe_elements(traits, launch, operation);
      return true;
  }
}

/// Returns the size of the largest tensor that an operation certainly has. The bytes read may
/// exceed the memory, because broadcast tensors are read several times.
double largest_tensor(const gpemu_operation& operation) {
  const double each = gpemu_data_type_bytes(operation.type);
  switch (operation.kind) {
    case GPEMU_OPERATION_ELEMENTWISE:
    case GPEMU_OPERATION_REDUCTION:
      return shape(operation, 1) * each;
    case GPEMU_OPERATION_NORMALIZATION_FORWARD:
    case GPEMU_OPERATION_NORMALIZATION_BACKWARD:
      return shape(operation, 0) * each;
    case GPEMU_OPERATION_POOLING:
    case GPEMU_OPERATION_POOLING_BACKWARD:
      return std::max(shape(operation, 0), shape(operation, 1)) * each;
    default:
      return 0;
  }
}

OperationClass class_of(gpemu_operation_kind kind) {
  switch (kind) {
    case GPEMU_OPERATION_MATMUL:
      return OperationClass::kMatmul;
    case GPEMU_OPERATION_CONVOLUTION_FORWARD:
    case GPEMU_OPERATION_CONVOLUTION_BACKWARD_DATA:
    case GPEMU_OPERATION_CONVOLUTION_BACKWARD_FILTER:
      return OperationClass::kConvolution;
    case GPEMU_OPERATION_ATTENTION_FORWARD:
    case GPEMU_OPERATION_ATTENTION_BACKWARD:
      return OperationClass::kAttention;
    case GPEMU_OPERATION_RNN_FORWARD:
    case GPEMU_OPERATION_RNN_BACKWARD:
      return OperationClass::kRecurrent;
    case GPEMU_OPERATION_NORMALIZATION_FORWARD:
    case GPEMU_OPERATION_NORMALIZATION_BACKWARD:
      return OperationClass::kNormalization;
    case GPEMU_OPERATION_POOLING:
    case GPEMU_OPERATION_POOLING_BACKWARD:
      return OperationClass::kPooling;
    case GPEMU_OPERATION_ELEMENTWISE:
      return OperationClass::kElementwise;
    case GPEMU_OPERATION_REDUCTION:
      return OperationClass::kReduction;
    case GPEMU_OPERATION_FFT:
      return OperationClass::kFft;
    case GPEMU_OPERATION_COPY_ON_DEVICE:
      return OperationClass::kCopy;
    case GPEMU_OPERATION_SET:
      return OperationClass::kSet;
    default:
      return OperationClass::kOther;
  }
}

}  // namespace

DescribedOperation describe_kernel(const KernelTraits& traits, const gpemu_operation& launch,
                                   const LaunchContext& context) {
  DescribedOperation result{.operation = described(traits, launch),
                            .operation_class = traits.operation_class};
  if (describe_shape(traits, launch, result.operation) &&
      largest_tensor(result.operation) <= static_cast<double>(context.memory)) {
    return result;
  }
  const double threads = grid_threads(launch).all;
  double bytes = threads * traits.tensors * gpemu_data_type_bytes(traits.type);
  result.operation = launch;
  result.operation.arguments = nullptr;
  result.operation.type = traits.type;
  if (context.facts != nullptr) {
    LaunchFacts facts = *context.facts;
    // If the code does not show its arithmetic, the name may.
    if (facts.arithmetic == Arithmetic::kUnknown &&
        traits.operation_class == OperationClass::kMatmul) {
      const bool half = gpemu_data_type_bytes(traits.type) == 2;
      facts.arithmetic = half ? Arithmetic::kTensorCores : Arithmetic::kMultiplies;
    }
    const GuessedWork work = guess_work(facts, threads);
    // A struct of unknown size may hold pointers.
    bytes = facts.pointers > 0 ? work.bytes : bytes;
    result.operation.shape[kKernelFlops] = entry(work.flops);
    if (facts.arithmetic == Arithmetic::kTensorCores) {
      result.operation.compute_type = GPEMU_TYPE_FP16;
    }
  }
  result.operation.shape[kKernelBytes] = entry(std::max(bytes, 1.0));
  return result;
}

DescribedOperation describe_operation(const gpemu_operation& operation) {
  if (operation.kind == GPEMU_OPERATION_KERNEL && operation.shape[kKernelBytes] == 0) {
    return describe_kernel(kernel_traits(operation.name), operation);
  }
  return {.operation = operation, .operation_class = class_of(operation.kind)};
}

}  // namespace gpemu::kernels
