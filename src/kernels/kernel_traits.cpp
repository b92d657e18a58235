// SPDX-License-Identifier: Apache-2.0
#include "gpemu/kernels/kernel_traits.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "gpemu/kernels/arguments.hpp"
#include "gpemu/kernels/kernel_name.hpp"

namespace gpemu::kernels {
namespace {

using Class = OperationClass;

struct NamePart {
  std::string_view part;
  Class operation_class;
  ElementsFrom elements = ElementsFrom::kThreads;
  int tensors = 3;
  int argument = 0;
  int second_argument = 0;
  /// The kind that describes a launch, if the elements do not decide it.
  gpemu_operation_kind kind = GPEMU_OPERATION_KERNEL;
  /// The mangled types of the arguments that are read, if one integer could be mistaken for
  /// another; else empty. Kernels with other types do not match this entry.
  std::string_view signature = {};
};

/// Parts of the mangled names of kernels in PyTorch, CUB and cutlass; the first that fits counts.
/// If the elements follow from the threads, `tensors` includes the elements per thread. Source: the
/// kernels' names and signatures in PyTorch 2.8's and 2.15's libtorch_cuda.so, of which
/// kernel_names.txt keeps one for each list of parameters, and what they read and write.
constexpr std::array kNameParts = {
    NamePart{"Sleep_cu_", Class::kOther, ElementsFrom::kCycles, 0},
    // Compiled at run time: a thread takes 4 or 8 elements of at least two tensors.
    NamePart{"_vectorized4_kernel", Class::kElementwise, ElementsFrom::kThreads, 8},
    NamePart{"_vectorized8_kernel", Class::kElementwise, ElementsFrom::kThreads, 16},
    NamePart{"multi_tensor_apply_kernel", Class::kOptimizer, ElementsFrom::kChunks, 3},
    NamePart{"13reduce_kernelI", Class::kReduction, ElementsFrom::kReduction, 1},
    NamePart{"index_elementwise_kernel", Class::kIndexing, ElementsFrom::kArgument, 3},
    NamePart{"scatter_gather_elementwise_kernel", Class::kIndexing, ElementsFrom::kArgument, 4},
    NamePart{"distribution_elementwise", Class::kElementwise, ElementsFrom::kArgument, 1},
    NamePart{"elementwise_kernel", Class::kElementwise, ElementsFrom::kArgument, 3},
    NamePart{"fmha_cutlassF", Class::kAttention, ElementsFrom::kAttention, 4, 0, 0,
             GPEMU_OPERATION_ATTENTION_FORWARD},
    NamePart{"fmha_cutlassB", Class::kAttention, ElementsFrom::kAttention, 10, 0, 0,
             GPEMU_OPERATION_ATTENTION_BACKWARD},
    NamePart{"16flash_fwd_kernel", Class::kAttention, ElementsFrom::kAttention, 4, 0, 0,
             GPEMU_OPERATION_ATTENTION_FORWARD},
    NamePart{"24flash_fwd_splitkv_kernel", Class::kAttention, ElementsFrom::kAttention, 4, 0, 0,
             GPEMU_OPERATION_ATTENTION_FORWARD},
    NamePart{"flash_bwd_dq_dk_dv", Class::kAttention, ElementsFrom::kAttention, 10, 0, 0,
             GPEMU_OPERATION_ATTENTION_BACKWARD},
    NamePart{"fmha", Class::kAttention, ElementsFrom::kThreads, 64},
    NamePart{"flash_", Class::kAttention, ElementsFrom::kThreads, 16},
    NamePart{"softmax_warp_forward", Class::kReduction, ElementsFrom::kProduct, 2, 2, 4},
    NamePart{"softmax_warp_backward", Class::kReduction, ElementsFrom::kProduct, 3, 3, 5},
    NamePart{"cunn_SoftMaxForward", Class::kReduction, ElementsFrom::kRows, 2, 2},
    NamePart{"cunn_SoftMaxBackward", Class::kReduction, ElementsFrom::kRows, 3, 3},
    NamePart{"oftMax", Class::kReduction, ElementsFrom::kThreads, 8},
    NamePart{"oftmax", Class::kReduction, ElementsFrom::kThreads, 8},
    NamePart{"vectorized_layer_norm_kernel", Class::kNormalization, ElementsFrom::kRows, 2, 0},
    // Until PyTorch 2.8 with the length of a row; since, with the number of rows before it.
    NamePart{"RowwiseMomentsCUDAKernel", Class::kNormalization, ElementsFrom::kRows, 1, 0, 0,
             GPEMU_OPERATION_KERNEL, "EvlT0_PK"},
    NamePart{"RowwiseMomentsCUDAKernel", Class::kNormalization, ElementsFrom::kProduct, 1, 0, 1,
             GPEMU_OPERATION_KERNEL, "EvllT0_PK"},
    NamePart{"LayerNormForwardCUDAKernel", Class::kNormalization, ElementsFrom::kRows, 2, 0, 0,
             GPEMU_OPERATION_KERNEL, "EvlPK"},
    NamePart{"LayerNormForwardCUDAKernel", Class::kNormalization, ElementsFrom::kProduct, 2, 0, 1,
             GPEMU_OPERATION_KERNEL, "EvllPK"},
    NamePart{"layer_norm_grad_input_kernel", Class::kNormalization, ElementsFrom::kRows, 3, 6, 0,
             GPEMU_OPERATION_NORMALIZATION_BACKWARD},
    NamePart{"GammaBetaBackwardCUDAKernel", Class::kNormalization, ElementsFrom::kProduct, 2, 0, 1,
             GPEMU_OPERATION_NORMALIZATION_BACKWARD},
    NamePart{"GroupNorm", Class::kNormalization, ElementsFrom::kThreads, 8},
    NamePart{"LayerNorm", Class::kNormalization, ElementsFrom::kThreads, 8},
    NamePart{"layer_norm", Class::kNormalization, ElementsFrom::kThreads, 8},
    // Statistics read everything once, the transform reads and writes; backward, the sums and the
    // gradients read two tensors each. For tensors that are too large for 32 bits, the layout of
    // the argument is another.
    NamePart{"batch_norm_collect_statistics_kernel", Class::kNormalization, ElementsFrom::kAccessor,
             1, 0, 0, GPEMU_OPERATION_NORMALIZATION_FORWARD, "iEEvN"},
    NamePart{"batch_norm_transform_input_kernel", Class::kNormalization, ElementsFrom::kAccessor, 2,
             0, 0, GPEMU_OPERATION_NORMALIZATION_FORWARD, "iEEvN"},
    NamePart{"batch_norm_backward_kernel", Class::kNormalization, ElementsFrom::kAccessor, 5, 0, 0,
             GPEMU_OPERATION_NORMALIZATION_BACKWARD, "iEEvN"},
    NamePart{"batch_norm_backward_reduce_kernel", Class::kNormalization, ElementsFrom::kAccessor, 2,
             0, 0, GPEMU_OPERATION_NORMALIZATION_BACKWARD, "iEEvN"},
    NamePart{"batch_norm_backward_elemt_kernel", Class::kNormalization, ElementsFrom::kAccessor, 3,
             0, 0, GPEMU_OPERATION_NORMALIZATION_BACKWARD, "iEEvN"},
    // With the channels last, two arguments are the number of pixels and of channels.
    NamePart{"batch_norm_collect_statistics_channels_last_kernel", Class::kNormalization,
             ElementsFrom::kProduct, 1, 5, 6, GPEMU_OPERATION_NORMALIZATION_FORWARD, "PiiiS"},
    NamePart{"batch_norm_transform_input_channels_last_kernel", Class::kNormalization,
             ElementsFrom::kProduct, 2, 7, 8, GPEMU_OPERATION_NORMALIZATION_FORWARD, "_iib"},
    NamePart{"batch_norm_backward_reduce_channels_last_kernel", Class::kNormalization,
             ElementsFrom::kProduct, 2, 10, 11, GPEMU_OPERATION_NORMALIZATION_BACKWARD, "Piii"},
    NamePart{"batch_norm_backward_elemt_channels_last_kernel", Class::kNormalization,
             ElementsFrom::kProduct, 3, 10, 11, GPEMU_OPERATION_NORMALIZATION_BACKWARD, "lii"},
    NamePart{"batch_norm_backward_elemt_channels_last_kernel", Class::kNormalization,
             ElementsFrom::kProduct, 3, 9, 10, GPEMU_OPERATION_NORMALIZATION_BACKWARD, "_ii"},
    NamePart{"batch_norm", Class::kNormalization, ElementsFrom::kThreads, 8},
    NamePart{"max_pool_forward_nchw", Class::kPooling, ElementsFrom::kPooling, 7, 3, 1,
             GPEMU_OPERATION_POOLING, "viPKT_llliiiiiiiiii"},
    NamePart{"max_pool_backward_nchw", Class::kPooling, ElementsFrom::kPooling, 5, 4, 1,
             GPEMU_OPERATION_POOLING_BACKWARD, "vPKT_PKlillliiiiiiiiii"},
    // Since PyTorch 2.9, the type of the sizes is a parameter.
    NamePart{"max_pool_forward_nchw", Class::kPooling, ElementsFrom::kPooling, 7, 3, 1,
             GPEMU_OPERATION_POOLING, "vT0_PKT_llliiiiiiiiii"},
    NamePart{"max_pool_backward_nchw", Class::kPooling, ElementsFrom::kPooling, 5, 4, 1,
             GPEMU_OPERATION_POOLING_BACKWARD, "vPKT_PKlT1_"},
    // With the channels last, the numbers of images and channels come before the sizes.
    NamePart{"max_pool_forward_nhwc", Class::kPooling, ElementsFrom::kPooling, 7, 3, 1,
             GPEMU_OPERATION_POOLING, "vPKT_i"},
    NamePart{"max_pool_backward_nhwc", Class::kPooling, ElementsFrom::kPooling, 5, 4, 1,
             GPEMU_OPERATION_POOLING_BACKWARD, "vPKT_PKli"},
    NamePart{"avg_pool2d_out_cuda_frameI", Class::kPooling, ElementsFrom::kPooling, 2, 3, 1,
             GPEMU_OPERATION_POOLING, "viPKT_lllliiiiiii"},
    NamePart{"avg_pool2d_backward_out_cuda_frameI", Class::kPooling, ElementsFrom::kPooling, 2, 3,
             1, GPEMU_OPERATION_POOLING_BACKWARD, "vT1_PKT_llllliiiiii"},
    NamePart{"adaptive_average_poolI", Class::kPooling, ElementsFrom::kPooling, 2, 2, 0,
             GPEMU_OPERATION_POOLING, "vPKT_PS3_iiiil"},
    NamePart{"adaptive_average_gradinputI", Class::kPooling, ElementsFrom::kPooling, 2, 2, 0,
             GPEMU_OPERATION_POOLING_BACKWARD, "vPT_PKS3_iiii"},
    NamePart{"upsample_bilinear2d_out_frame", Class::kPooling, ElementsFrom::kArgument, 5},
    NamePart{"_pool", Class::kPooling, ElementsFrom::kThreads, 5},
    NamePart{"adaptive", Class::kPooling, ElementsFrom::kThreads, 5},
    NamePart{"upsample", Class::kPooling, ElementsFrom::kThreads, 5},
    NamePart{"conv_depthwise2d_forward_kernel", Class::kConvolution, ElementsFrom::kDepthwise, 12,
             5, 0, GPEMU_OPERATION_CONVOLUTION_FORWARD, "EEbT1_iiiiiiiiiiiiii"},
    NamePart{"conv_depthwise2d_forward_kernel_generic", Class::kConvolution,
             ElementsFrom::kDepthwise, 12, 5, 0, GPEMU_OPERATION_CONVOLUTION_FORWARD,
             "EEbT0_iiiiiiiiiiiiii"},
    NamePart{"conv_depthwise2d_backward_kernel", Class::kConvolution, ElementsFrom::kDepthwise, 12,
             3, 0, GPEMU_OPERATION_CONVOLUTION_BACKWARD_DATA, "T2_iiiiiiiiiiiiiii"},
    NamePart{"conv_depthwise2d_grad_weight_kernel", Class::kConvolution, ElementsFrom::kDepthwise,
             12, 3, 0, GPEMU_OPERATION_CONVOLUTION_BACKWARD_FILTER, "iiiiiiiiiiiiiiii"},
    NamePart{"conv_depthwise", Class::kConvolution, ElementsFrom::kThreads, 12},
    NamePart{"im2col", Class::kConvolution, ElementsFrom::kThreads, 10},
    NamePart{"col2im", Class::kConvolution, ElementsFrom::kThreads, 10},
    NamePart{"gemm", Class::kMatmul, ElementsFrom::kThreads, 64},
    NamePart{"RadixSort", Class::kSorting, ElementsFrom::kThreads, 40},
    NamePart{"radixSort", Class::kSorting, ElementsFrom::kThreads, 40},
    NamePart{"MergeSort", Class::kSorting, ElementsFrom::kThreads, 40},
    NamePart{"itonicSort", Class::kSorting, ElementsFrom::kThreads, 8},
    NamePart{"topk", Class::kSorting, ElementsFrom::kThreads, 16},
    NamePart{"TopK", Class::kSorting, ElementsFrom::kThreads, 16},
    NamePart{"Scan", Class::kSorting, ElementsFrom::kThreads, 24},
    NamePart{"scan", Class::kSorting, ElementsFrom::kThreads, 24},
    NamePart{"DeviceReduce", Class::kReduction, ElementsFrom::kThreads, 16},
    NamePart{"DeviceSelect", Class::kIndexing, ElementsFrom::kThreads, 24},
    NamePart{"indexSelect", Class::kIndexing, ElementsFrom::kThreads, 4},
    NamePart{"indexFunc", Class::kIndexing, ElementsFrom::kThreads, 4},
    NamePart{"index", Class::kIndexing, ElementsFrom::kThreads, 4},
    NamePart{"gather", Class::kIndexing, ElementsFrom::kThreads, 8},
    NamePart{"scatter", Class::kIndexing, ElementsFrom::kThreads, 4},
    NamePart{"embedding", Class::kIndexing, ElementsFrom::kThreads, 8},
    NamePart{"CatArrayBatchedCopy", Class::kCopy, ElementsFrom::kInputs, 8, 1},
    NamePart{"fused_dropout_kernel", Class::kElementwise, ElementsFrom::kArgument, 3, 3, 0,
             GPEMU_OPERATION_KERNEL, "T0_NS_15PhiloxCudaStateE"},
    NamePart{"dropout", Class::kElementwise, ElementsFrom::kThreads, 8},
    NamePart{"nll_loss_forward_reduce_cuda_kernel_2d", Class::kReduction, ElementsFrom::kArgument,
             2, 6, 0, GPEMU_OPERATION_REDUCTION, "_S6_bllll"},
    NamePart{"nll_loss_backward_reduce_cuda_kernel_2d", Class::kReduction, ElementsFrom::kArgument,
             2, 6, 0, GPEMU_OPERATION_REDUCTION, "_S6_S6_biill"},
    NamePart{"nll_loss", Class::kReduction, ElementsFrom::kThreads, 2},
};

/// Returns the number after `lead`, which is searched after `key`: 3 for "arrayI" and "Lm" in
/// "5arrayIPcLm3EE". `skip` characters lie between.
int number_behind(std::string_view name, std::string_view key, std::string_view lead, int otherwise,
                  std::size_t skip = 0) {
  std::size_t found = name.find(key);
  if (found == std::string_view::npos) return otherwise;
  found = name.find(lead, found + key.size());
  if (found == std::string_view::npos) return otherwise;
  int number = otherwise;
  name.remove_prefix(std::min(found + lead.size() + skip, name.size()));
  std::from_chars(name.data(), name.data() + name.size(), number);
  return std::clamp(number, 1, 1024);
}

/// PyTorch's types are c10::Half, "N3c104HalfE"; where the name has had "c10" before, a number
/// stands for it: "NS5_4HalfE".
gpemu_data_type type_in(std::string_view name) {
  constexpr std::array kBfloat = {"c108BFloat16E", "_8BFloat16E", "10bfloat16_tE", "_bf16_"};
  constexpr std::array kHalf = {"c104HalfE", "_4HalfE", "6half_tE", "_f16_"};
  const auto in_name = [&](const char* part) { return contains(name, part); };
  if (contains(name, "7complexIfE")) return GPEMU_TYPE_COMPLEX64;
  if (contains(name, "7complexIdE")) return GPEMU_TYPE_COMPLEX128;
  if (std::ranges::any_of(kBfloat, in_name)) return GPEMU_TYPE_BF16;
  return std::ranges::any_of(kHalf, in_name) ? GPEMU_TYPE_FP16 : GPEMU_TYPE_FP32;
}

/// Returns the type behind the first `lead` in a name, by its mangled letter. Of several operands,
/// conditions do not count.
std::optional<gpemu_data_type> letter_behind(std::string_view name, std::string_view lead) {
  using Letter = std::pair<char, gpemu_data_type>;
  constexpr std::array kLetters = {Letter{'f', GPEMU_TYPE_FP32},  Letter{'l', GPEMU_TYPE_INT64},
                                   Letter{'i', GPEMU_TYPE_INT32}, Letter{'s', GPEMU_TYPE_INT16},
                                   Letter{'a', GPEMU_TYPE_INT8},  Letter{'h', GPEMU_TYPE_INT8},
                                   Letter{'d', GPEMU_TYPE_FP64}};
  const std::size_t found = name.find(lead);
  if (found == std::string_view::npos) return std::nullopt;
  name.remove_prefix(found + lead.size());
  const std::size_t first = std::min(name.find_first_not_of('b'), name.size());
  const auto* const letter = std::ranges::find_if(kLetters, [&](const Letter& candidate) {
    return first < name.size() && candidate.first == name[first];
  });
  if (letter != kLetters.end()) return letter->second;
  if (first > 0) return GPEMU_TYPE_INT8;
  return std::nullopt;
}

/// Returns the type of the first operand of PyTorch's element-wise kernels: that of their functor,
/// such as FillFunctor<long>, or of their lambda's argument.
gpemu_data_type functor_type(std::string_view name, gpemu_data_type otherwise) {
  constexpr std::array kLeads = {"FunctorI", "FunctorOnSelf_addI", "Functor_addI", "EUl"};
  for (const char* const lead : kLeads) {
    if (const auto type = letter_behind(name, lead)) return *type;
  }
  return otherwise;
}

/// Recognises PyTorch's conversion from 32 to 16 bits. Of the type that it writes, it reads two for
/// each. Source: float16_copy_kernel_cuda and bfloat16_copy_kernel_cuda in
/// aten/src/ATen/native/cuda/Copy.cu.
void read_narrowing(std::string_view name, KernelTraits& traits) {
  if (!contains(name, "float16_copy_kernel_cuda") || traits.type != GPEMU_TYPE_FP32) return;
  traits.type = contains(name, "bfloat16_copy") ? GPEMU_TYPE_BF16 : GPEMU_TYPE_FP16;
  traits.tensors = 3;
}

/// Counts how often a kernel over lists of tensors reads or writes an element.
int list_accesses(std::string_view name, int lists) {
  // Fused optimizers write everything that they read, except the gradient.
  if (contains(name, "Fused")) return std::max(2 * lists - 1, 2);
  // The functor ends with the index of the list for the result; list 0 is also read.
  return contains(name, "ELi0EEE") ? lists + 1 : lists;
}

/// Finds the layout of the lists, and the type of their elements.
void read_lists(const KernelName& name, KernelTraits& traits) {
  if (name.parameters.empty()) return;
  traits.tensor_lists = tensor_lists(name.parameters[0]);
  if (!traits.tensor_lists) return;
  traits.elements = ElementsFrom::kLists;
  if (traits.type != GPEMU_TYPE_FP32) return;
  constexpr std::array kTypes = {GPEMU_TYPE_INT8, GPEMU_TYPE_INT16, GPEMU_TYPE_FP32,
                                 GPEMU_TYPE_FP64, GPEMU_TYPE_COMPLEX128};
  const std::uint32_t bytes = type_bytes(listed_type(name));
  for (const gpemu_data_type type : kTypes) {
    if (gpemu_data_type_bytes(type) == static_cast<int>(bytes)) traits.type = type;
  }
}

/// Counts the pointers that an element-wise kernel carries, one per tensor: array<char*, 3> is
/// "5arrayIPcLm3EE" from the standard library and "5ArrayIPcLi3EE" in earlier versions.
int tensors_of(std::string_view name, int otherwise) {
  return number_behind(name, "rrayIP", "cL", otherwise, 1);
}

/// Reads the sizes of the blocks of queries and of the heads from an attention kernel's name.
void read_attention(std::string_view name, KernelTraits& traits) {
  traits.attention =
      contains(name, "fmha_cutlass") ? GPEMU_ATTENTION_EFFICIENT : GPEMU_ATTENTION_FLASH;
  // After the traits, the name has whether there is dropout, and whether it is causal, e.g.
  // Flash_kernel_traits<64, 128, 128, 4, half_t>>, false, true, ...
  const std::size_t flags = name.find("EELb", name.find("19Flash_kernel_traits"));
  constexpr std::size_t kCausal = 8;
  traits.causal = flags != std::string_view::npos && flags + kCausal < name.size() &&
                  name[flags + kCausal] == '1';
  // Its grid says nothing about the queries; its argument does.
  if (contains(name, "fmha_cutlassB")) return;
  if (contains(name, "fmha_cutlass")) {
    // E.g. fmha_cutlassF_f32_aligned_64x128_rf_sm80: 64 queries, heads of at most 128 numbers.
    traits.rows_per_block = number_behind(name, "fmha_cutlass", "aligned_", 64);
    traits.head_size = number_behind(name, "aligned_", "x", 64);
    return;
  }
  // E.g. Flash_fwd_kernel_traits<64, 128, 128, ...>: heads of 64 numbers, blocks of 128 queries;
  // backwards, a block takes keys, whose size is the third.
  traits.head_size = number_behind(name, "kernel_traitsI", "Li", 64);
  const bool backward = contains(name, "flash_bwd");
  const std::size_t second = name.find("ELi", name.find("kernel_traitsI"));
  if (second == std::string_view::npos) return;
  const std::string_view rest = name.substr(second);
  const int queries = number_behind(rest, "E", "Li", 64);
  traits.rows_per_block = backward ? number_behind(rest.substr(1), "E", "Li", 64) : queries;
}

/// Reads how wide elements are, and how many inputs an argument has room for, from the name of
/// PyTorch's concatenation: CatArrayBatchedCopy<OpaqueType<4>, unsigned, 4, 128, 1> has elements of
/// 4 bytes in 4 dimensions and up to 128 inputs.
void read_concatenation(std::string_view name, KernelTraits& traits) {
  const std::size_t found = name.find("10OpaqueTypeILj");
  if (found == std::string_view::npos || !contains(name, "EEEjLi")) {
    traits.elements = ElementsFrom::kThreads;
    return;
  }
  constexpr std::array kTypes = {GPEMU_TYPE_INT8, GPEMU_TYPE_FP16, GPEMU_TYPE_FP32,
                                 GPEMU_TYPE_INT64, GPEMU_TYPE_COMPLEX128};
  const int width = number_behind(name, "10OpaqueTypeI", "Lj", 4);
  for (const gpemu_data_type type : kTypes) {
    if (gpemu_data_type_bytes(type) == width) traits.type = type;
  }
  traits.inputs = number_behind(name, "EEEjLi", "Li", 0);
}

/// Counts the parameters of the lambda that an element-wise kernel calls for each element, one per
/// input: its mangled name is the parameters' types between "EUl" and "E_". Returns 0 if it has
/// none, too many, or others than numbers.
int lambda_inputs(std::string_view name) {
  constexpr std::string_view kCaller = "EEvRNS_18TensorIteratorBase";
  constexpr int kMost = 7;
  name = name.substr(0, name.find(kCaller));
  const std::size_t found = name.rfind("EUl");
  if (found == std::string_view::npos) return 0;
  name.remove_prefix(found + 3);
  if (name.starts_with('v')) return 0;
  int count = 0;
  for (; !name.empty() && name.front() != 'E'; ++count) {
    // A class, such as "N3c104HalfE", what stands for an earlier one, such as "S8_", or a letter.
    const char last = name.front() == 'N' ? 'E' : name.front() == 'S' ? '_' : name.front();
    name.remove_prefix(std::min(name.find(last), name.size() - 1) + 1);
  }
  // Classes with parameters of their own end elsewhere.
  const bool ends = !name.empty() && name.back() == '_' &&
                    name.find_first_not_of("E0123456789") == name.size() - 1;
  return ends && count <= kMost ? count : 0;
}

/// Recognises element-wise kernels that compute the place of each element, and carry the tensors'
/// strides.
void read_strides(std::string_view name, KernelTraits& traits) {
  const bool strided = contains(name, "18elementwise_kernelI");
  if (strided) traits.access = GPEMU_ACCESS_STRIDED;
  if (contains(name, "unrolled_elementwise_kernel")) {
    traits.access = GPEMU_ACCESS_CONVERTED;
    traits.converted = number_behind(name, "12LoadWithCastI", "Li", 0);
  }
  if (!strided || !contains(name, "gpu_kernel_impl_nocast")) return;
  const bool unary = contains(name, "UnaryFunctor") || contains(name, "direct_copy_kernel");
  const bool binary = contains(name, "BinaryFunctor") || contains(name, "CUDAFunctor_add");
  const int inputs = unary ? 1 : binary ? 2 : lambda_inputs(name);
  if (inputs == 0) return;
  traits.tensors = inputs + 1;
  traits.elements = ElementsFrom::kOffsets;
}

gpemu_operation_kind kind_of(const NamePart& part, ElementsFrom elements) {
  if (part.kind != GPEMU_OPERATION_KERNEL) return part.kind;
  switch (elements) {
    case ElementsFrom::kCycles:
      return GPEMU_OPERATION_WAIT;
    case ElementsFrom::kReduction:
      return GPEMU_OPERATION_REDUCTION;
    case ElementsFrom::kRows:
    case ElementsFrom::kProduct:
      return part.operation_class == Class::kNormalization ? GPEMU_OPERATION_NORMALIZATION_FORWARD
                                                           : GPEMU_OPERATION_REDUCTION;
    default:
      return GPEMU_OPERATION_ELEMENTWISE;
  }
}

/// Returns whether a kernel belongs to PyTorch, or to a library inside it, by a namespace or the
/// source file in its name.
bool is_pytorch(std::string_view name) {
  constexpr std::array kSigns = {"2at6native",          "2at4cuda",           "at_cuda_detail",
                                 "SoftMax_cu",          "pytorch_flash",      "PyTorchMemEff",
                                 "_vectorized4_kernel", "_vectorized8_kernel"};
  return std::ranges::any_of(kSigns, [&](const char* sign) { return contains(name, sign); });
}

/// Returns whether a kernel's parameters have the types that the arguments are assumed to have:
/// sizes are integers, not pointers, and structs have a known layout.
bool has_arguments(const KernelTraits& traits, const std::vector<std::string>& parameters) {
  const auto integers = [&](int first, int count) {
    if (first < 0 || first + count > static_cast<int>(parameters.size())) return false;
    return std::ranges::all_of(
        parameters.begin() + first, parameters.begin() + first + count,
        [](const std::string& type) { return is_integer(parameter_kind(type)); });
  };
  const auto is_struct = [&](int index, std::string_view part) {
    return index < static_cast<int>(parameters.size()) &&
           parameter_kind(parameters[index]) == ParameterKind::kOther &&
           contains(parameters[index], part);
  };
  const int argument = traits.argument;
  switch (traits.elements) {
    case ElementsFrom::kThreads:
      return true;
    case ElementsFrom::kArgument:
      if (traits.converted > 0 && (!is_struct(KernelTraits::kLoader, "LoadWithCast<") ||
                                   !is_struct(KernelTraits::kStorer, "StoreWithCast<"))) {
        return false;
      }
      return integers(argument, 1);
    case ElementsFrom::kRows:
    case ElementsFrom::kCycles:
      return integers(argument, 1);
    case ElementsFrom::kOffsets:
      return integers(argument, 1) && is_struct(argument + 1, "");
    case ElementsFrom::kProduct:
      return integers(argument, 1) && integers(traits.second_argument, 1);
    case ElementsFrom::kReduction:
      return is_struct(0, "ReduceOp<");
    case ElementsFrom::kChunks:
    case ElementsFrom::kLists:
      return is_struct(0, "ListMetadata<");
    case ElementsFrom::kInputs:
      return is_struct(argument, "CatArrInputTensorMetadata<");
    case ElementsFrom::kAttention:
      return is_struct(0, "arams");
    case ElementsFrom::kAccessor:
      return is_struct(0, "GenericPackedTensorAccessor<");
    case ElementsFrom::kPooling:
      if (traits.second_argument == 0) return integers(argument, 4);  // Adaptive: no window.
      if (traits.images_first) return integers(argument - 2, 8);
      return integers(0, 1) && integers(argument, 6);
    case ElementsFrom::kDepthwise:
      return integers(argument, traits.kind == GPEMU_OPERATION_CONVOLUTION_FORWARD ? 15 : 16);
  }
  return false;
}

/// Returns the traits of a kernel without reading its arguments.
KernelTraits threads_only(KernelTraits traits, const NamePart& part) {
  traits.elements = ElementsFrom::kThreads;
  traits.kind = kind_of(part, traits.elements);
  return traits;
}

/// Reads what else the name says.
void read_name(const KernelName& read, KernelTraits& traits) {
  const std::string_view name = read.mangled;
  switch (traits.elements) {
    case ElementsFrom::kAttention:
      read_attention(name, traits);
      break;
    case ElementsFrom::kChunks:
      read_lists(read, traits);
      traits.tensors = list_accesses(name, traits.tensor_lists ? traits.tensor_lists->lists : 2);
      break;
    case ElementsFrom::kArgument:
      // PyTorch's element-wise kernels carry an array of pointers, one per tensor.
      traits.tensors = tensors_of(name, traits.tensors);
      if (traits.operation_class != Class::kElementwise) break;
      read_strides(name, traits);
      if (traits.type == GPEMU_TYPE_FP32) traits.type = functor_type(name, traits.type);
      read_narrowing(name, traits);
      break;
    case ElementsFrom::kInputs:
      read_concatenation(name, traits);
      break;
    default:
      break;
  }
}

}  // namespace

KernelTraits kernel_traits(std::string_view mangled_name) {
  KernelTraits traits{.foreign = !is_pytorch(mangled_name), .type = type_in(mangled_name)};
  const auto part = std::ranges::find_if(kNameParts, [&](const NamePart& candidate) {
    return contains(mangled_name, candidate.part) && contains(mangled_name, candidate.signature);
  });
  if (part == kNameParts.end()) return traits;
  traits.operation_class = part->operation_class;
  traits.tensors = part->tensors;
  traits.argument = part->argument;
  traits.second_argument = part->second_argument;
  traits.elements = part->elements;
  traits.kind = kind_of(*part, traits.elements);
  if (traits.elements == ElementsFrom::kThreads) return traits;
  const KernelTraits by_threads = threads_only(traits, *part);
  // Other software may have a kernel with the name of one of PyTorch's; its arguments must not be
  // read.
  if (traits.foreign) return by_threads;
  traits.images_first = contains(mangled_name, "max_pool_backward") ||
                        contains(mangled_name, "max_pool_forward_nhwc");
  traits.channels_last = contains(mangled_name, "channels_last_kernel");
  const KernelName name = read_kernel_name(mangled_name);
  read_name(name, traits);
  return name.is_cpp && has_arguments(traits, name.parameters) ? traits : by_threads;
}

}  // namespace gpemu::kernels
