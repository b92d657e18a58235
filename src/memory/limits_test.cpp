// SPDX-License-Identifier: Apache-2.0
#include "gpemu/memory/limits.hpp"

#include <optional>

#include <gtest/gtest.h>

namespace gpemu::memory {
namespace {

/// A limit that was set on an H200, and what came of it; nothing: INVALID_VALUE.
struct LimitSetting {
  std::int32_t limit;
  std::uint64_t value;
  std::optional<std::uint64_t> result;
};

/// A device of which only what limits depend on is known.
struct LimitedDevice : process::DeviceState {
  LimitedDevice(int major, int multiprocessors) {
    spec.generation = profile::generation_facts(major, 0).value();
    info.multiprocessors = multiprocessors;
    info.shared_memory_per_block_optin = 232448;
  }
};

std::uint64_t limit_of(process::DeviceState& device, std::int32_t limit) {
  std::uint64_t value = 0;
  EXPECT_EQ(get_limit(device, limit, &value), GPEMU_CUDA_SUCCESS) << limit;
  return value;
}

}  // namespace

TEST(Limits, AreThoseOfAnH200) {
  LimitedDevice device(9, 132);
  EXPECT_EQ(limit_of(device, 0), 1024);
  EXPECT_EQ(limit_of(device, 1), 8650752);
  EXPECT_EQ(limit_of(device, 2), 8388608);
  EXPECT_EQ(limit_of(device, 4), 2048);
  EXPECT_EQ(limit_of(device, 5), 64);
  EXPECT_EQ(limit_of(device, 7), 232448);
  EXPECT_EQ(limit_of(device, 8), 0);
  std::uint64_t value = 7;
  EXPECT_EQ(get_limit(device, 3, &value), GPEMU_CUDA_ERROR_UNSUPPORTED_LIMIT);
  EXPECT_EQ(get_limit(device, 9, &value), GPEMU_CUDA_ERROR_UNSUPPORTED_LIMIT);
  EXPECT_EQ(get_limit(device, 10, &value), GPEMU_CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(get_limit(device, -1, &value), GPEMU_CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(value, 7);
}

TEST(Limits, AreRoundedAndClampedAsOnAnH200) {
  const LimitSetting settings[] = {{0, 0, 0},
                                   {0, 1, 16},
                                   {0, 1000, 1008},
                                   {0, 262144, 262144},
                                   {0, 524288, {}},
                                   {1, 0, 524288},
                                   {1, 1048576, 1048576},
                                   {1, 1 << 30, 1 << 30},
                                   {2, 0, 4194304},
                                   {2, 1 << 24, 1 << 24},
                                   {4, 0, 32},
                                   {4, 1000, 1000},
                                   {4, 1 << 20, 599186},
                                   {5, 0, 0},
                                   {5, 1, 1},
                                   {5, 1000, {}}};
  for (const LimitSetting& setting : settings) {
    LimitedDevice device(9, 132);
    const std::uint64_t before = limit_of(device, setting.limit);
    EXPECT_EQ(set_limit(device, setting.limit, setting.value),
              setting.result ? GPEMU_CUDA_SUCCESS : GPEMU_CUDA_ERROR_INVALID_VALUE)
        << setting.limit << " to " << setting.value;
    EXPECT_EQ(limit_of(device, setting.limit), setting.result.value_or(before))
        << setting.limit << " to " << setting.value;
  }
}

TEST(Limits, OfReadingOnlyAreNotSet) {
  LimitedDevice device(9, 132);
  EXPECT_EQ(set_limit(device, 3, 1), GPEMU_CUDA_ERROR_UNSUPPORTED_LIMIT);
  EXPECT_EQ(set_limit(device, 7, 1), GPEMU_CUDA_ERROR_UNSUPPORTED_LIMIT);
  EXPECT_EQ(set_limit(device, 12, 1), GPEMU_CUDA_ERROR_INVALID_VALUE);
}

TEST(Limits, OfOlderDevicesAreTheDocumentedOnes) {
  LimitedDevice device(7, 80);
  EXPECT_EQ(limit_of(device, 1), 1 << 20);
  EXPECT_EQ(limit_of(device, 3), 2);
  EXPECT_EQ(limit_of(device, 5), 128);
  EXPECT_EQ(set_limit(device, 3, 4), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(limit_of(device, 3), 4);
}

}  // namespace gpemu::memory
