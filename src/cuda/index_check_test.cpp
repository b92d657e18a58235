// SPDX-License-Identifier: Apache-2.0
#include "gpemu/kernels/index_check.hpp"

#include <array>
#include <cstdint>

#include <gtest/gtest.h>

#include "gpemu/cuda.h"
#include "gpemu/memory/kernel_memory.hpp"
#include "gpemu/process/attach.hpp"
#include "gpemu/process/faults.hpp"

#include "test_gpu.hpp"

namespace gpemu::cuda {

using kernels::IndexCheck, kernels::NumberType, kernels::in_a_row;
namespace {

class IndexCheckTest : public testing::Test {
 protected:
  void SetUp() override {
    use_test_gpu();
    ASSERT_EQ(gpemu_cuda_malloc(512, &check_.address), GPEMU_CUDA_SUCCESS);
    check_.places = in_a_row(3, 8);
    check_.size = 10;
  }
  void TearDown() override { static_cast<void>(gpemu_cuda_free(check_.address)); }
  void set(std::array<std::int64_t, 3> indices) const {
    ASSERT_EQ(gpemu_cuda_poke(check_.address, indices.data(), sizeof(indices)), GPEMU_CUDA_SUCCESS);
  }

  IndexCheck check_;
};

TEST_F(IndexCheckTest, NamesTheFirstThatIsOutOfBounds) {
  set({0, 9, 5});
  EXPECT_EQ(kernels::find_wrong_index(check_, memory::kernel_memory()), std::nullopt);
  set({0, 10, -1});
  EXPECT_EQ(kernels::find_wrong_index(check_, memory::kernel_memory()),
            "index 10 is out of bounds for a dimension of 10");
  set({0, -1, 10});
  EXPECT_EQ(kernels::find_wrong_index(check_, memory::kernel_memory()),
            "index -1 is out of bounds for a dimension of 10");
}

TEST_F(IndexCheckTest, AllowsNegativeOnesThatCountFromTheEnd) {
  check_.wraps = true;
  set({-1, -10, 3});
  EXPECT_EQ(kernels::find_wrong_index(check_, memory::kernel_memory()), std::nullopt);
  set({-1, -11, 3});
  EXPECT_TRUE(kernels::find_wrong_index(check_, memory::kernel_memory()).has_value());
}

TEST_F(IndexCheckTest, AllowsTheOneThatIsIgnored) {
  check_.ignored = -100;
  set({1, -100, 3});
  EXPECT_EQ(kernels::find_wrong_index(check_, memory::kernel_memory()), std::nullopt);
}

TEST_F(IndexCheckTest, SaysNothingOfIndicesThatAreNotKnown) {
  set({1, 20, 3});
  memory::leave_uncomputed(check_.address + 16, 8, kernels::Uncomputed::kWritten, 1);
  EXPECT_EQ(kernels::find_wrong_index(check_, memory::kernel_memory()), std::nullopt);
}

TEST_F(IndexCheckTest, MayAskForValuesThatAreNotZero) {
  check_.message = "must not be zero";
  set({1, -20, 3});
  EXPECT_EQ(kernels::find_wrong_index(check_, memory::kernel_memory()), std::nullopt);
  set({1, 0, 3});
  EXPECT_EQ(kernels::find_wrong_index(check_, memory::kernel_memory()), "must not be zero");
}

}  // namespace
}  // namespace gpemu::cuda
