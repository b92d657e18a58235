// SPDX-License-Identifier: Apache-2.0
#include "device_info.hpp"

#include <gtest/gtest.h>

namespace gpemu::cuda {
namespace {

gpemu_cuda_device device_of(int major, int minor) {
  return describe_device({.product_name = "Made-up",
                          .compute_capability_major = major,
                          .compute_capability_minor = minor,
                          .fp32_flops = 1},
                         {});
}

TEST(DeviceInfo, LimitsFollowTheComputeCapability) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(device_of(8, 0).max_threads_per_multiprocessor, 2048);
  EXPECT_EQ(device_of(8, 0).shared_memory_per_block_optin, 163 * kKiB);
  EXPECT_EQ(device_of(12, 0).max_threads_per_multiprocessor, 1536);
  EXPECT_EQ(device_of(12, 0).shared_memory_per_block_optin, 99 * kKiB);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(DeviceInfo, WarnsOfAComputeCapabilityWhoseLimitsAreNotKnown) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(device_of(9, 9).max_threads_per_multiprocessor, 2048);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "gpemu: warning: the limits of compute capability 9.9 are not known; Made-up has those "
            "of 9.0\n");
}

}  // namespace
}  // namespace gpemu::cuda
