// SPDX-License-Identifier: Apache-2.0
#include "gpemu/profile/mig_device.hpp"

#include <filesystem>

#include <gtest/gtest.h>

namespace gpemu::profile {
namespace {

TEST(MigDeviceSpec, HasItsShareOfTheGpu) {
  const GpuSpec gpu =
      load_gpu_spec(std::filesystem::path(GPEMU_GPUS_FOLDER) / "A100-SXM4-40GB.toml").value();
  const GpuSpec device = mig_device_spec(
      gpu,
      {.name = "3g.20gb", .multiprocessors = 42, .memory_slices = 4, .memory_bytes = 19968 * kMiB});
  EXPECT_EQ(device.name, "A100-SXM4-40GB MIG 3g.20gb");
  EXPECT_EQ(device.product_name, "NVIDIA A100-SXM4-40GB MIG 3g.20gb");
  EXPECT_EQ(device.multiprocessors, 42);
  EXPECT_EQ(device.cuda_cores, 42 * 64);
  EXPECT_EQ(device.memory_bytes, 19968 * kMiB);
  EXPECT_DOUBLE_EQ(device.memory_bandwidth_bytes_per_s, 1555e9 / 2);
  EXPECT_EQ(device.l2_cache_bytes, 20 * kMiB);
  EXPECT_DOUBLE_EQ(device.fp32_flops, 19.5e12 * 42 / 108);
  EXPECT_DOUBLE_EQ(*device.fp16_tensor_flops, 312e12 * 42 / 108);
  EXPECT_DOUBLE_EQ(device.pinned_copy_bytes_per_s, gpu.pinned_copy_bytes_per_s);
  EXPECT_EQ(device.nvlink_gpus, 1);
  // What it costs is the GPU's calibration, which is not its own.
  EXPECT_EQ(device.calibration->gpu, "A100-SXM4-40GB");
}

}  // namespace
}  // namespace gpemu::profile
