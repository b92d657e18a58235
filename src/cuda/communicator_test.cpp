// SPDX-License-Identifier: Apache-2.0
// What the functions for communicators refuse. Several ranks need a clock that runs by itself:
// tests/integration/nccl_test.py has the good calls.
#include <algorithm>
#include <cstdlib>
#include <iterator>

#include <gtest/gtest.h>

#include "gpemu/cuda.h"

#include "test_gpu.hpp"

namespace gpemu::cuda {
namespace {

class CommunicatorTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { use_test_gpu(); }
  gpemu_cuda_comm_handle none_ = nullptr;
  gpemu_cuda_comm_handle dead_ = reinterpret_cast<gpemu_cuda_comm_handle>(&none_);
};

TEST_F(CommunicatorTest, UniqueIdsDiffer) {
  gpemu_cuda_comm_id one{}, other{};
  ASSERT_EQ(gpemu_cuda_comm_unique_id(&one), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_comm_unique_id(&other), GPEMU_CUDA_SUCCESS);
  EXPECT_FALSE(std::ranges::equal(one.bytes, other.bytes));
  EXPECT_EQ(gpemu_cuda_comm_unique_id(nullptr), GPEMU_CUDA_ERROR_INVALID_VALUE);
}

TEST_F(CommunicatorTest, RanksNeedAClockThatRunsByItself) {
  gpemu_cuda_comm_id id{};
  ASSERT_EQ(gpemu_cuda_comm_unique_id(&id), GPEMU_CUDA_SUCCESS);
  gpemu_cuda_comm_start start{.id = &id, .ranks = 2, .rank = 0, .device = 0};
  gpemu_cuda_comm_handle made = dead_;
  EXPECT_EQ(gpemu_cuda_comm_start_all(&start, 1, &made), GPEMU_CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(made, dead_) << "a failed call changes no output";
  start.rank = 2;
  EXPECT_EQ(gpemu_cuda_comm_start_all(&start, 1, &made), GPEMU_CUDA_ERROR_INVALID_VALUE);
  start = {.parent = dead_, .excluded_count = 1};
  EXPECT_EQ(gpemu_cuda_comm_start_all(&start, 1, &made), GPEMU_CUDA_ERROR_INVALID_HANDLE);
  start = {.parent = dead_};
  EXPECT_EQ(gpemu_cuda_comm_start_all(&start, 1, &made), GPEMU_CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(gpemu_cuda_comm_start_all(nullptr, 1, &made), GPEMU_CUDA_ERROR_INVALID_VALUE);
  EXPECT_STREQ(gpemu_cuda_comm_warning(), "") << "no device came twice";
}

TEST_F(CommunicatorTest, TheIdOfANamedAddressIsTheSameEachTime) {
  gpemu_cuda_comm_id one{}, other{};
  ::setenv("NCCL_COMM_ID", "127.0.0.1:29500", 1);
  EXPECT_EQ(gpemu_cuda_comm_unique_id(&one), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_comm_unique_id(&other), GPEMU_CUDA_SUCCESS);
  EXPECT_TRUE(std::ranges::equal(one.bytes, other.bytes));
  ::setenv("NCCL_COMM_ID", "127.0.0.1", 1);
  EXPECT_EQ(gpemu_cuda_comm_unique_id(&one), GPEMU_CUDA_ERROR_INVALID_VALUE);
  ::unsetenv("NCCL_COMM_ID");
}

TEST_F(CommunicatorTest, NothingIsExpectedOfNoCollectives) {
  const gpemu_cuda_comm_call call{.comm = dead_, .count = 1};
  double time = 0;
  EXPECT_EQ(gpemu_cuda_comm_expected_time(nullptr, 0, &time), GPEMU_CUDA_SUCCESS);
  EXPECT_LT(time, 0);
  EXPECT_EQ(gpemu_cuda_comm_expected_time(nullptr, 1, &time), GPEMU_CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(gpemu_cuda_comm_expected_time(&call, 1, nullptr), GPEMU_CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(gpemu_cuda_comm_expected_time(&call, 1, &time), GPEMU_CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(CommunicatorTest, DeadHandlesAreRefused) {
  for (const gpemu_cuda_comm_handle handle : {none_, dead_}) {
    const gpemu_cuda_comm_call call{.comm = handle, .count = 1};
    gpemu_cuda_comm_info info{};
    gpemu_cuda_status error = GPEMU_CUDA_SUCCESS;
    EXPECT_EQ(gpemu_cuda_comm_run(&call, 1), GPEMU_CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(gpemu_cuda_comm_get_info(handle, &info), GPEMU_CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(gpemu_cuda_comm_error(handle, &error), GPEMU_CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(gpemu_cuda_comm_finalize(handle), GPEMU_CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(gpemu_cuda_comm_destroy(handle), GPEMU_CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(gpemu_cuda_comm_abort(handle), GPEMU_CUDA_ERROR_INVALID_HANDLE);
  }
  EXPECT_EQ(gpemu_cuda_comm_run(nullptr, 1), GPEMU_CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(gpemu_cuda_comm_run(nullptr, 0), GPEMU_CUDA_SUCCESS);
}

}  // namespace
}  // namespace gpemu::cuda
