// SPDX-License-Identifier: Apache-2.0
#include "gpemu/cost/collective.hpp"

#include <gtest/gtest.h>

namespace gpemu::cost {
namespace {

profile::GpuSpec gpu_with_nvlink(int gpus) {
  profile::GpuSpec gpu;
  gpu.pinned_copy_bytes_per_s = 10e9;
  gpu.nvlink_bytes_per_s = 100e9;
  gpu.nvlink_gpus = gpus;
  return gpu;
}

profile::GpuSpec gpu_without_nvlink() {
  profile::GpuSpec gpu;
  gpu.pinned_copy_bytes_per_s = 10e9;
  return gpu;
}

TEST(AllReduceTime, IsNothingForOneRank) {
  EXPECT_EQ(all_reduce_time(gpu_with_nvlink(8), kGiB, 1).time, Duration::zero());
}

TEST(AllReduceTime, SendsTwiceTheBytesLessOneShareOverPcie) {
  const profile::GpuSpec gpu = gpu_without_nvlink();
  const Bytes bytes = 10'000'000'000;
  const Estimate two = all_reduce_time(gpu, bytes, 2);
  // 2 (n - 1) / n of 10 GB at 10 GB/s, and microseconds of latency.
  EXPECT_NEAR(to_seconds(two.time), 1.0, 1e-4);
  EXPECT_NEAR(to_seconds(all_reduce_time(gpu, bytes, 4).time), 1.5, 1e-4);
  EXPECT_NEAR(to_seconds(all_reduce_time(gpu, bytes, 1000).time), 1.998, 2e-2);
  EXPECT_EQ(two.evidence, Evidence::kAnalytic);
  EXPECT_GT(two.relative_error, 0);
}

TEST(AllReduceTime, UsesNvlinkOnlyWhereItJoinsAllRanks) {
  const profile::GpuSpec bridged = gpu_with_nvlink(2);
  const Bytes bytes = kGiB;
  EXPECT_LT(all_reduce_time(bridged, bytes, 2).time,
            all_reduce_time(gpu_without_nvlink(), bytes, 2).time / 5);
  EXPECT_EQ(all_reduce_time(bridged, bytes, 4).time,
            all_reduce_time(gpu_without_nvlink(), bytes, 4).time);
}

TEST(AllReduceTime, IsLatencyForSmallMessages) {
  const profile::GpuSpec gpu = gpu_with_nvlink(8);
  const Duration two = all_reduce_time(gpu, 0, 2).time;
  const Duration eight = all_reduce_time(gpu, 0, 8).time;
  EXPECT_GT(two, Duration::zero());
  EXPECT_EQ(eight - two, 6 * (all_reduce_time(gpu, 0, 3).time - two));
}

}  // namespace
}  // namespace gpemu::cost
