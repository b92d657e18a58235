// SPDX-License-Identifier: Apache-2.0
// The functions of NVML's shim for power limits and clocks: good calls and bad ones of each. Source
// of the statuses: nvml.h of NVML 13.5.
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <unistd.h>

#include <gtest/gtest.h>

#include "gpemu/gpemu.h"

#include "loaded_libraries.hpp"
#include "nvml/abi.hpp"

namespace {

/// An A100, of 400 W and 50 W when idle, on which a kernel of this process runs as long as the test
/// does.
class NvmlPower : public LoadedLibraries {
 protected:
  static constexpr int kSuccess = nvml::kSuccess, kInvalidArgument = nvml::kInvalidArgument,
                       kNotSupported = nvml::kNotSupported,
                       kVersionMismatch = nvml::kArgumentVersionMismatch;

  void SetUp() override {
    load({GPEMU_TEST_NVML});
    folder_ = std::filesystem::path(testing::TempDir()) /
              ("gpemu_nvml_power_" + std::to_string(getpid()));
    ASSERT_EQ(setenv("GPEMU_NODE_DIR", folder_.c_str(), 1), 0);
    ASSERT_EQ(setenv("GPEMU_NODE", "n", 1), 0);
    const gpemu_node_config config{
        .struct_size = sizeof config, .name = "n", .gpu = "A100-SXM4-40GB", .device_count = 1};
    const int64_t hour_ns = 3'600'000'000'000;
    ASSERT_EQ(call("gpemu_node_create", &config, &node_), 0);
    ASSERT_EQ(call("gpemu_device_open", node_, 0, &busy_), 0);
    ASSERT_EQ(call("gpemu_stream_default", busy_, &stream_), 0);
    ASSERT_EQ(call("gpemu_stream_launch", stream_, hour_ns, none_), 0);
    ASSERT_EQ(call("nvmlInit_v2"), kSuccess);
    ASSERT_EQ(call("nvmlDeviceGetHandleByIndex_v2", 0, &device_), kSuccess);
  }
  void TearDown() override {
    EXPECT_EQ(call("nvmlShutdown"), kSuccess);
    call_as<void>("gpemu_stream_destroy", stream_);
    call_as<void>("gpemu_device_close", busy_);
    call_as<void>("gpemu_node_close", node_);
    std::filesystem::remove_all(folder_);
    unsetenv("GPEMU_NODE");
    unsetenv("GPEMU_NODE_DIR");
  }

  unsigned limit() {
    unsigned milliwatts = 0;
    EXPECT_EQ(call("nvmlDeviceGetEnforcedPowerLimit", device_, &milliwatts), kSuccess);
    return milliwatts;
  }
  /// Returns the reasons over the period that began before the last change.
  uint64_t reasons() {
    uint64_t reasons = 0;
    EXPECT_EQ(call("nvmlDeviceGetCurrentClocksEventReasons", device_, &reasons), kSuccess);
    return reasons;
  }

  std::filesystem::path folder_;
  void *node_ = nullptr, *busy_ = nullptr, *stream_ = nullptr;
  void* device_ = nullptr;
};

TEST_F(NvmlPower, ALimitIsSetWithinTheConstraints) {
  unsigned min = 0, max = 0;
  const char* constraints = "nvmlDeviceGetPowerManagementLimitConstraints";
  ASSERT_EQ(call(constraints, device_, &min, &max), kSuccess);
  EXPECT_EQ(call(constraints, device_, &min, none_), kInvalidArgument);
  EXPECT_EQ(min, 94'000U);
  EXPECT_EQ(max, 400'000U);
  const char* set = "nvmlDeviceSetPowerManagementLimit";
  EXPECT_EQ(call(set, device_, min), kSuccess);
  EXPECT_EQ(limit(), min);
  EXPECT_EQ(call(set, device_, min - 1), kInvalidArgument);
  EXPECT_EQ(call(set, device_, 0U), kInvalidArgument);
  EXPECT_EQ(call(set, none_, min), kInvalidArgument);
  nvml::PowerValue value{.version = 0, .scope = nvml::kGpuScope, .milliwatts = 225'000};
  const char* set_v2 = "nvmlDeviceSetPowerManagementLimit_v2";
  EXPECT_EQ(call(set_v2, device_, &value), kVersionMismatch);
  value.version = sizeof value | (2U << 24);
  EXPECT_EQ(call(set_v2, device_, &value), kSuccess);
  EXPECT_EQ(limit(), 225'000U);
  EXPECT_EQ(call(set_v2, device_, none_), kInvalidArgument);
  unsigned milliwatts = 0;
  EXPECT_EQ(call("nvmlDeviceGetPowerManagementLimit", device_, &milliwatts), kSuccess);
  EXPECT_EQ(milliwatts, 225'000U);
  EXPECT_EQ(call("nvmlDeviceGetPowerManagementDefaultLimit", device_, &milliwatts), kSuccess);
  EXPECT_EQ(milliwatts, 400'000U);
}

TEST_F(NvmlPower, ALimitedDeviceTellsWhyItsClockIsLow) {
  EXPECT_EQ(reasons(), nvml::kNoReason);
  ASSERT_EQ(call("nvmlDeviceSetPowerManagementLimit", device_, 225'000U), kSuccess);
  EXPECT_EQ(reasons(), nvml::kSwPowerCap);
  const char* function = "nvmlDeviceGetViolationStatus";
  nvml::ViolationTime time{};
  EXPECT_EQ(call(function, device_, nvml::kPowerPolicy, &time), kSuccess);
  EXPECT_GT(time.violation_ns, 0U);
  EXPECT_GT(time.reference_us, 0U);
  EXPECT_EQ(call(function, device_, nvml::kThermalPolicy, &time), kNotSupported);
  EXPECT_EQ(call(function, device_, nvml::kPerfPolicyEnd, &time), kInvalidArgument);
  EXPECT_EQ(call(function, device_, nvml::kPowerPolicy, none_), kInvalidArgument);
  nvml::FieldValue fields[3]{};
  fields[0].field = nvml::kCurrentLimitField;
  fields[1].field = nvml::kMinLimitField;
  fields[2].field = nvml::kPowerViolationField;
  ASSERT_EQ(call("nvmlDeviceGetFieldValues", device_, 3, &fields[0]), kSuccess);
  EXPECT_EQ(fields[0].value.as_unsigned, 225'000U);
  EXPECT_EQ(fields[1].value.as_unsigned, 94'000U);
  EXPECT_GE(fields[2].value.as_unsigned_long_long, time.violation_ns);
}

TEST_F(NvmlPower, ALockedClockIsTheHighest) {
  const char* function = "nvmlDeviceSetGpuLockedClocks";
  EXPECT_EQ(call(function, device_, 210U, 705U), kSuccess);
  EXPECT_EQ(reasons(), nvml::kClocksSetting);
  unsigned megahertz = 0;
  EXPECT_EQ(call("nvmlDeviceGetClockInfo", device_, nvml::kSmClock, &megahertz), kSuccess);
  EXPECT_EQ(megahertz, 705U);
  EXPECT_EQ(call(function, device_, 800U, 705U), kInvalidArgument);
  EXPECT_EQ(call(function, device_, 0U, 0U), kInvalidArgument);
  EXPECT_EQ(call("nvmlDeviceResetGpuLockedClocks", device_), kSuccess);
  EXPECT_EQ(call("nvmlDeviceResetGpuLockedClocks", none_), kInvalidArgument);
  EXPECT_EQ(call(function, device_, nvml::kTdpClock, nvml::kUnlimitedClock), kSuccess);
}

}  // namespace
