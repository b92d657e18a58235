// SPDX-License-Identifier: Apache-2.0
#include "gpemu/launch/kernel_execution.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/cuda.h"
#include "gpemu/kernels/kernel_effect.hpp"
#include "gpemu/memory/content.hpp"
#include "gpemu/memory/kernel_memory.hpp"
#include "gpemu/process/writers.hpp"

#include "test_gpu.hpp"

namespace gpemu::cuda {

using kernels::CodeFacts, kernels::ElementsEffect, kernels::FillEffect, kernels::FindCode;
using kernels::KernelEffect, kernels::ListsEffect, kernels::NumberType, kernels::ParametersEffect;
using kernels::ReductionEffect, kernels::StridedEffect;

namespace {

// Names of kernels of PyTorch 2.8 and 2.15.
constexpr const char* kFill =
    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_"
    "T1_";
constexpr const char* kAdd =
    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIlEESt5arrayIPcLm3EELb0"
    "EEEviT0_T1_";
// One with an unknown functor.
constexpr const char* kMix =
    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_mixIlEESt5arrayIPcLm3EELb0"
    "EEEviT0_T1_";
constexpr const char* kStridedMix =
    "_ZN2at6native18elementwise_kernelILi128ELi2EZNS0_22gpu_kernel_impl_nocastINS0_15CUDAFunctor_"
    "mixI"
    "fEEEEvRNS_18TensorIteratorBaseERKT_EUliE_EEviT1_";
constexpr const char* kSum =
    "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfNS0_14func_wrapper_tIfNS0_11sum_functor"
    "IfffEEEEjfLi4ELi4EEEEEvT1_";

constexpr const char* kLessScalar =
    "_ZN2at6native29vectorized_elementwise_kernelILi4EZNS0_21compare_scalar_kernelIfEEvRNS_"
    "18TensorIteratorBaseENS0_50_GLOBAL__N__e50ef81d_17_CompareKernels_cu_8f1b29aa6OpTypeET_"
    "EUlfE_St5arrayIPcLm2EEEEviT0_T1_";
constexpr const char* kArange =
    "_ZN50_GLOBAL__N__fa15d16e_17_RangeFactories_cu_38772b0829elementwise_kernel_with_indexIi18__"
    "nv_hdl_wrapper_tILb0ELb0ELb0E11__nv_dl_tagIPFRN2at6TensorERKN3c106ScalarES9_S9_S5_EXadL_ZNS3_"
    "6native14range_cuda_outES9_S9_S9_S5_EELj1EEFhlEJllEEEEvT_T0_PN15function_traitsISH_E11result_"
    "typeE";
constexpr const char* kSequence =
    "_ZN50_GLOBAL__N__fa15d16e_17_RangeFactories_cu_38772b0829elementwise_kernel_with_indexIiZZZN2"
    "at6native15arange_cuda_outERKN3c106ScalarES6_S6_RNS1_6TensorEENKUlvE_clEvENKUlvE2_clEvEUllE_"
    "EEvT_T0_PN15function_traitsISD_E11result_typeE";
constexpr const char* kFlip =
    "_ZN2at6native24index_elementwise_kernelILi128ELi4EZNS0_16flip_kernel_implINS0_10OpaqueTypeILi8"
    "EEEEEvRNS_14TensorIteratorEEUliE_EEvlT1_";
constexpr const char* kFusedAdam =
    "_ZN2at6native51_GLOBAL__N__f7f2fd5f_18_fused_adam_impl_cu_454205f325multi_tensor_apply_"
    "kernelINS1_32FusedOptimizerTensorListMetadataILi4EEENS1_20FusedAdamMathFunctorIfLi4ELNS0_"
    "9ADAM_"
    "MODEE0ELb0EEEJPKfdddddbS9_S9_EEEvT_T0_DpT1_";
constexpr const char* kExpLists =
    "_ZN2at6native12_GLOBAL__N_125multi_tensor_apply_kernelINS1_18TensorListMetadataILi2EEENS1_"
    "14UnaryOpFunctorIdLi2ELi1ELi1EEEJNS0_3ExpIdEEEEEvT_T0_DpT1_";
constexpr const char* kExpHalfLists =
    "_ZN2at6native12_GLOBAL__N_125multi_tensor_apply_kernelINS1_18TensorListMetadataILi2EEENS1_"
    "14UnaryOpFunctorIN3c104HalfELi2ELi1ELi1EEEJNS0_3ExpIfEEEEEvT_T0_DpT1_";
constexpr const char* kNormLists =
    "_ZN2at6native12_GLOBAL__N_125multi_tensor_apply_kernelINS1_18TensorListMetadataILi1EEENS0_"
    "13LpNormFunctorIfLNS0_8NormTypeE1EfLi1ELi1ELi0EEEJPfiEEEvT_T0_DpT1_";
constexpr const char* kUnscaleLists =
    "_ZN2at6native46_GLOBAL__N__1df100ae_13_AmpKernels_cu_3810c27325multi_tensor_apply_kernelINS1_"
    "18TensorListMetadataILi1EEENS1_14UnaryOpFunctorIfLi1ELi1ELi0EEEJZZZNS0_47_amp_foreach_non_"
    "finite_check_and_unscale_cuda_EN3c108ArrayRefINS_6TensorEEERS9_RKS9_ENKUlvE_clEvENKUlvE0_"
    "clEvEUlfE_EEEvT_T0_DpT1_";
constexpr const char* kEqualCast =
    "_ZN2at6native27unrolled_elementwise_kernelINS0_13BinaryFunctorIffbNS0_51_GLOBAL__N__28ce311f_"
    "18_CompareEQKernel_cu_d8008c9616CompareEqFunctorIfEEEESt5arrayIPcLm3EELi4E23"
    "TrivialOffsetCalculatorILi2EjESA_ILi1EjENS0_6memory12LoadWithCastILi2EEENSD_"
    "13StoreWithCastILi1EEEEEviT_T0_T2_T3_T4_T5_";
constexpr const char* kCopyCast =
    "_ZN2at6native27unrolled_elementwise_kernelIZZZNS0_23direct_copy_kernel_cudaERNS_"
    "18TensorIteratorBaseEENKUlvE1_clEvENKUlvE6_clEvEUlN3c107complexIdEEE_St5arrayIPcLm2EELi4E23"
    "TrivialOffsetCalculatorILi1EjESE_NS0_6memory12LoadWithCastILi1EEENSF_13StoreWithCastILi1EEEEE"
    "viT_T0_T2_T3_T4_T5_";
constexpr const char* kGather =
    "_Z6gatherPKfN2at4cuda6detail10TensorInfoIljEENS1_10TensorInfoIKfjEE";

KernelEffect effect_of(const char* name, const FindCode& find_code = nullptr) {
  return kernels::kernel_effect(name, find_code, process::writer_id(name));
}

/// Returns what a kernel of this kind is known to do. Requires: it is of the kind.
template <typename Effect>
Effect recognised_as(const char* name) {
  return std::get<Effect>(effect_of(name).recognised);
}

bool is_unknown(const char* name) {
  const KernelEffect effect = effect_of(name);
  return effect.writer == 0 && std::holds_alternative<std::monostate>(effect.recognised) &&
         std::holds_alternative<std::monostate>(effect.written);
}

TEST(KernelEffect, FollowsFromTheName) {
  EXPECT_EQ(recognised_as<FillEffect>(kFill).element_bytes, 4);
  EXPECT_EQ(recognised_as<ElementsEffect>(kAdd).result_bytes(0), 8);
  EXPECT_EQ(recognised_as<ElementsEffect>(kAdd).tensors, 3);
  EXPECT_EQ(recognised_as<ReductionEffect>(kSum).element_bytes, 4);
  // Others may name a kernel like one of PyTorch's; its arguments are not ours to read.
  const KernelEffect other = effect_of("_Z29vectorized_elementwise_kernelPf");
  EXPECT_TRUE(std::holds_alternative<std::monostate>(other.recognised));
  EXPECT_TRUE(std::holds_alternative<ParametersEffect>(other.written));
  EXPECT_TRUE(is_unknown(""));
}

TEST(KernelEffect, WritesNoPointersToConstants) {
  const auto effect = std::get<ParametersEffect>(effect_of("_Z3addPKfPfPlPKvi").written);
  ASSERT_EQ(effect.parameters.size(), 2U);
  EXPECT_EQ(effect.parameters[0].argument, 1U);
  EXPECT_EQ(effect.parameters[0].element_bytes, 4U);
  EXPECT_EQ(effect.parameters[1].argument, 2U);
  EXPECT_EQ(effect.parameters[1].element_bytes, 8U);
  EXPECT_TRUE(is_unknown("_Z4readPKfi"));
}

TEST(KernelEffect, TakesStructsForWhatTheCompilerSaysOfThem) {
  const auto places = [] { return CodeFacts{.places = {{0, 4}, {8, 48}}, .ptx = {}}; };
  const auto effect = std::get<ParametersEffect>(effect_of("_Z3runi6Params", places).written);
  ASSERT_EQ(effect.parameters.size(), 1U);
  EXPECT_EQ(effect.parameters[0].kind, ParametersEffect::Parameter::Kind::kWords);
  EXPECT_EQ(effect.parameters[0].bytes, 48U);
  // Without it, the extent is not known.
  EXPECT_TRUE(is_unknown("_Z3runi6Params"));
}

TEST(KernelEffect, TakesNumbasArgumentsForWhatTheCompilerSaysOfThem) {
  // One array is several parameters: its owner, its sizes, its address, its shape and strides.
  const auto places = [] {
    return CodeFacts{.places = {{0, 8}, {8, 8}, {16, 8}, {24, 8}, {32, 8}, {40, 8}, {48, 8}},
                     .ptx = {}};
  };
  const auto effect = std::get<ParametersEffect>(effect_of("_Z3add5ArrayIfLi1EE", places).written);
  ASSERT_EQ(effect.parameters.size(), 7U);
  EXPECT_EQ(effect.parameters[4].argument, 4U);
  EXPECT_EQ(effect.parameters[4].bytes, 8U);
}

TEST(KernelEffect, ElementsOfKernelsCompiledAtRunTimeFollowFromTheirCode) {
  // What PyTorch's kernels store on a V100 and an A100, of one result and one argument.
  struct Kernel {
    bool old_pytorch;
    const char* name;
    Bytes widest, stored, element_bytes;
  };
  constexpr const char* kVectors2 = "digamma_vectorized2_kernel";
  constexpr const char* kVectors4 = "digamma_vectorized4_kernel";
  constexpr const char* kStrided = "digamma_kernel";
  for (const Kernel& kernel :
       {Kernel{true, kVectors4, 8, 16, 2}, Kernel{true, kVectors4, 16, 32, 4},
        Kernel{true, kVectors4, 16, 64, 8}, Kernel{true, kVectors4, 16, 128, 16},
        Kernel{true, kStrided, 4, 16, 4}, Kernel{true, kStrided, 8, 32, 8},
        Kernel{true, kStrided, 4, 32, 8}, Kernel{true, kStrided, 8, 64, 16},
        Kernel{false, kVectors4, 16, 64, 4}, Kernel{false, kVectors2, 16, 128, 8},
        Kernel{false, kStrided, 4, 32, 4}, Kernel{false, kStrided, 8, 64, 8},
        Kernel{false, kStrided, 4, 64, 8}, Kernel{false, kStrided, 8, 128, 16}}) {
    const auto effect = effect_of(kernel.name, [&kernel] {
      std::vector<kernels::ParameterPlace> places = {{0, 4}, {8, 16}, {24, 8}};
      if (kernel.name == kStrided) {
        places = {{0, 4}, {8, 16}, {24, 404}, {428, 404}, {832, 1}, {833, 1}, {836, 8}};
      }
      return CodeFacts{.places = places,
                       .ptx = {},
                       .access = {.known = true,
                                  .widest = kernel.widest,
                                  .stored = kernel.stored,
                                  .loaded = kernel.stored},
                       .old_pytorch = kernel.old_pytorch};
    });
    EXPECT_EQ(std::get<ElementsEffect>(effect.recognised).result_bytes(0), kernel.element_bytes)
        << kernel.name << " " << kernel.old_pytorch << " " << kernel.widest << " " << kernel.stored;
  }
}

class KernelExecutionTest : public testing::Test {
 protected:
  static constexpr std::int64_t kOld = 0x0707070707070707;

