// SPDX-License-Identifier: Apache-2.0
#include "gpemu/device/memory_limits.hpp"

#include <map>
#include <string>

#include <gtest/gtest.h>

namespace gpemu::device {
namespace {

using Environment = std::map<std::string, std::string>;

Lookup lookup_in(const Environment& environment) {
  return [&environment](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  };
}

std::optional<Bytes> limit_in(const Environment& environment, int index, Bytes total = 100 * kGiB) {
  return MemoryLimits::read(lookup_in(environment)).value().limit(index, total);
}

/// Returns the message; "" if there is no error.
std::string error_in(const Environment& environment) {
  const auto limits = MemoryLimits::read(lookup_in(environment));
  return limits ? "" : limits.error().message;
}

TEST(MemoryLimits, NothingLimitsWithoutVariables) {
  EXPECT_EQ(limit_in({}, 0), std::nullopt);
  EXPECT_EQ(limit_in({{"GPEMU_GPU_FRACTION", ""}, {"CUDA_DEVICE_MEMORY_LIMIT", "0"}}, 0),
            std::nullopt);
}

TEST(MemoryLimits, AFractionIsOfEachDevice) {
  const Environment half = {{"GPEMU_GPU_FRACTION", "0.5"}};
  EXPECT_EQ(limit_in(half, 0, 40 * kMiB), 20 * kMiB);
  EXPECT_EQ(limit_in(half, 7, 10 * kMiB), 5 * kMiB);
  EXPECT_EQ(limit_in({{"GPEMU_GPU_FRACTION", "1"}}, 0), std::nullopt);
}

TEST(MemoryLimits, ALimitIsAllThatAProcessSeesOfADevice) {
  DeviceSnapshot device{.memory_total = 10 * kGiB, .memory_used = 7 * kGiB};
  device.facts.reserved_memory_bytes = kGiB;
  device.processes = {{.pid = 1, .memory_held = 2 * kGiB},
                      {.pid = 2, .foreign_namespace = 5, .memory_held = 5 * kGiB}};
  DeviceSnapshot without = device;
  MemoryLimits::read(lookup_in({})).value().apply(0, without);
  EXPECT_EQ(without.memory_total, 10 * kGiB);
  EXPECT_EQ(without.memory_used, 7 * kGiB) << "of others, too";
  EXPECT_EQ(without.facts.reserved_memory_bytes, kGiB);
  EXPECT_EQ(without.processes.size(), 1U);
  MemoryLimits::read(lookup_in({{"GPEMU_GPU_FRACTION", "0.5"}})).value().apply(0, device);
  EXPECT_EQ(device.memory_total, 5 * kGiB);
  EXPECT_EQ(device.memory_used, 2 * kGiB);
  EXPECT_EQ(device.facts.reserved_memory_bytes, 0U);
}

TEST(MemoryLimits, SizesAreWrittenAsHamiWritesThem) {
  for (const char* text : {"1g", "1G", "1024m", "1048576k", "1073741824"}) {
    EXPECT_EQ(limit_in({{"CUDA_DEVICE_MEMORY_LIMIT", text}}, 3), kGiB) << text;
  }
}

TEST(MemoryLimits, ADevicesOwnVariableCountsInsteadOfTheOther) {
  const Environment environment = {{"CUDA_DEVICE_MEMORY_LIMIT", "1g"},
                                   {"CUDA_DEVICE_MEMORY_LIMIT_1", "2g"}};
  EXPECT_EQ(limit_in(environment, 0), kGiB);
  EXPECT_EQ(limit_in(environment, 1), 2 * kGiB);
  EXPECT_EQ(limit_in(environment, 100), kGiB);
}

TEST(MemoryLimits, TheSmallestCountsAndMoreThanTheDeviceIsNone) {
  const Environment both = {{"GPEMU_GPU_FRACTION", "0.5"}, {"CUDA_DEVICE_MEMORY_LIMIT", "3g"}};
  EXPECT_EQ(limit_in(both, 0, 4 * kGiB), 2 * kGiB);
  EXPECT_EQ(limit_in(both, 0, 8 * kGiB), 3 * kGiB);
  EXPECT_EQ(limit_in({{"CUDA_DEVICE_MEMORY_LIMIT", "3g"}}, 0, 2 * kGiB), std::nullopt);
}

TEST(MemoryLimits, WrongValuesNameTheirVariable) {
  for (const char* text : {"0", "1.01", "-1", "nan", "half", "0.5x", "50%"}) {
    const std::string message = error_in({{"GPEMU_GPU_FRACTION", text}});
    EXPECT_TRUE(message.starts_with("GPEMU_GPU_FRACTION is \"" + std::string(text) + "\""))
        << message;
  }
  for (const char* text : {"1t", "-1g", "g", "1.5g", "99999999999g", "1g "}) {
    const std::string message = error_in({{"CUDA_DEVICE_MEMORY_LIMIT_2", text}});
    EXPECT_TRUE(message.starts_with("CUDA_DEVICE_MEMORY_LIMIT_2 is \"" + std::string(text) + "\""))
        << message;
  }
}

}  // namespace
}  // namespace gpemu::device
