// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include <gtest/gtest.h>

#include "gpemu/cuda.h"

#include "test_gpu.hpp"

namespace gpemu::cuda {
namespace {

class StreamTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { use_test_gpu(); }
};

TEST_F(StreamTest, PrioritiesAreThoseOfCuda) {
  std::int32_t least = 1, greatest = 1;
  ASSERT_EQ(gpemu_cuda_stream_priority_range(&least, &greatest), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(least, 0);
  EXPECT_EQ(greatest, -5);
  least = greatest = 1;
  EXPECT_EQ(gpemu_cuda_stream_priority_range(nullptr, &greatest), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_stream_priority_range(&least, nullptr), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(least, 0);
  EXPECT_EQ(greatest, -5);
}

TEST_F(StreamTest, TakesTheNearestPriorityOfTheRange) {
  const auto priority_for = [](std::int32_t wanted) {
    gpemu_cuda_stream_handle stream = nullptr;
    gpemu_cuda_stream_info info{};
    EXPECT_EQ(gpemu_cuda_stream_create(1, wanted, &stream), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(gpemu_cuda_stream_get_info(stream, &info), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(info.flags, 1U);
    EXPECT_EQ(gpemu_cuda_stream_destroy(stream), GPEMU_CUDA_SUCCESS);
    return info.priority;
  };
  EXPECT_EQ(priority_for(-6), -5);
  EXPECT_EQ(priority_for(-3), -3);
  EXPECT_EQ(priority_for(1), 0);
}

}  // namespace
}  // namespace gpemu::cuda