  void SetUp() override {
    use_test_gpu();
    ASSERT_EQ(gpemu_cuda_malloc(sizeof(content_), &address_), GPEMU_CUDA_SUCCESS);
    content_.fill(kOld);
    copy(address_, reinterpret_cast<std::uint64_t>(content_.data()));
  }
  void TearDown() override { EXPECT_EQ(gpemu_cuda_free(address_), GPEMU_CUDA_SUCCESS); }
  void copy(std::uint64_t to, std::uint64_t from) {
    ASSERT_EQ(gpemu_cuda_memcpy(to, from, sizeof(content_), GPEMU_CUDA_COPY_DEFAULT, nullptr, 1),
              GPEMU_CUDA_SUCCESS);
  }
  /// Launches a kernel of that name in blocks of 32 x 4 threads and reads the memory back.
  void launch(const char* name, void* const* arguments, const FindCode& find_code = nullptr) {
    gpemu_cuda_launch launch{};
    launch.grid[0] = launch.grid[1] = launch.grid[2] = 1;
    launch.block[0] = 32;
    launch.block[1] = 4;
    launch.block[2] = 1;
    launch.arguments = arguments;
    launch::perform_launch(effect_of(name, find_code), launch, nullptr);
    copy(reinterpret_cast<std::uint64_t>(content_.data()), address_);
  }

