// SPDX-License-Identifier: Apache-2.0
#include "gpemu/kernels/kernel_traits.hpp"

#include <string>

#include <gtest/gtest.h>

namespace gpemu::kernels {
namespace {

using Class = OperationClass;

// The names below are kernels of PyTorch 2.15.

TEST(KernelTraits, CountsTheTensorsOfElementWiseKernels) {
  const KernelTraits traits = kernel_traits(
      "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIN3c104HalfEEE"
      "St5arrayIPcLm3EELb0EEEviT0_T1_");
  EXPECT_EQ(traits.operation_class, Class::kElementwise);
  EXPECT_EQ(traits.elements, ElementsFrom::kArgument);
  EXPECT_EQ(traits.argument, 0);
  EXPECT_EQ(traits.tensors, 3);
  EXPECT_EQ(traits.type, GPEMU_TYPE_FP16);
}

TEST(KernelTraits, ReadsTheArraysOfEarlierVersions) {
  const KernelTraits traits = kernel_traits(
      "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEE"
      "NS_6detail5ArrayIPcLi1EEEEEviT0_T1_");
  EXPECT_EQ(traits.tensors, 1);
  EXPECT_EQ(traits.type, GPEMU_TYPE_FP32);
}

TEST(KernelTraits, ReadsTheTypesOfIntegersAndComplexNumbers) {
  const auto type_of = [](const std::string& functor) {
    return kernel_traits("_ZN2at6native29vectorized_elementwise_kernelILi4E" + functor +
                         "St5arrayIPcLm2EEEEviT0_T1_")
        .type;
  };
  // What counts the batches in batch normalization.
  EXPECT_EQ(type_of("NS0_21CUDAFunctorOnSelf_addIlEE"), GPEMU_TYPE_INT64);
  EXPECT_EQ(type_of("NS0_15CUDAFunctor_addIiEE"), GPEMU_TYPE_INT32);
  EXPECT_EQ(type_of("NS0_11FillFunctorIdEE"), GPEMU_TYPE_FP64);
  EXPECT_EQ(type_of("NS0_13AUnaryFunctorIN3c107complexIdEES5_S5_EE"), GPEMU_TYPE_COMPLEX128);
  EXPECT_EQ(type_of("NS0_13BinaryFunctorIbbbNS0_17BitwiseAndFunctorIbEEEE"), GPEMU_TYPE_INT8);
  EXPECT_EQ(type_of("NS0_15CUDAFunctor_addIfEE"), GPEMU_TYPE_FP32);
  // Lambdas: clamp(long), where(bool, long, long) and where(bool, float, float).
  EXPECT_EQ(
      type_of("ZZZNS0_49_GLOBAL__N__d2ba64fb_16_TensorCompare_cu_71e06f4e19launch_clamp_scalar"
              "ERNS_18TensorIteratorBaseEN3c106ScalarES6_NS0_6detail11ClampLimitsEENKUlvE_"
              "clEvENKUlvE2_clEvEUllE_"),
      GPEMU_TYPE_INT64);
  const std::string where =
      "ZZZNS0_49_GLOBAL__N__d2ba64fb_16_TensorCompare_cu_71e06f4e17where_kernel_implERNS_14Tensor"
      "IteratorEENKUlvE_clEvENKUlvE6_clEvEUlb";
  EXPECT_EQ(type_of(where + "llE_"), GPEMU_TYPE_INT64);
  EXPECT_EQ(type_of(where + "ffE_"), GPEMU_TYPE_FP32);
  EXPECT_EQ(type_of(where + "bbE_"), GPEMU_TYPE_INT8);
  EXPECT_EQ(type_of("NS0_15CUDAFunctor_addIN3c107complexIfEEEE"), GPEMU_TYPE_COMPLEX64);
}

TEST(KernelTraits, CountsTheInputsOfStridedLambdas) {
  const auto traits_of = [](const std::string& inputs) {
    return kernel_traits(
        "_ZN2at6native18elementwise_kernelILi128ELi2EZNS0_22gpu_kernel_impl_nocastIZZZNS0_49_GLOBAL"
        "__N__d2ba64fb_16_TensorCompare_cu_71e06f4e17where_kernel_implERNS_14TensorIteratorEENKUlvE"
        "_clEvENKUlvE9_clEvEUl" +
        inputs + "EEvRNS_18TensorIteratorBaseERKT_EUliE_EEviT1_");
  };
  EXPECT_EQ(traits_of("bffE_").elements, ElementsFrom::kOffsets);
  EXPECT_EQ(traits_of("bffE_").tensors, 4);
  EXPECT_EQ(traits_of("fbE0_").tensors, 3);
  EXPECT_EQ(traits_of("bN3c104HalfES8_E_").tensors, 4);
  // Its strides must not be read, because the number of inputs is not certain.
  EXPECT_EQ(traits_of("N3c107complexIfEES8_E_").elements, ElementsFrom::kArgument);
  EXPECT_EQ(traits_of("vE_").elements, ElementsFrom::kArgument);
}

TEST(KernelTraits, ReadsTypesOfWhichThePrefixIsANumber) {
  // clamp(c10::Half), which ReLU is, and clamp(c10::BFloat16): the name has had "c10" before.
  const std::string clamp =
      "_ZN2at6native29vectorized_elementwise_kernelILi4EZZZNS0_49_GLOBAL__N__d2ba64fb_16_TensorComp"
      "are_cu_71e06f4e19launch_clamp_scalarERNS_18TensorIteratorBaseEN3c106ScalarES6_NS0_6detail11"
      "ClampLimitsEENKUlvE_clEvENKUlvE6_clEvEUlNS5_";
  const std::string end = "E_St5arrayIPcLm2EEEEviT0_T1_";
  EXPECT_EQ(kernel_traits(clamp + "4HalfE" + end).type, GPEMU_TYPE_FP16);
  EXPECT_EQ(kernel_traits(clamp + "8BFloat16E" + end).type, GPEMU_TYPE_BF16);
  EXPECT_EQ(kernel_traits(clamp + "4HalfE" + end).tensors, 2);
}

TEST(KernelTraits, CountsTheBytesOfConversionsTo16Bits) {
  const auto conversion = [](const std::string& kernel, const std::string& argument) {
    return kernel_traits("_ZN2at6native29vectorized_elementwise_kernelILi4EZNS0_" + kernel +
                         "ERNS_18TensorIteratorBaseEEUl" + argument +
                         "E_St5arrayIPcLm2EEEEviT0_T1_");
  };
  const KernelTraits half = conversion("24float16_copy_kernel_cuda", "f");
  EXPECT_EQ(half.type, GPEMU_TYPE_FP16);
  EXPECT_EQ(half.tensors, 3);  // 32 bits read, and 16 written.
  EXPECT_EQ(conversion("25bfloat16_copy_kernel_cuda", "f").type, GPEMU_TYPE_BF16);
  EXPECT_EQ(conversion("25bfloat16_copy_kernel_cuda", "f").tensors, 3);
  // A copy within 16 bits.
  EXPECT_EQ(conversion("24float16_copy_kernel_cuda", "N3c104HalfE").tensors, 2);
}

TEST(KernelTraits, LeavesTheArgumentsOfOthersAlone) {
  EXPECT_EQ(kernel_traits("_Z21my_elementwise_kernelPfS_").elements, ElementsFrom::kThreads);
  EXPECT_EQ(kernel_traits("_Z13reduce_kernelIfEvPT_").elements, ElementsFrom::kThreads);
  EXPECT_EQ(kernel_traits("").operation_class, Class::kOther);
  EXPECT_EQ(kernel_traits("_Z3addPfS_S_").operation_class, Class::kOther);
}

TEST(KernelTraits, KnowsWhatIsCompiledAtRunTime) {
  const KernelTraits traits = kernel_traits("gcd_name_vectorized4_kernel");
  EXPECT_EQ(traits.operation_class, Class::kElementwise);
  EXPECT_EQ(traits.elements, ElementsFrom::kThreads);
  EXPECT_EQ(traits.tensors, 8);
}

TEST(KernelTraits, CountsTheListsOfOptimizers) {
  const KernelTraits fused = kernel_traits(
      "_ZN2at6native51_GLOBAL__N__b7f847be_18_fused_adam_impl_cu_454205f325multi_tensor_apply_"
      "kernelINS1_32FusedOptimizerTensorListMetadataILi4EEENS1_20FusedAdamMathFunctorIfLi4ELNS0_"
      "9ADAM_MODEE0ELb0EEEJPKfdddddbS9_S9_EEEvT_T0_DpT1_");
  EXPECT_EQ(fused.operation_class, Class::kOptimizer);
  EXPECT_EQ(fused.elements, ElementsFrom::kLists);
  ASSERT_TRUE(fused.tensor_lists.has_value());
  EXPECT_EQ(fused.tensor_lists->lists, 4);
  EXPECT_EQ(fused.tensor_lists->tensor_bytes, 8U);  // The address of its step.
  EXPECT_EQ(fused.tensors, 7);                      // Four lists read, three written.
  const KernelTraits zero = kernel_traits(
      "_ZN2at6native50_GLOBAL__N__637ba612_17_ForeachUnaryOp_cu_77fe623d25multi_tensor_apply_"
      "kernelINS1_18TensorListMetadataILi1EEENS1_11ZeroFunctorIfLi1ELi1ELi0EEEJEEEvT_T0_DpT1_");
  EXPECT_EQ(zero.tensors, 2);
  EXPECT_EQ(zero.elements, ElementsFrom::kLists);
  EXPECT_EQ(zero.tensor_lists, tensor_lists("TensorListMetadata<1>"));
  const KernelTraits add = kernel_traits(
      "_ZN2at6native25multi_tensor_apply_kernelINS1_18TensorListMetadataILi3ELb1EEE"
      "NS1_24PointwiseOpScalarFunctorIfLi3ELi3ELi0EEEJSt4plusIfEfEEEvT_T0_DpT1_");
  EXPECT_EQ(add.tensor_lists, tensor_lists("TensorListMetadata<3, true>"));
  const KernelTraits scalars = kernel_traits(
      "_ZN2at6native25multi_tensor_apply_kernelINS1_28TensorListScalarListMetadataIdLi1EEE"
      "NS1_25BinaryOpScalarListFunctorIdLi1ELi1ELi0EEEJSt10multipliesIdEEEEvT_T0_DpT1_");
  EXPECT_EQ(scalars.elements, ElementsFrom::kLists);
  EXPECT_EQ(scalars.tensors, 2);
  EXPECT_EQ(scalars.type, GPEMU_TYPE_FP64);
}

TEST(KernelTraits, FindsTheRowsOfSoftmax) {
  const KernelTraits blocks = kernel_traits(
      "_ZN2at6native43_GLOBAL__N__f71e7945_10_SoftMax_cu_9f978f6319cunn_SoftMaxForwardILi2Efff"
      "NS1_22SoftMaxForwardEpilogueEEEvPT2_PKT0_i");
  EXPECT_EQ(blocks.elements, ElementsFrom::kRows);
  EXPECT_EQ(blocks.argument, 2);
  const KernelTraits warps = kernel_traits(
      "_ZN43_GLOBAL__N__f71e7945_10_SoftMax_cu_9f978f6320softmax_warp_forwardIfffLi0ELb0ELb0E"
      "Li32EEEvPT0_PKT_iiiPKbib");
  EXPECT_EQ(warps.elements, ElementsFrom::kProduct);
  EXPECT_EQ(warps.second_argument, 4);
}

TEST(KernelTraits, ReadsTheTilesOfAttention) {
  const KernelTraits flash = kernel_traits(
      "_ZN13pytorch_flash16flash_fwd_kernelI23Flash_fwd_kernel_traitsILi64ELi128ELi64ELi4ELb0ELb0"
      "EN7cutlass6half_tE19Flash_kernel_traitsILi64ELi128ELi64ELi4ES3_EELb1ELb0ELb0ELb0ELb0ELb1"
      "ELb0ELb0EEEvNS_16Flash_fwd_paramsE");
  EXPECT_EQ(flash.elements, ElementsFrom::kAttention);
  EXPECT_EQ(flash.head_size, 64);
  EXPECT_EQ(flash.rows_per_block, 128);
  EXPECT_EQ(flash.type, GPEMU_TYPE_FP16);
  EXPECT_EQ(flash.attention, GPEMU_ATTENTION_FLASH);
  EXPECT_FALSE(flash.causal);
  EXPECT_TRUE(kernel_traits("_ZN13pytorch_flash16flash_fwd_kernelI23Flash_fwd_kernel_traitsILi64ELi"
                            "128ELi64ELi4ELb0ELb0EN7cutlass6half_tE19Flash_kernel_traitsILi64ELi128"
                            "ELi64ELi4ES3_EELb0ELb1ELb0ELb0ELb0ELb1ELb0ELb0EEEvNS_16Flash_fwd_"
                            "paramsE")
                  .causal);
  const KernelTraits backward = kernel_traits(
      "_ZN13pytorch_flash44flash_bwd_dq_dk_dv_loop_seqk_parallel_kernelI23Flash_bwd_kernel_traits"
      "ILi96ELi64ELi128ELi8ELi2ELi4ELi4ELb1ELb0EN7cutlass6half_tE19Flash_kernel_traitsILi96ELi64"
      "ELi128ELi8ES3_EELb0ELb0ELb1ELb0ELb0ELb0ELb0EEEvNS_16Flash_bwd_paramsE");
  EXPECT_EQ(backward.head_size, 96);
  EXPECT_EQ(backward.rows_per_block, 128);  // A block takes keys.
  const KernelTraits cutlass = kernel_traits(
      "_Z40fmha_cutlassF_f32_aligned_64x128_rf_sm80N22PyTorchMemEffAttention15AttentionKernelIf"
      "N7cutlass4arch4Sm80ELb1ELi64ELi128ELi128ELb1ELb1EE6ParamsE");
  EXPECT_EQ(cutlass.rows_per_block, 64);
  EXPECT_EQ(cutlass.attention, GPEMU_ATTENTION_EFFICIENT);
  EXPECT_EQ(cutlass.head_size, 128);
}

TEST(KernelTraits, ClassifiesWhatItCannotCount) {
  EXPECT_EQ(
      kernel_traits("_ZN2at6native18radixSortKVInPlaceILi2ELin1ELi32ELi32EfljEEvv").operation_class,
      Class::kSorting);
  EXPECT_EQ(kernel_traits("_ZN2at6native40_GLOBAL__N__f1f992fe_8_Shape_cu_49f7391c19"
                          "CatArrayBatchedCopyINS1_10OpaqueTypeILj4EEE")
                .operation_class,
            Class::kCopy);
  EXPECT_EQ(kernel_traits("_ZN7cutlass6KernelINS_4gemm6kernel4GemmEEEvNT_6ParamsE").operation_class,
            Class::kMatmul);
}

}  // namespace
}  // namespace gpemu::kernels
