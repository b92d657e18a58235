// SPDX-License-Identifier: Apache-2.0
#include "device_info.hpp"

#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

namespace gpemu::process {
namespace {

gpemu_cuda_device device_of(int major, int minor) {
  return describe_device({.product_name = "Made-up",
                          .compute_capability_major = major,
                          .compute_capability_minor = minor,
                          .generation = profile::generation_facts(major, minor).value(),
                          .memory_bandwidth_bytes_per_s = 1e15,
                          .memory_bus_bits = 8,
                          .fp32_flops = 1},
                         {});
}

TEST(DeviceInfo, LimitsFollowTheComputeCapability) {
  EXPECT_EQ(device_of(8, 0).max_threads_per_multiprocessor, 2048);
  EXPECT_EQ(device_of(8, 0).shared_memory_per_block_optin, 163 * kKiB);
  EXPECT_EQ(device_of(8, 9).max_threads_per_multiprocessor, 1536);
  EXPECT_EQ(device_of(8, 9).shared_memory_per_block_optin, 99 * kKiB);
}

TEST(DeviceInfo, AMemoryClockThatNoIntHoldsIsTheLargest) {
  EXPECT_EQ(device_of(8, 0).memory_clock_khz, std::numeric_limits<std::int32_t>::max());
}

}  // namespace
}  // namespace gpemu::process