  std::uint64_t address_ = 0;
  std::array<std::int64_t, 64> content_{};
};

TEST_F(KernelExecutionTest, FillsTakeTheirValue) {
  std::int32_t count = 3;
  float value = 1.5F;
  std::array<void*, 3> arguments = {&count, &value, &address_};
  launch(kFill, arguments.data());
  std::array<float, 4> read{};
  std::memcpy(read.data(), content_.data(), sizeof(read));
  EXPECT_EQ(read[2], 1.5F);
  EXPECT_NE(read[3], 1.5F);
}

TEST_F(KernelExecutionTest, FillsOfOldVersionsTakeTheirValue) {
  std::int32_t count = 3;
  float value = 1.5F;
  std::array<void*, 3> arguments = {&count, &value, &address_};
  // Of PyTorch 2.5.
  launch(
      "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEENS_6detail5ArrayIPcLi"
      "1EEEEEviT0_T1_",
      arguments.data());
  std::array<float, 4> read{};
  std::memcpy(read.data(), content_.data(), sizeof(read));
  EXPECT_EQ(read[2], 1.5F);
  EXPECT_NE(read[3], 1.5F);
}

TEST_F(KernelExecutionTest, NewResultsReadAsZeros) {
  std::int32_t count = 2;
  char functor = 0;
  const std::array<std::uint64_t, 3> tensors = {address_, address_ + 128, address_ + 256};
  std::array<void*, 3> arguments = {&count, &functor, const_cast<std::uint64_t*>(tensors.data())};
  launch(kMix, arguments.data());
  EXPECT_EQ(content_[0], 0);
  EXPECT_EQ(content_[1], 0);
  EXPECT_EQ(content_[2], kOld);
}

TEST_F(KernelExecutionTest, ManagedMemoryHasWhatKernelsWrite) {
  std::uint64_t managed = 0;
  ASSERT_EQ(gpemu_cuda_malloc_managed(4096, 1, &managed), GPEMU_CUDA_SUCCESS);
  auto* const floats = reinterpret_cast<float*>(managed);
  floats[0] = floats[3] = 7;
  std::int32_t count = 3;
  float value = 1.5F;
  std::array<void*, 3> arguments = {&count, &value, &managed};
  launch(kFill, arguments.data());
  EXPECT_EQ(floats[0], 1.5F);
  EXPECT_EQ(floats[3], 7);
  // The program's reads cannot be seen, so content that is not computed counts at once.
  const std::uint64_t before = gpemu_cuda_not_computed_bytes();
  std::array<void*, 2> own = {&count, &managed};
  launch("_Z3addiPf", own.data());
  EXPECT_EQ(floats[0], 0);
  EXPECT_GT(gpemu_cuda_not_computed_bytes(), before);
  EXPECT_EQ(gpemu_cuda_free(managed), GPEMU_CUDA_SUCCESS);
}

TEST_F(KernelExecutionTest, WhatIsWrittenAfterAResultIsNotUpdatedEither) {
  std::int32_t count = 32;
  char functor = 0;
  std::array<std::uint64_t, 3> tensors = {address_, address_ + 256, address_ + 384};
  std::array<void*, 3> arguments = {&count, &functor, tensors.data()};
  launch(kMix, arguments.data());  // A result of unknown elements, 256 bytes at least.
  copy(address_, reinterpret_cast<std::uint64_t>(content_.data()));
  launch(kMix, arguments.data());
  const std::array<std::int64_t, 16> written = {1, 2, 3};
  ASSERT_EQ(gpemu_cuda_memcpy(address_ + 128, reinterpret_cast<std::uint64_t>(written.data()),
                              sizeof(written), GPEMU_CUDA_COPY_DEFAULT, nullptr, 1),
            GPEMU_CUDA_SUCCESS);
  tensors = {address_, address_, address_ + 384};
  launch(kMix, arguments.data());  // In place, over both.
  const std::uint64_t before = gpemu_cuda_not_computed_bytes();
  std::array<std::int64_t, 16> read{};
  ASSERT_EQ(gpemu_cuda_peek(address_ + 128, read.data(), sizeof(read)), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(read[0], 1);
  EXPECT_EQ(gpemu_cuda_not_computed_bytes() - before, sizeof(read));
}

TEST_F(KernelExecutionTest, WhatIsChangedInPlaceStays) {
  std::int32_t count = 2;
  char functor = 0;
  const std::array<std::uint64_t, 3> tensors = {address_, address_, address_ + 256};
  std::array<void*, 3> arguments = {&count, &functor, const_cast<std::uint64_t*>(tensors.data())};
  launch(kMix, arguments.data());
  EXPECT_EQ(content_[0], kOld);
}

TEST_F(KernelExecutionTest, ResultsOfKnownFunctorsAreComputed) {
  const std::array<std::int64_t, 5> numbers = {1, 2, 30, 40, 50};
  ASSERT_EQ(gpemu_cuda_poke(address_ + 128, numbers.data(), 40), GPEMU_CUDA_SUCCESS);
  std::int32_t count = 2;
  std::int64_t alpha = 10;
  std::array<std::uint64_t, 3> tensors = {address_, address_ + 128, address_ + 144};
  std::array<void*, 3> arguments = {&count, &alpha, tensors.data()};
  const std::uint64_t before = gpemu_cuda_not_computed_bytes();
  launch(kAdd, arguments.data());
  EXPECT_EQ(content_[0], 301);
  EXPECT_EQ(content_[1], 402);
  EXPECT_EQ(content_[2], kOld);
  EXPECT_EQ(gpemu_cuda_not_computed_bytes(), before);
}

TEST_F(KernelExecutionTest, NothingIsComputedFromWhatIsNotKnown) {
  std::int32_t count = 2;
  std::int64_t alpha = 1;
  std::array<std::uint64_t, 3> tensors = {address_ + 256, address_, address_};
  std::array<void*, 3> arguments = {&count, &alpha, tensors.data()};
  launch(kMix, arguments.data());
  tensors = {address_, address_ + 128, address_ + 256};
  launch(kAdd, arguments.data());
  EXPECT_EQ(content_[0], 0);
}

TEST_F(KernelExecutionTest, ReductionsReadAsZeros) {
  // Two floats of members, the configuration with one output and the launch's block, calculators,
  // then the addresses of the input and of the result.
  std::array<std::int32_t, 280> reduction{};
  reduction[2 + 2] = 1;
  reduction[2 + 11] = 32;
  reduction[2 + 12] = 4;
  reduction[2 + 13] = 128;
  // The second result's address is not set if there is only one result.
  const std::array<std::uint64_t, 3> pointers = {address_ + 256, address_, address_ + 64};
  std::memcpy(reinterpret_cast<char*>(reduction.data()) + 984, pointers.data(), sizeof(pointers));
  std::int32_t* const results = &reduction[(984 + 60) / 4];
  *results = 1;
  std::array<void*, 1> arguments = {reduction.data()};
  launch(kSum, arguments.data());
  EXPECT_EQ(content_[0] & 0xffffffff, 0);
  EXPECT_NE(content_[0], 0);
  EXPECT_EQ(content_[1], kOld);
  EXPECT_EQ(content_[8], kOld);
  *results = 2;
  launch(kSum, arguments.data());
  EXPECT_EQ(content_[8], kOld & ~std::int64_t{0xffffffff});
}

TEST_F(KernelExecutionTest, KernelsOfUnknownVersionsWriteAsFarAsTheirLaunchSays) {
  constexpr std::size_t kThreads = 128;
  ASSERT_EQ(gpemu_cuda_free(address_), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_malloc(1 << 20, &address_), GPEMU_CUDA_SUCCESS);
  const auto expect_bounded = [this](std::uint64_t to, std::size_t element_bytes) {
    copy(reinterpret_cast<std::uint64_t>(content_.data()), to);
    EXPECT_EQ(content_[0], 0);
    EXPECT_EQ(content_[kThreads * element_bytes / 8 - 1], 0);
  };
  // Tensors in an array of another type.
  const auto elements = [] { return CodeFacts{.places = {{0, 4}, {4, 1}, {8, 16}}, .ptx = {}}; };
  std::int32_t count = 2;
  char functor = 0;
  std::array<std::uint64_t, 2> tensors = {address_, 0};
  std::array<void*, 3> arguments = {&count, &functor, tensors.data()};
  launch(
      "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_mixIfEE6VectorIPcLm1EEEEv"
      "iT0_T1_",
      arguments.data(), elements);
  expect_bounded(address_, 4);
  // A reduction whose members lie elsewhere, and tensors of any strides whose addresses do.
  std::array<std::uint64_t, 200> members{};
  members[3] = address_ + 4096;
  std::array<void*, 2> reduction = {members.data(), nullptr};
  launch(kSum, reduction.data(), [] { return CodeFacts{.places = {{0, 64}}, .ptx = {}}; });
  expect_bounded(address_ + 4096, 4);
  members[3] = address_ + 8192;
  std::array<void*, 2> strided = {&count, members.data()};
  launch(kStridedMix, strided.data(),
         [] { return CodeFacts{.places = {{0, 4}, {8, 64}}, .ptx = {}}; });
  expect_bounded(address_ + 8192, 4);
}

TEST_F(KernelExecutionTest, GradientsOfAttentionAreWritten) {
  constexpr const char* kBackward = "_Z40fmha_cutlassB_f32_aligned_64x64_k32_sm806Params";
  // The gradients' addresses; sizes of a head and its values, queries, keys, heads.
  std::array<std::uint64_t, 30> members{};
  members[10] = address_;
  members[11] = address_ + 96;
  members[12] = address_ + 160;
  const std::array<std::int32_t, 5> sizes = {4, 2, 4, 3, 1};
  std::memcpy(reinterpret_cast<char*>(members.data()) + 144, sizes.data(), sizeof(sizes));
  std::array<void*, 1> arguments = {members.data()};
  launch(kBackward, arguments.data());
  const auto are = [this](std::size_t from, std::size_t to, std::int64_t value) {
    for (std::size_t i = from; i < to; ++i) EXPECT_EQ(content_[i], value) << i;
  };
  are(0, 8, 0);
  are(8, 12, kOld);
  are(12, 18, 0);
  are(18, 20, kOld);
  are(20, 23, 0);
  are(23, 64, kOld);
}

TEST_F(KernelExecutionTest, NormsOfListsAreOneNumberEach) {
  // Of PyTorch 2.8 and 2.15; a block writes to an address.
  for (const char* const name :
       {"_ZN2at6native14lpnorm_cleanupIfLNS0_8NormTypeE2EfLb1EfEEvPKT3_NS0_19TensorListAddressesEi",
        "_ZN2at6native14lpnorm_cleanupIfLNS0_8NormTypeE2EfLb1EfEEvPKT3_NS0_19TensorListAddressesEPK"
        "li"}) {
    content_.fill(kOld);
    copy(address_, reinterpret_cast<std::uint64_t>(content_.data()));
    std::uint64_t partial = address_ + 256, begins = address_ + 320;
    std::array<std::uint64_t, 400> addresses = {address_ + 8};
    std::int32_t count = 1;
    std::array<void*, 4> arguments = {&partial, addresses.data(), &begins, &count};
    launch(name, arguments.data());
    EXPECT_EQ(content_[0], kOld) << name;
    EXPECT_EQ(content_[1], kOld & ~std::int64_t{0xffffffff}) << name;
    EXPECT_EQ(content_[2], kOld) << name;
  }
}

TEST_F(KernelExecutionTest, MirroredTransformsAreWrittenBackwards) {
  // Of PyTorch 2.8, and of 2.15, whose calculator has 32 bits and dividers. Of 5 elements, the last
  // two follow from others.
  struct Wide {
    std::int32_t dimensions = 1;
    std::int64_t sizes[25] = {2}, strides[25] = {-1};
    std::uint32_t mirrored = 1;
  } wide;
  struct Narrow {
    std::int32_t dimensions = 1;
    std::int32_t sizes[25][3] = {{2, 1, 0}};
    std::int32_t strides[25] = {-1};
    std::uint32_t mirrored = 1;
  } narrow;
  const std::array<std::pair<const char*, void*>, 2> kernels = {
      {{"_ZN2at6native26_fft_conjugate_copy_"
        "kernelIN3c107complexIfEE16OffsetCalculatorILi1ElLb0EENS0"
        "_33HermitianSymmetryOffsetCalculatorIlEEEEvlPT_PKS9_T0_T1_",
        &wide},
       {"_ZN2at6native26_fft_conjugate_copy_kernelIN3c107complexIfEEj16OffsetCalculatorILi1EjLb1EEN"
        "S0_33HermitianSymmetryOffsetCalculatorIjEEEEvlPT_PKS9_T1_T2_",
        &narrow}}};
  for (const auto& [name, calculator] : kernels) {
    content_.fill(kOld);
    copy(address_, reinterpret_cast<std::uint64_t>(content_.data()));
    std::int64_t count = 2;
    std::uint64_t last = address_ + 32, from = address_ + 256;
    std::array<std::int32_t, 200> inputs{};
    std::array<void*, 5> arguments = {&count, &last, &from, inputs.data(), calculator};
    launch(name, arguments.data());
    EXPECT_EQ(content_[2], kOld) << name;
    EXPECT_EQ(content_[3], 0) << name;
    EXPECT_EQ(content_[4], 0) << name;
    EXPECT_EQ(content_[5], kOld) << name;
  }
}

TEST_F(KernelExecutionTest, GradientsOfAttentionMayAlternate) {
  constexpr const char* kBackward = "_Z40fmha_cutlassB_f32_aligned_64x64_k32_sm806Params";
  std::array<std::uint64_t, 30> members{};
  members[10] = address_;
  members[11] = address_ + 16;
  members[12] = address_ + 32;
  // Two queries and one key.
  const std::array<std::int32_t, 5> sizes = {4, 4, 2, 1, 1};
  std::memcpy(reinterpret_cast<char*>(members.data()) + 144, sizes.data(), sizeof(sizes));
  std::array<void*, 1> arguments = {members.data()};
  launch(kBackward, arguments.data());
  const std::array<std::int64_t, 8> rows = {0, 0, 0, 0, 0, 0, 0, 0};
  EXPECT_TRUE(std::equal(rows.begin(), rows.end(), content_.begin()));
  EXPECT_EQ(content_[8], kOld);
}

TEST_F(KernelExecutionTest, OperandsAreConvertedToTheFunctorsType) {
  const std::int32_t whole = 16777217;
  const float real = 16777216;
  ASSERT_EQ(gpemu_cuda_poke(address_ + 128, &whole, 4), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_poke(address_ + 256, &real, 4), GPEMU_CUDA_SUCCESS);
  std::int32_t count = 1, equal = 0;
  char none = 0;
  std::array<std::uint64_t, 3> tensors = {address_, address_ + 128, address_ + 256};
  struct {
    std::int8_t types[2] = {3, 6};
    std::uint32_t bytes[2] = {4, 4};
  } loader;
  struct {
    std::int8_t type = 11;
    std::uint32_t bytes = 1;
  } storer;
  std::array<void*, 7> arguments = {&count, &equal, tensors.data(), &none, &none, &loader, &storer};
  launch(kEqualCast, arguments.data());
  EXPECT_EQ(content_[0] & 0xff, 1);
}

TEST_F(KernelExecutionTest, ConvertedResultsAreAsLargeAsTheirType) {
  std::array<std::int64_t, 128> old{}, read{};
  old.fill(kOld);
  std::uint64_t block = 0;
  ASSERT_EQ(gpemu_cuda_malloc(sizeof(old), &block), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_poke(block, old.data(), sizeof(old)), GPEMU_CUDA_SUCCESS);
  std::int32_t count = 64;
  char none = 0;
  std::array<std::uint64_t, 2> tensors = {block, address_};
  struct {
    std::int8_t type = 6;
    std::uint32_t bytes = 4;
  } loader, storer;
  storer = {10, 16};  // Complex numbers of FP64.
  std::array<void*, 7> arguments = {&count, &none, tensors.data(), &none, &none, &loader, &storer};
  launch(kCopyCast, arguments.data());
  ASSERT_EQ(gpemu_cuda_peek(block, read.data(), sizeof(read)), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(std::ranges::count(read, kOld), 0);
  EXPECT_EQ(gpemu_cuda_free(block), GPEMU_CUDA_SUCCESS);
}

TEST_F(KernelExecutionTest, AddressesThatAreNotMemoryAreLeftAlone) {
  std::int32_t count = 1000;
  float value = 1.5F;
  std::array<void*, 3> arguments = {&count, &value, &address_};
  launch(kFill, arguments.data());  // Longer than the allocation.
  EXPECT_EQ(content_[0], kOld);
  std::uint64_t nowhere = 0;
  arguments[2] = &nowhere;
  launch(kFill, arguments.data());
  launch(kFill, nullptr);
}

TEST_F(KernelExecutionTest, ResultsOfComparisonsAreBytes) {
  std::int32_t count = 9;
  std::array<std::uint64_t, 2> tensors = {address_, address_ + 256};
  std::array<std::int32_t, 4> functor = {3};  // "Less than", and the number 0.
  std::array<void*, 3> arguments = {&count, functor.data(), tensors.data()};
  launch(kLessScalar, arguments.data());
  EXPECT_EQ(content_[0], 0);
  EXPECT_EQ(content_[1], kOld & ~0xff);
}

TEST_F(KernelExecutionTest, SequencesAreComputed) {
  std::int32_t count = 3;
  std::array<std::int64_t, 2> functor = {5, -2};
  std::array<void*, 3> arguments = {&count, functor.data(), &address_};
  launch(kSequence, arguments.data());
  EXPECT_EQ(content_[0], 5);
  EXPECT_EQ(content_[2], 1);
  EXPECT_EQ(content_[3], kOld);
}

TEST_F(KernelExecutionTest, PointersReadAsZerosForAsManyElementsAsThreads) {
  std::int32_t count = 128;
  char functor = 0;
  std::array<void*, 3> arguments = {&count, &functor, &address_};
  const std::uint64_t before = gpemu_cuda_not_computed_bytes();
  launch(kArange, arguments.data());
  EXPECT_EQ(content_[0], 0);
  EXPECT_EQ(content_[63], 0);
  EXPECT_EQ(gpemu_cuda_not_computed_bytes() - before, sizeof(content_));
}

TEST_F(KernelExecutionTest, RangesThatReachIntoOthersHideNoStart) {
  std::array<std::int64_t, 512> old{}, read{};
  old.fill(kOld);
  std::uint64_t block = 0;
  ASSERT_EQ(gpemu_cuda_malloc(sizeof(old), &block), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_poke(block, old.data(), sizeof(old)), GPEMU_CUDA_SUCCESS);
  std::uint64_t second = block + 512;
  std::array<void*, 2> arguments = {&second, &block};
  launch("_Z3runPlS_", arguments.data());  // 128 threads, 1 KiB from each pointer.
  ASSERT_EQ(gpemu_cuda_peek(second, read.data(), 2048), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(std::ranges::count(read, kOld), 128);
  EXPECT_EQ(gpemu_cuda_free(block), GPEMU_CUDA_SUCCESS);
}

/// What flips a vector: a calculator of offsets for two tensors, then their addresses.
struct Flip {
  std::int32_t dimensions = 1;
  std::uint32_t sizes[25][3] = {};
  std::int32_t strides[25][2] = {};
  std::uint64_t to = 0, from = 0;
};

TEST_F(KernelExecutionTest, FlippedTensorsAreWrittenBackwards) {
  std::int64_t count = 3;
  Flip flip;
  flip.sizes[0][0] = 3;
  flip.strides[0][0] = -8;
  flip.strides[0][1] = 8;
  flip.to = address_ + 32;
  flip.from = address_ + 128;
  const std::array<std::int64_t, 3> numbers = {1, 2, 3};
  ASSERT_EQ(gpemu_cuda_poke(flip.from, numbers.data(), 24), GPEMU_CUDA_SUCCESS);
  std::array<void*, 2> arguments = {&count, &flip};
  launch(kFlip, arguments.data());
  EXPECT_EQ(content_[1], kOld);
  EXPECT_EQ(content_[2], 3);
  EXPECT_EQ(content_[4], 1);
  EXPECT_EQ(content_[5], kOld);
  EXPECT_EQ(content_[16], 1);  // What is read stays.
  // Where the source is not known, exactly the target is not, either.
  char functor = 0;
  std::array<std::uint64_t, 3> tensors = {flip.from, address_ + 256, address_ + 256};
  std::array<void*, 3> mixed = {&count, &functor, tensors.data()};
  launch(kMix, mixed.data());
  launch(kFlip, arguments.data());
  EXPECT_EQ(content_[1], kOld);
  EXPECT_EQ(content_[2], 0);
  EXPECT_EQ(content_[4], 0);
  EXPECT_EQ(content_[5], kOld);
}

TEST_F(KernelExecutionTest, StructsOfTensorsSayHowFarTheyGo) {
  struct Info {
    std::uint64_t address;
    std::uint32_t sizes[25], strides[25];
    std::int32_t dimensions;
  };
  Info written{.address = address_, .sizes = {3, 2}, .strides = {4, 1}, .dimensions = 2};
  Info read{.address = address_ + 256, .sizes = {3, 2}, .strides = {4, 1}, .dimensions = 2};
  std::uint64_t constant = address_ + 256;
  std::array<void*, 3> arguments = {&constant, &written, &read};
  launch(kGather, arguments.data());
  EXPECT_EQ(content_[0], 0);
  EXPECT_EQ(content_[9], 0);
}

TEST_F(KernelExecutionTest, AccessorsSayHowFarTheyGo) {
  struct Accessor {
    std::uint64_t address;
    std::int64_t sizes[2], strides[2];
  };
  Accessor written{.address = address_, .sizes = {3, 2}, .strides = {4, 1}};
  std::array<void*, 1> arguments = {&written};
  // As in PyTorch 2.8, and in 2.15, where types of the accessor come before those of the tensor.
  for (const char* const name : {"_Z4scanN2at27GenericPackedTensorAccessorIfLm2ENS_6TraitsElEE",
                                 "_Z4scanN5torch27GenericPackedTensorAccessorINS_"
                                 "14TensorAccessorINS_4ListEfLm1ENS_6TraitsElEE"
                                 "NS_5CheckIlEEfLm2ENS_6TraitsElEE"}) {
    content_.fill(kOld);
    copy(address_, reinterpret_cast<std::uint64_t>(content_.data()));
    launch(name, arguments.data());
    const std::vector<std::int64_t> start(content_.begin(), content_.begin() + 6);
    EXPECT_EQ(start, (std::vector<std::int64_t>{0, kOld, 0, kOld, 0, kOld})) << name;
  }
}

/// As PyTorch lays out lists of tensors for its optimizers.
struct Lists {
  std::uint64_t addresses[4][36] = {};
  std::int64_t counts[36] = {};
  std::uint64_t steps[36] = {};
  unsigned char tensor_of_block[320] = {};
};

TEST_F(KernelExecutionTest, OptimizersKeepTheWeightsAndSayThatTheyAreNotUpdated) {
  Lists lists;
  for (int list = 0; list < 4; ++list) lists.addresses[list][0] = address_ + list * 64;
  lists.counts[0] = 4;
  std::array<void*, 1> arguments = {&lists};
  const std::uint64_t before = gpemu_cuda_not_computed_bytes();
  launch(kFusedAdam, arguments.data());
  EXPECT_EQ(content_[0], kOld);
  EXPECT_EQ(content_[24], kOld);
  EXPECT_EQ(gpemu_cuda_not_computed_bytes() - before, 4 * 16U);
}

TEST_F(KernelExecutionTest, OtherListsReadAsZeros) {
  struct {
    std::uint64_t addresses[2][64];
    std::int64_t counts[64];
    unsigned char tensor_of_block[320];
  } lists{};
  lists.addresses[0][0] = address_;
  lists.addresses[1][0] = address_ + 64;
  lists.counts[0] = 4;
  std::array<void*, 1> arguments = {&lists};
  launch(kExpLists, arguments.data());
  EXPECT_EQ(content_[0], kOld);
  EXPECT_EQ(content_[8], 0);
  EXPECT_EQ(content_[11], 0);
  EXPECT_EQ(content_[12], kOld);
}

/// As PyTorch lays out two lists of tensors, or one.
struct TwoLists {
  std::uint64_t addresses[2][64] = {};
  std::int64_t counts[64] = {};
  unsigned char tensor_of_block[320] = {};
};
struct OneList {
  std::uint64_t addresses[110] = {};
  std::int64_t counts[110] = {};
  unsigned char tensor_of_block[320] = {};
};

TEST_F(KernelExecutionTest, ListsOfHalvesAreAsLongAsTheirElements) {
  TwoLists lists;
  lists.addresses[0][0] = address_;
  lists.addresses[1][0] = address_ + 64;
  lists.counts[0] = 4;
  std::array<void*, 1> arguments = {&lists};
  launch(kExpHalfLists, arguments.data());
  EXPECT_EQ(content_[8], 0);
  EXPECT_EQ(content_[9], kOld);
}

TEST_F(KernelExecutionTest, ListsOfCuda13AreLonger) {
  struct {
    std::uint64_t addresses[2][448];
    std::int64_t counts[448];
    std::uint16_t tensor_of_block[2240];
    std::int32_t chunk_of_block[2240];
    std::int32_t start;
  } lists{};
  lists.addresses[1][0] = address_;
  lists.addresses[1][300] = address_ + 64;
  lists.counts[300] = 4;
  lists.tensor_of_block[0] = 300;
  std::array<void*, 1> arguments = {&lists};
  const auto places = [] { return CodeFacts{.places = {{0, sizeof(lists)}}, .ptx = {}}; };
  gpemu_cuda_launch launch{};
  launch.grid[0] = launch.grid[1] = launch.grid[2] = 1;
  launch.arguments = arguments.data();
  launch::perform_launch(effect_of(kExpLists, places), launch, nullptr);
  copy(reinterpret_cast<std::uint64_t>(content_.data()), address_);
  EXPECT_EQ(content_[0], kOld);
  EXPECT_EQ(content_[8], 0);
  EXPECT_EQ(content_[11], 0);
  EXPECT_EQ(content_[12], kOld);
}

TEST_F(KernelExecutionTest, NormsOfListsLeaveTheTensorsAlone) {
  OneList list;
  list.addresses[0] = address_;
  list.counts[0] = 4;
  std::array<void*, 1> arguments = {&list};
  const std::uint64_t before = gpemu_cuda_not_computed_bytes();
  launch(kNormLists, arguments.data());
  EXPECT_EQ(gpemu_cuda_not_computed_bytes(), before);
}

TEST_F(KernelExecutionTest, GradientsAreUnscaledAndSaidNotToBeFinite) {
  OneList list;
  list.addresses[0] = address_;
  list.counts[0] = 2;
  struct {
    std::uint64_t found, factor;
  } lambda = {address_ + 128, address_ + 132};
  char functor = 0;
  std::array<void*, 3> arguments = {&list, &functor, &lambda};
  const auto unscale = [&](std::array<float, 2> gradients) {
    const std::array<float, 2> found_and_factor = {0, 0.5F};
    EXPECT_EQ(gpemu_cuda_poke(address_, gradients.data(), 8), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(gpemu_cuda_poke(address_ + 128, found_and_factor.data(), 8), GPEMU_CUDA_SUCCESS);
    launch(kUnscaleLists, arguments.data());
    std::array<float, 3> results{};
    std::memcpy(results.data(), content_.data(), 8);
    std::memcpy(&results[2], &content_[16], 4);
    return results;
  };
  const std::uint64_t before = gpemu_cuda_not_computed_bytes();
  EXPECT_EQ(unscale({3, 8}), (std::array<float, 3>{1.5F, 4, 0}));
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(unscale({3, infinity}), (std::array<float, 3>{1.5F, infinity, 1}));
  EXPECT_EQ(gpemu_cuda_not_computed_bytes(), before);
  // If they are not known, it is not known whether they are finite.
  std::array<std::uint64_t, 3> tensors = {address_, address_ + 256, address_ + 256};
  std::array<void*, 3> mixed = {&list.counts[0], &functor, tensors.data()};
  launch(kMix, mixed.data());
  const std::array<float, 2> found_and_factor = {0, 0.5F};
  EXPECT_EQ(gpemu_cuda_poke(address_ + 128, found_and_factor.data(), 8), GPEMU_CUDA_SUCCESS);
  launch(kUnscaleLists, arguments.data());
  const std::uint64_t mixed_bytes = gpemu_cuda_not_computed_bytes();
  float found = 1;
  EXPECT_EQ(gpemu_cuda_peek(lambda.found, &found, 4), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(found, 0);
  EXPECT_EQ(gpemu_cuda_not_computed_bytes() - mixed_bytes, 4U);
}

TEST_F(KernelExecutionTest, WhoPollsWhatIsNotComputedIsToldOnce) {
  std::int32_t count = 1;
  char functor = 0;
  std::array<void*, 3> arguments = {&count, &functor, &address_};
  launch(kArange, arguments.data());
  const auto read_often = [this](int times) {
    testing::internal::CaptureStderr();
    char flag = 1;
    for (int i = 0; i < times; ++i) {
      EXPECT_EQ(gpemu_cuda_peek(address_, &flag, 1), GPEMU_CUDA_SUCCESS);
    }
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(read_often(900), "");
  const std::string told = read_often(1100);
  EXPECT_NE(told.find("elementwise_kernel_with_index"), std::string::npos) << told;
  EXPECT_EQ(std::count(told.begin(), told.end(), '\n'), 1);
}

TEST(KernelEffect, IsPerformedWhileAThreadEnds) {
  use_test_gpu();
  static std::uint64_t memory = 0;
  ASSERT_EQ(gpemu_cuda_malloc(4096, &memory), GPEMU_CUDA_SUCCESS);
  static constexpr auto kLaunch = [] {
    static const KernelEffect kEffect = effect_of("_Z6kernelPf", nullptr);
    void* argument = &memory;
    launch::perform_launch(
        kEffect, {.grid = {1, 1, 1}, .block = {32, 1, 1}, .arguments = &argument}, nullptr);
  };
  std::thread([] {
    struct LaunchesAtEnd {
      ~LaunchesAtEnd() {
        EXPECT_EQ(gpemu_cuda_set_memory(memory, 0, 0, 1, 4096, 1, nullptr), GPEMU_CUDA_SUCCESS);
        kLaunch();
      }
    };
    // Made first, so that it ends last.
    thread_local const LaunchesAtEnd last;
    static_cast<void>(&last);
    kLaunch();
  }).join();
  EXPECT_FALSE(memory::known_to_kernel(memory, 128));
  EXPECT_EQ(gpemu_cuda_free(memory), GPEMU_CUDA_SUCCESS);
}

}  // namespace
}  // namespace gpemu::cuda
