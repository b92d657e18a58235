// SPDX-License-Identifier: Apache-2.0
#include "kernel_effect.hpp"

#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/cuda.h"

#include "test_gpu.hpp"

namespace gpemu::cuda {
namespace {

using Kind = KernelEffect::Kind;

// Names of kernels of PyTorch 2.8 and 2.15.
constexpr const char* kFill =
    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_"
    "T1_";
constexpr const char* kAdd =
    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIlEESt5arrayIPcLm3EELb0"
    "EEEviT0_T1_";
constexpr const char* kSum =
    "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfNS0_14func_wrapper_tIfNS0_11sum_functor"
    "IfffEEEEjfLi4ELi4EEEEEvT1_";

TEST(KernelEffect, FollowsFromTheName) {
  EXPECT_EQ(kernel_effect(kFill).kind, Kind::kFill);
  EXPECT_EQ(kernel_effect(kFill).element_bytes, 4);
  EXPECT_EQ(kernel_effect(kAdd).kind, Kind::kElements);
  EXPECT_EQ(kernel_effect(kAdd).element_bytes, 8);
  EXPECT_EQ(kernel_effect(kAdd).tensors, 3);
  EXPECT_EQ(kernel_effect(kSum).kind, Kind::kReduction);
  EXPECT_EQ(kernel_effect(kSum).element_bytes, 4);
  EXPECT_EQ(kernel_effect("_ZN3cub28DeviceReduceSingleTileKernelIPiS0_EEvT_T0_").argument, 1);
  // Others may name a kernel like one of PyTorch's; its arguments are not ours to read.
  EXPECT_EQ(kernel_effect("_Z29vectorized_elementwise_kernelPf").kind, Kind::kNone);
  EXPECT_EQ(kernel_effect("").kind, Kind::kNone);
}

class KernelEffectTest : public testing::Test {
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
  void launch(const char* name, void* const* arguments) {
    gpemu_cuda_launch launch{};
    launch.grid[0] = launch.grid[1] = launch.grid[2] = 1;
    launch.block[0] = 32;
    launch.block[1] = 4;
    launch.block[2] = 1;
    launch.arguments = arguments;
    apply_effect(kernel_effect(name), launch);
    copy(reinterpret_cast<std::uint64_t>(content_.data()), address_);
  }

  std::uint64_t address_ = 0;
  std::array<std::int64_t, 64> content_{};
};

TEST_F(KernelEffectTest, FillsTakeTheirValue) {
  std::int32_t count = 3;
  float value = 1.5F;
  std::array<void*, 3> arguments = {&count, &value, &address_};
  launch(kFill, arguments.data());
  std::array<float, 4> read{};
  std::memcpy(read.data(), content_.data(), sizeof(read));
  EXPECT_EQ(read[2], 1.5F);
  EXPECT_NE(read[3], 1.5F);
}

TEST_F(KernelEffectTest, NewResultsReadAsZeros) {
  std::int32_t count = 2;
  char functor = 0;
  const std::array<std::uint64_t, 3> tensors = {address_, address_ + 128, address_ + 256};
  std::array<void*, 3> arguments = {&count, &functor, const_cast<std::uint64_t*>(tensors.data())};
  launch(kAdd, arguments.data());
  EXPECT_EQ(content_[0], 0);
  EXPECT_EQ(content_[1], 0);
  EXPECT_EQ(content_[2], kOld);
  EXPECT_EQ(content_[16], kOld);
}

TEST_F(KernelEffectTest, WhatIsChangedInPlaceStays) {
  std::int32_t count = 2;
  char functor = 0;
  const std::array<std::uint64_t, 3> tensors = {address_, address_, address_ + 256};
  std::array<void*, 3> arguments = {&count, &functor, const_cast<std::uint64_t*>(tensors.data())};
  launch(kAdd, arguments.data());
  EXPECT_EQ(content_[0], kOld);
}

TEST_F(KernelEffectTest, ReductionsReadAsZeros) {
  // Two floats of members, the configuration with one output and the launch's block, calculators,
  // then the addresses of the input and of the result.
  std::array<std::int32_t, 280> reduction{};
  reduction[2 + 2] = 1;
  reduction[2 + 11] = 32;
  reduction[2 + 12] = 4;
  reduction[2 + 13] = 128;
  const std::array<std::uint64_t, 2> pointers = {address_ + 256, address_};
  std::memcpy(reinterpret_cast<char*>(reduction.data()) + 984, pointers.data(), sizeof(pointers));
  std::array<void*, 1> arguments = {reduction.data()};
  launch(kSum, arguments.data());
  EXPECT_EQ(content_[0] & 0xffffffff, 0);
  EXPECT_NE(content_[0], 0);
  EXPECT_EQ(content_[1], kOld);
}

TEST_F(KernelEffectTest, AddressesThatAreNotMemoryAreLeftAlone) {
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

}  // namespace
}  // namespace gpemu::cuda
