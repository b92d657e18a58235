// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/kernels/kernel_traits.hpp"

namespace gpemu::kernels {
namespace {

// The names below are kernels of PyTorch 2.8 and 2.15.

constexpr const char* kAdd =
    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEE"
    "St5arrayIPcLm3EEEEviT0_T1_";
constexpr const char* kStridedAdd =
    "_ZN2at6native18elementwise_kernelILi128ELi2EZNS0_22gpu_kernel_impl_nocastINS0_15CUDAFunctor_"
    "addIfEEEEvRNS_18TensorIteratorBaseERKT_EUliE_EEviT1_";
constexpr const char* kStridedScale =
    "_ZN2at6native18elementwise_kernelILi128ELi2EZNS0_22gpu_kernel_impl_nocastINS0_13BUnaryFunctor"
    "IfffNS0_15binary_internal10MulFunctorIfEEEEEEvRNS_18TensorIteratorBaseERKT_EUliE_EEviT1_";
constexpr const char* kStridedWhere =
    "_ZN2at6native18elementwise_kernelILi128ELi2EZNS0_22gpu_kernel_impl_nocastIZZZNS0_49_GLOBAL__N_"
    "_"
    "d2ba64fb_16_TensorCompare_cu_71e06f4e17where_kernel_implERNS_14TensorIteratorEENKUlvE_clEvENK"
    "UlvE9_clEvEUlbffE_EEvRNS_18TensorIteratorBaseERKT_EUliE_EEviT1_";
constexpr const char* kConversion =
    "_ZN2at6native27unrolled_elementwise_kernelIZZZNS0_23direct_copy_kernel_cudaERNS_18Tensor"
    "IteratorBaseEENKUlvE1_clEvENKUlvE5_clEvEUlfE_St5arrayIPcLm2EELi4E23TrivialOffsetCalculator"
    "ILi1EjESB_NS0_6memory12LoadWithCastILi1EEENSC_13StoreWithCastILi1EEEEEviT_T0_T2_T3_T4_T5_";
constexpr const char* kConvertingAdd =
    "_ZN2at6native27unrolled_elementwise_kernelINS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EELi4E23"
    "TrivialOffsetCalculatorILi2EjES7_ILi1EjENS0_6memory12LoadWithCastILi2EEENSA_13StoreWithCast"
    "ILi1EEEEEviT_T0_T2_T3_T4_T5_";
constexpr const char* kConcatenationKernel =
    "_ZN2at6native40_GLOBAL__N__0f1a8107_8_Shape_cu_49f7391c35CatArrayBatchedCopy_alignedK_contig"
    "INS1_10OpaqueTypeILj2EEEjLi4ELi128ELi1ELi16EEEvPT_NS1_25CatArrInputTensorMetadataIS5_T0_XT2_"
    "EXT3_EEENS1_16TensorSizeStrideIS8_Lj4EEEiS8_";
constexpr const char* kDepthwiseKernel =
    "_ZN2at6native51_GLOBAL__N__a30dace1_18_DepthwiseConv2d_cu_9959487031conv_depthwise2d_forward_"
    "kernelILi3EfiEEvNS_27GenericPackedTensorAccessorIKT0_Lm4ENS_16DefaultPtrTraitsEiEENS3_IS4_Lm4"
    "ES6_iEES7_NS3_IS5_Lm1ES6_iEEbT1_iiiiiiiiiiiiii";
constexpr const char* kDepthwiseBackward =
    "_ZN2at6native51_GLOBAL__N__a30dace1_18_DepthwiseConv2d_cu_9959487032conv_depthwise2d_backward"
    "_kernelILi3ELi2EfiEEvNS_27GenericPackedTensorAccessorIKT1_Lm4ENS_16DefaultPtrTraitsEiEENS3_"
    "IS4_Lm4ES6_iEES7_T2_iiiiiiiiiiiiiii";
constexpr const char* kDepthwiseFilter =
    "_ZN2at6native51_GLOBAL__N__a30dace1_18_DepthwiseConv2d_cu_9959487035conv_depthwise2d_grad_"
    "weight_kernelIfjEEvNS_27GenericPackedTensorAccessorIKT_Lm4ENS_16DefaultPtrTraitsEiEES7_NS3_"
    "IS4_Lm4ES6_iEEiiiiiiiiiiiiiiii";
constexpr const char* kMaxPool =
    "_ZN2at6native52_GLOBAL__N__e57809e0_19_DilatedMaxPool2d_cu_6258b57421max_pool_forward_nchwIfEE"
    "viPKT_llliiiiiiiiiiPS3_Pl";
constexpr const char* kMaxPoolBackward =
    "_ZN2at6native52_GLOBAL__N__e57809e0_19_DilatedMaxPool2d_cu_6258b57422max_pool_backward_nchwIff"
    "EEvPKT_PKlillliiiiiiiiiiPS3_";
constexpr const char* kAveragePoolBackward =
    "_ZN2at6native49_GLOBAL__N__834c9086_16_AveragePool2d_cu_fb80407634avg_pool2d_backward_out_cuda"
    "_frameIffiEEvT1_PKT_llllliiiiiiPS4_ibb";
constexpr const char* kAdaptivePool =
    "_ZN2at6native58_GLOBAL__N__1076efdf_25_AdaptiveAveragePooling_cu_ef17039c21adaptive_average_"
    "poolIfEEvPKT_PS3_iiiilll";
constexpr const char* kBatchNormStatistics =
    "_ZN2at6native36batch_norm_collect_statistics_kernelINS0_3VarEN3c104HalfES4_fiEEvNS_27Generic"
    "PackedTensorAccessorIKT0_Lm3ENS_17RestrictPtrTraitsET3_EET2_SB_NS5_ISB_Lm1ES8_S9_EESC_";
constexpr const char* kBatchNormTransform =
    "_ZN2at6native33batch_norm_transform_input_kernelIN3c104HalfES3_fLb1EiEEvNS_27GenericPacked"
    "TensorAccessorIKT_Lm3ENS_17RestrictPtrTraitsET3_EENS4_IS5_Lm3ES7_S8_EENS4_INSt11conditionalIX"
    "T2_ET1_T0_E4typeELm1ES7_S8_EESG_NS4_IKSD_Lm1ES7_S8_EESI_SC_";
constexpr const char* kBatchNormBackward =
    "_ZN2at6native26batch_norm_backward_kernelIN3c104HalfES3_fiEEvNS_27GenericPackedTensorAccessor"
    "IKT_Lm3ENS_16DefaultPtrTraitsET2_EES9_NS4_IS5_Lm3ES7_S8_EENS4_IT0_Lm1ES7_S8_EESC_NS4_IKSB_Lm1"
    "ES7_S8_EESE_SE_NS4_IKT1_Lm1ES7_S8_EESH_bSF_";
constexpr const char* kBatchNormBackwardReduce =
    "_ZN2at6native33batch_norm_backward_reduce_kernelIN3c104HalfEffiEEvNS_27GenericPackedTensor"
    "AccessorIT_Lm3ENS_16DefaultPtrTraitsET2_EES8_NS4_IT1_Lm1ES6_S7_EESA_SA_SA_NS4_IT0_Lm1ES6_S7_"
    "EESC_";
constexpr const char* kBatchNormBackwardElements =
    "_ZN2at6native32batch_norm_backward_elemt_kernelIN3c108BFloat16ES3_fiEEvNS_"
    "27GenericPackedTensor"
    "AccessorIT_Lm3ENS_16DefaultPtrTraitsET2_EES8_NS4_IT1_Lm1ES6_S7_EESA_NS4_IT0_Lm1ES6_S7_EESA_SA_"
    "S8_PKii";
constexpr const char* kFlash =
    "_ZN13pytorch_flash16flash_fwd_kernelI23Flash_fwd_kernel_traitsILi96ELi128ELi64ELi4ELb0ELb0EN7"
    "cutlass6half_tE19Flash_kernel_traitsILi96ELi128ELi64ELi4ES3_EELb0ELb0ELb0ELb0ELb0ELb1ELb0E"
    "Lb0EEEvNS_16Flash_fwd_paramsE";
constexpr const char* kEfficient =
    "_Z39fmha_cutlassF_f16_aligned_64x64_rf_sm80N22PyTorchMemEffAttention15AttentionKernelIN7"
    "cutlass6half_tENS1_4arch4Sm80ELb1ELi64ELi64ELi64ELb1ELb1EE6ParamsE";
constexpr const char* kEfficientBackward =
    "_Z40fmha_cutlassB_f16_aligned_64x64_k64_sm80N22PyTorchMemEffAttention23AttentionBackwardKernel"
    "IN7cutlass4arch4Sm80ENS1_6half_tELb1ELb0ELb0ELi64ELi64ELi64ELb0EE6ParamsE";
constexpr const char* kUnknownKernel = "_Z3addPfS_S_";

/// Arguments of a launch: integers, in 64 bits, of which kernels may take the low half.
class Launched {
 public:
  Launched(const char* name, std::initializer_list<std::int64_t> grid_and_block,
           std::initializer_list<std::int64_t> arguments = {})
      : values_(arguments) {
    for (std::int64_t& value : values_) arguments_.push_back(&value);
    operation_.struct_size = sizeof(operation_);
    operation_.kind = GPEMU_OPERATION_KERNEL;
    operation_.name = name;
    std::ranges::copy(grid_and_block, operation_.shape);
  }
  void set(std::size_t index, void* argument) { arguments_.at(index) = argument; }

  [[nodiscard]] DescribedOperation describe() {
    operation_.arguments = arguments_.empty() ? nullptr : arguments_.data();
    return describe_kernel(kernel_traits(operation_.name), operation_);
  }
  [[nodiscard]] std::vector<std::int64_t> shape() {
    const gpemu_operation operation = describe().operation;
    std::vector<std::int64_t> shape(std::begin(operation.shape), std::end(operation.shape));
    while (!shape.empty() && shape.back() == 0) shape.pop_back();
    return shape;
  }
  [[nodiscard]] gpemu_operation_kind kind() { return describe().operation.kind; }

 private:
  std::vector<std::int64_t> values_;
  std::vector<void*> arguments_;
  gpemu_operation operation_{};
};

using Shape = std::vector<std::int64_t>;

/// Images of a pooling, and the elements of its input and output.
constexpr std::int64_t kImages = 6;
constexpr std::int64_t kInput = kImages * 55 * 57;
constexpr std::int64_t kOutput = kImages * 27 * 28;
/// Images of a depthwise convolution.
constexpr std::int64_t kBatch = 4;

TEST(KernelDescription, ElementWiseKernelsReadAndWrite) {
  Launched add(kAdd, {8, 1, 1, 128, 1, 1}, {1000});
  EXPECT_EQ(add.kind(), GPEMU_OPERATION_ELEMENTWISE);
  EXPECT_EQ(add.shape(), (Shape{2000, 1000}));
  EXPECT_EQ(add.describe().operation.access, GPEMU_ACCESS_CONTIGUOUS);
  EXPECT_EQ(add.describe().operation.arguments, nullptr);
  EXPECT_STREQ(add.describe().operation.name, kAdd);
}

/// Sizes and strides of three tensors: 6 x 50 x 10, the last one the same along all but one.
std::array<std::int32_t, 256> offsets(int tensors) {
  std::array<std::int32_t, 256> ints{3};
  const std::array<std::int32_t, 3> sizes = {10, 50, 6};
  for (std::size_t i = 0; i < 3; ++i) {
    ints.at(1 + 3 * i) = sizes.at(i);
    for (int tensor = 0; tensor < tensors; ++tensor) {
      ints.at(76 + static_cast<std::size_t>(tensors) * i + static_cast<std::size_t>(tensor)) =
          tensor < 2 || i == 1 ? 4 : 0;
    }
  }
  return ints;
}

TEST(KernelDescription, WhatIsBroadcastIsReadOnce) {
  Launched add(kStridedAdd, {24, 1, 1, 128, 1, 1}, {3000, 0});
  auto three = offsets(3);
  add.set(1, three.data());
  EXPECT_EQ(add.shape(), (Shape{3050, 3000}));
  EXPECT_EQ(add.describe().operation.access, GPEMU_ACCESS_STRIDED);
  three[1] = 11;  // Sizes of tensors that are not the launch's are ignored.
  EXPECT_EQ(add.shape(), (Shape{6000, 3000}));
  Launched scale(kStridedScale, {24, 1, 1, 128, 1, 1}, {3000, 0});
  auto two = offsets(2);
  scale.set(1, two.data());
  EXPECT_EQ(scale.shape(), (Shape{3000, 3000}));
  Launched where(kStridedWhere, {24, 1, 1, 128, 1, 1}, {3000, 0});  // With two small operands.
  auto four = offsets(4);
  where.set(1, four.data());
  EXPECT_EQ(where.shape(), (Shape{3100, 3000}));
}

TEST(KernelDescription, ElementsThatLieApartAreReadOneByOne) {
  constexpr std::int64_t kRows = 64, kColumns = 96;
  Launched scale(kStridedScale, {48, 1, 1, 128, 1, 1}, {kRows * kColumns, 0});
  const auto transposed = [](std::int32_t size, std::int32_t stride, std::int32_t rest) {
    // The result's elements lie side by side.
    std::array<std::int32_t, 256> ints{2, size};
    ints[1 + 3] = static_cast<std::int32_t>(kRows * kColumns) / size;
    ints[76] = 4;
    ints[77] = stride;
    ints[78] = 4 * size;
    ints[79] = rest;
    return ints;
  };
  constexpr std::int64_t kAll = kRows * kColumns;
  auto all = transposed(64, 4 * 96, 4);
  scale.set(1, all.data());
  EXPECT_EQ(scale.shape(), (Shape{kAll, kAll, 0, 0, kAll})) << "a read for each thread";
  // Sixteen rows; two neighbours in each.
  auto heads = transposed(16, 4 * 384, 4);
  scale.set(1, heads.data());
  EXPECT_EQ(scale.shape(), (Shape{kAll, kAll, 0, 0, kAll / 2}));
  auto few = transposed(8, 4 * 768, 4);
  scale.set(1, few.data());
  EXPECT_EQ(scale.shape(), (Shape{kAll, kAll}));
  auto backwards = transposed(64, -4, -4 * 64);
  scale.set(1, backwards.data());
  EXPECT_EQ(scale.shape(), (Shape{kAll, kAll})) << "side by side, backwards";
}

/// An argument that converts tensors as a kernel reads or writes them.
template <std::size_t kTensors>
struct Cast {
  std::array<std::int8_t, kTensors> types{};
  std::array<std::uint32_t, kTensors> sizes{};
};

TEST(KernelDescription, WhatIsConvertedHasTheBytesOfItsTypes) {
  Launched copy(kConversion, {2, 1, 1, 128, 1, 1}, {1000, 0, 0, 0, 0, 0, 0});
  Cast<1> half{.types = {5}, .sizes = {2}}, single{.types = {6}, .sizes = {4}};
  copy.set(5, &half);
  copy.set(6, &single);
  EXPECT_EQ(copy.shape(), (Shape{500, 1000}));  // In elements of 32 bits.
  EXPECT_EQ(copy.describe().operation.type, GPEMU_TYPE_FP32);
  EXPECT_EQ(copy.describe().operation.access, GPEMU_ACCESS_CONVERTED);
  Launched add(kConvertingAdd, {2, 1, 1, 128, 1, 1}, {1000, 0, 0, 0, 0, 0, 0});
  Cast<2> mixed{.types = {6, 5}, .sizes = {4, 2}};
  add.set(5, &mixed);
  add.set(6, &half);
  EXPECT_EQ(add.shape(), (Shape{1500, 500}));
  mixed.sizes[1] = 17;  // Not a size: each has 32 bits.
  half.sizes[0] = 0;
  EXPECT_EQ(add.shape(), (Shape{2000, 1000}));
}

TEST(KernelDescription, ConcatenationCopiesItsInputs) {
  struct {
    const void* addresses[128];
    std::uint32_t offsets[128], sizes[128], elements[128];
  } inputs{};
  inputs.elements[0] = 5000;
  inputs.elements[1] = 300;
  inputs.elements[2] = 77;  // Not of this launch.
  Launched cat(kConcatenationKernel, {40, 2, 1, 128, 1, 1}, {0, 0});
  cat.set(1, &inputs);
  EXPECT_EQ(cat.kind(), GPEMU_OPERATION_ELEMENTWISE);
  EXPECT_EQ(cat.shape(), (Shape{5300, 5300}));
  EXPECT_EQ(cat.describe().operation_class, OperationClass::kCopy);
  EXPECT_EQ(gpemu_data_type_bytes(cat.describe().operation.type), 2);
}

TEST(KernelDescription, DepthwiseConvolutionsAreConvolutions) {
  // 4 images of 24 channels, 2 outputs each; 112 x 110 to 56 x 55, filters of 3 x 5, stride 2.
  const Shape expected = {4, 24, 48, 24, 2, 110, 112, 1, 5, 3, 1, 55, 56, 1, 2, 2, 1, 1, 1, 1};
  Launched forward(
      kDepthwiseKernel, {576, 1, 1, 1024, 1, 1},
      {0, 0, 0, 0, 0, kBatch * 48 * 56 * 55, 48, 2, 112, 110, 56, 55, 3, 5, 2, 2, 1, 2, 1, 1});
  EXPECT_EQ(forward.kind(), GPEMU_OPERATION_CONVOLUTION_FORWARD);
  EXPECT_EQ(forward.shape(), expected);
  Launched data(
      kDepthwiseBackward, {1155, 1, 1, 1024, 1, 1},
      {0, 0, 0, kBatch * 24 * 112 * 110, 24, 2, 48, 112, 110, 56, 55, 3, 5, 2, 2, 1, 2, 1, 1});
  EXPECT_EQ(data.kind(), GPEMU_OPERATION_CONVOLUTION_BACKWARD_DATA);
  EXPECT_EQ(data.shape(), expected);
  Launched filter(kDepthwiseFilter, {720, 1, 1, 128, 1, 1},
                  {0, 0, 0, 4, 24, 48, 2, 112, 110, 56, 55, 3, 5, 2, 2, 1, 2, 1, 1});
  EXPECT_EQ(filter.kind(), GPEMU_OPERATION_CONVOLUTION_BACKWARD_FILTER);
  EXPECT_EQ(filter.shape(), expected);
}

TEST(KernelDescription, ArgumentsOfADepthwiseConvolutionMayBeAnyNumbers) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  Launched forward(
      kDepthwiseKernel, {576, 1, 1, 1024, 1, 1},
      {0, 0, 0, 0, 0, 7, kMost, 1, kMost, kMost, kMost, kMost, 3, 5, 2, 2, 1, 2, 1, 1});
  EXPECT_EQ(forward.kind(), GPEMU_OPERATION_KERNEL) << "it writes less than one image";
}

TEST(KernelDescription, PoolingHasItsWindow) {
  // 2 images of 3 channels, 55 x 57 to 27 x 28, windows of 3 x 3.
  const Shape places = {kInput, kOutput, 9, 8};
  Launched maximum(kMaxPool, {18, 1, 1, 256, 1, 1},
                   {kOutput, 0, 3, 55, 57, 27, 28, 3, 3, 2, 2, 0, 0, 1, 1, 0, 0});
  EXPECT_EQ(maximum.kind(), GPEMU_OPERATION_POOLING);
  EXPECT_EQ(maximum.shape(), places);
  Launched backward(kMaxPoolBackward, {12, 3, 2, 256, 1, 1},
                    {0, 0, 2, 3, 55, 57, 27, 28, 3, 3, 2, 2, 0, 0, 1, 1, 0});
  EXPECT_EQ(backward.kind(), GPEMU_OPERATION_POOLING_BACKWARD);
  EXPECT_EQ(backward.shape(), places);
  Launched average(kAveragePoolBackward, {19, 1, 1, 1024, 1, 1},
                   {kInput, 0, 3, 55, 57, 27, 28, 3, 3, 2, 2, 0, 0, 0, 0, 0, 0});
  EXPECT_EQ(average.shape(), (Shape{kInput, kOutput, 9}));
  Launched adaptive(kAdaptivePool, {6, 1, 1, 32, 8, 1}, {0, 0, 14, 28, 7, 7, 0, 0, 0});
  EXPECT_EQ(adaptive.shape(), (Shape{kImages * 14 * 28, kImages * 49, 8}));
}

/// PyTorch's own batch normalization takes a tensor's address and its sizes.
TEST(KernelDescription, BatchNormHasTheSizesOfItsInput) {
  struct {
    const void* address = nullptr;
    std::int32_t sizes[3] = {12, 64, 112 * 112};
    std::int32_t strides[3] = {};
  } accessor;
  const auto describe = [&](const char* name) {
    Launched launched(name, {64, 1, 1, 512, 1, 1}, {0, 0});
    launched.set(0, &accessor);
    return launched.shape();
  };
  constexpr std::int64_t kElements = 12LL * 64 * 112 * 112;
  EXPECT_EQ(describe(kBatchNormStatistics), (Shape{kElements, 64, 1}));
  EXPECT_EQ(describe(kBatchNormTransform), (Shape{kElements, 0, 2}));
  EXPECT_EQ(describe(kBatchNormBackward), (Shape{kElements, 64, 5}));
  // As in synchronized batch normalization: the sums, and the gradients that need everyone's.
  EXPECT_EQ(describe(kBatchNormBackwardReduce), (Shape{kElements, 64, 2}));
  EXPECT_EQ(describe(kBatchNormBackwardElements), (Shape{kElements, 0, 3}));
  accessor.sizes[1] = -1;
  EXPECT_EQ(describe(kBatchNormBackward).size(), 8U) << "a launch whose argument makes no sense";
}

/// Arguments of attention kernels: see kernel_description.cpp.
using Numbers = std::array<std::int32_t, 80>;

TEST(KernelDescription, FlashAttentionHasTheSizesOfItsArgument) {
  Launched flash(kFlash, {1, 100, 12, 128, 1, 1}, {0});
  Numbers numbers{};
  numbers[24] = 12;  // Heads of queries.
  numbers[25] = 4;   // Heads of keys.
  constexpr std::array kSizes = {100, 16, 300, 0, 80, 128, 384, 96};
  std::ranges::copy(kSizes, numbers.begin() + 44);
  flash.set(0, numbers.data());
  EXPECT_EQ(flash.shape(), (Shape{100, 12, 4, 16, 300, 80, 0, GPEMU_ATTENTION_FLASH}));
  numbers[49] = 64;  // The queries rounded up are not so many: another layout.
  EXPECT_EQ(flash.shape(), (Shape{12, 100, 100, 128, 128, 96, 0, GPEMU_ATTENTION_FLASH}));
  numbers.fill(std::numeric_limits<std::int32_t>::max());
  EXPECT_EQ(flash.shape(), (Shape{12, 100, 100, 128, 128, 96, 0, GPEMU_ATTENTION_FLASH}));
}

TEST(KernelDescription, EfficientAttentionHasTheSizesOfItsArgument) {
  Launched efficient(kEfficient, {3, 12, 5, 32, 4, 1}, {0});
  Numbers numbers{};
  constexpr std::array kSizes = {64, 64, 144, 77, 0};
  std::ranges::copy(kSizes, numbers.begin() + 24);
  efficient.set(0, numbers.data());
  EXPECT_EQ(efficient.shape(), (Shape{5, 12, 12, 144, 77, 64, 0, GPEMU_ATTENTION_EFFICIENT}));
  numbers[29] = 1;  // Causal.
  EXPECT_EQ(efficient.describe().operation.shape[6], 1);
  numbers[29] = 256;  // Not of the byte.
  EXPECT_EQ(efficient.describe().operation.shape[6], 0);
  numbers[26] = 200;  // More than three blocks of queries.
  EXPECT_EQ(efficient.shape(), (Shape{5, 12, 12, 192, 192, 64, 0, GPEMU_ATTENTION_EFFICIENT}));
}

TEST(KernelDescription, EfficientAttentionMayBeCausalBackwards) {
  // As seen in PyTorch 2.8 and 2.15: the heads, the kind of attention, and strides.
  const auto causal = [](std::array<std::int32_t, 4> rest) {
    Launched backward(kEfficientBackward, {1, 12, 3, 32, 4, 1}, {0});
    Numbers numbers{};
    std::ranges::copy(std::array{40, 40, 100, 77}, numbers.begin() + 36);
    std::ranges::copy(rest, numbers.begin() + 40);
    backward.set(0, numbers.data());
    EXPECT_EQ(backward.shape()[3], 100);
    return backward.describe().operation.shape[6];
  };
  EXPECT_EQ(causal({12, 0x7f00, 0x300, 0}), 0);
  EXPECT_EQ(causal({12, 0x7f01, 0x300, 0}), 1);
  EXPECT_EQ(causal({12, 1, 0x10000, 0}), 0);
  EXPECT_EQ(causal({12, 1, 0x10001, 0}), 1);
}

TEST(KernelDescription, WithTheChannelsLast) {
  // Names of PyTorch 2.11. Batch normalization has the numbers of pixels and channels.
  const auto normalization = [](const char* name, std::initializer_list<std::int64_t> arguments) {
    Launched launched(name, {2, 128, 1, 32, 16, 1}, arguments);
    EXPECT_EQ(launched.describe().operation.channels_last, 1) << name;
    return launched.shape();
  };
  constexpr std::int64_t kElements = 50176 * 64;
  EXPECT_EQ(
      normalization("_ZN2at6native50batch_norm_collect_statistics_channels_last_kernelINS0_6Inv"
                    "StdEN3c104HalfEfLi4EEEvPKT0_PT1_S9_PVS8_PiiiS8_",
                    {0, 0, 0, 0, 0, 50176, 64, 0}),
      (Shape{kElements, 64, 1}));
  EXPECT_EQ(
      normalization("_ZN2at6native47batch_norm_transform_input_channels_last_kernelIN3c104HalfE"
                    "fS3_Li4EEEvPKT_S6_PKT0_S9_PKT1_SC_PS4_iib",
                    {0, 0, 0, 0, 0, 0, 0, 50176, 64, 0}),
      (Shape{kElements, 64, 2}));
  EXPECT_EQ(
      normalization("_ZN2at6native47batch_norm_backward_reduce_channels_last_kernelILi4EN3c104H"
                    "alfEfS3_EEvPKT0_S6_PKT1_S9_PS7_SA_PT2_SC_PVS7_Piii",
                    {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 50176, 64}),
      (Shape{kElements, 64, 2}));
  EXPECT_EQ(
      normalization("_ZN2at6native46batch_norm_backward_elemt_channels_last_kernelILi4EN3c104Ha"
                    "lfEfS3_EEvPKT0_S6_PKT1_S9_PKT2_S9_S9_PS4_S7_ii",
                    {0, 0, 0, 0, 0, 0, 0, 0, 0, 50176, 64}),
      (Shape{kElements, 64, 3}));
  // Max pooling has images and channels, then the sizes.
  Launched pooling(
      "_ZN2at6native52_GLOBAL__N__e57809e0_19_DilatedMaxPool2d_cu_6258b57421max_pool_forward_"
      "nhwcIN3c"
      "104HalfEiEEvPKT_iT0_S8_S8_S8_S8_iiiiiiiiS8_S8_S8_S8_iiPS5_Pl",
      {64, 1, 28, 32, 32, 1}, {0, 64, 64, 112, 112, 56, 56, 3, 3, 2, 2, 1, 1, 1, 1});
  EXPECT_EQ(pooling.kind(), GPEMU_OPERATION_POOLING);
  EXPECT_EQ(pooling.shape(), (Shape{64LL * 64 * 112 * 112, 64LL * 64 * 56 * 56, 9, 8}));
}

TEST(KernelDescription, UnknownKernelsKeepTheirLaunch) {
  Launched unknown(kUnknownKernel, {10, 2, 1, 64, 1, 1, 256}, {7});
  EXPECT_EQ(unknown.kind(), GPEMU_OPERATION_KERNEL);
  EXPECT_EQ(unknown.shape(), (Shape{10, 2, 1, 64, 1, 1, 256, 15360}));
  EXPECT_EQ(unknown.describe().operation.arguments, nullptr);
}

TEST(KernelDescription, OtherArgumentsAreNotRead) {
  // As kMaxPool, with another argument in front.
  Launched other(
      "_ZN2at6native52_GLOBAL__N__e57809e0_19_DilatedMaxPool2d_cu_6258b57421max_pool_forward_nchwI"
      "fEEvPKT_llliiiiiiiiiiPS3_Pl",
      {18, 1, 1, 256, 1, 1}, {1, 2, 3});
  EXPECT_EQ(other.kind(), GPEMU_OPERATION_KERNEL);
  // Impossible sizes, and none at all.
  Launched empty(kDepthwiseKernel, {10, 1, 1, 1024, 1, 1},
                 {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  EXPECT_EQ(empty.kind(), GPEMU_OPERATION_KERNEL);
  EXPECT_EQ(empty.describe().operation_class, OperationClass::kConvolution);
  for (const char* name : {kDepthwiseFilter, kMaxPool, kConcatenationKernel, kAdaptivePool}) {
    Launched none(name, {10, 1, 1, 64, 1, 1});
    EXPECT_EQ(none.kind(), GPEMU_OPERATION_KERNEL) << name;
  }
}

}  // namespace
}  // namespace gpemu::kernels
