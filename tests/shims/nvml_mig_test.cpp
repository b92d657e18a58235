// SPDX-License-Identifier: Apache-2.0
// The functions of NVML's shim for Multi-Instance GPU: good calls and bad ones of each. Sources:
// nvml.h of NVML 13.5 for the statuses, NVIDIA's MIG user guide for the profiles of an A100.
#include <cstdlib>
#include <filesystem>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/gpemu.h"

#include "loaded_libraries.hpp"
#include "nvml/abi.hpp"

namespace {

using nvml::Placement;
using Places = std::vector<std::pair<unsigned, unsigned>>;

/// One A100, which MIG divides, without an instance.
class NvmlMig : public LoadedLibraries {
 protected:
  static constexpr int kSuccess = nvml::kSuccess, kInvalidArgument = nvml::kInvalidArgument,
                       kNotSupported = nvml::kNotSupported, kNotFound = nvml::kNotFound,
                       kInUse = nvml::kInUse, kInsufficientResources = nvml::kInsufficientResources,
                       kVersionMismatch = nvml::kArgumentVersionMismatch;
  /// Ids of GPU instance profiles, and of the compute instance profiles that 3g.20gb has.
  static constexpr unsigned k3g20gb = 9, k4g20gb = 5, k1c = 0, k2c = 1, k3c = 2;
  /// NVML_GPU_INSTANCE_PROFILE_3_SLICE; ..._8_SLICE, which an A100 does not have.
  static constexpr unsigned k3Slices = 2, k8Slices = 5;
  static constexpr unsigned kNoProfile = 99;

  void SetUp() override {
    load({GPEMU_TEST_NVML});
    folder_ =
        std::filesystem::path(testing::TempDir()) / ("gpemu_nvml_mig_" + std::to_string(getpid()));
    ASSERT_EQ(setenv("GPEMU_NODE_DIR", folder_.c_str(), 1), 0);
    ASSERT_EQ(setenv("GPEMU_NODE", "n", 1), 0);
    const gpemu_node_config config{.struct_size = sizeof config,
                                   .name = "n",
                                   .gpu = "A100-SXM4-40GB",
                                   .device_count = 1,
                                   .mig = 1};
    ASSERT_EQ(call("gpemu_node_create", &config, &node_), 0);
    ASSERT_EQ(call("nvmlInit_v2"), kSuccess);
    ASSERT_EQ(call("nvmlDeviceGetHandleByIndex_v2", 0, &device_), kSuccess);
  }
  void TearDown() override {
    EXPECT_EQ(call("nvmlShutdown"), kSuccess);
    call_as<void>("gpemu_node_close", node_);
    std::filesystem::remove_all(folder_);
    unsetenv("GPEMU_NODE");
    unsetenv("GPEMU_NODE_DIR");
  }

  /// Creates a GPU instance 3g.20gb that starts at a memory slice.
  void* create_at(unsigned start) {
    const Placement placement{.start = start, .size = 4};
    void* instance = nullptr;
    EXPECT_EQ(
        call("nvmlDeviceCreateGpuInstanceWithPlacement", device_, k3g20gb, &placement, &instance),
        kSuccess);
    return instance;
  }
  void* create_compute(void* instance, unsigned profile) {
    void* made = nullptr;
    EXPECT_EQ(call("nvmlGpuInstanceCreateComputeInstance", instance, profile, &made), kSuccess);
    return made;
  }
  /// Returns what a function lists that takes an owner and a profile.
  std::vector<void*> list(const char* function, void* owner, unsigned profile) {
    void* found[8]{};
    unsigned count = 8;
    EXPECT_EQ(call(function, owner, profile, &found[0], &count), kSuccess) << function;
    EXPECT_LE(count, 8U) << function;
    return std::vector<void*>(&found[0], &found[0] + count);
  }
  /// As list, for the possible places of a profile.
  Places places(const char* function, void* owner, unsigned profile) {
    Placement found[8]{};
    unsigned count = 0;
    EXPECT_EQ(call(function, owner, profile, none_, &count), kSuccess) << "how many";
    const unsigned size = count;
    EXPECT_EQ(call(function, owner, profile, &found[0], &count), kSuccess) << function;
    EXPECT_EQ(count, size) << function;
    Places places;
    for (unsigned i = 0; i < count; ++i) places.emplace_back(found[i].start, found[i].size);
    return places;
  }
  unsigned capacity(const char* function, void* owner, unsigned profile) {
    unsigned count = 77;
    EXPECT_EQ(call(function, owner, profile, &count), kSuccess) << function;
    return count;
  }

  template <typename Info>
  static Info of_version(unsigned number) {
    Info info{};
    info.version = sizeof(Info) | (number << 24);
    return info;
  }

  std::filesystem::path folder_;
  void *node_ = nullptr, *device_ = nullptr;
};

TEST_F(NvmlMig, TheModeIsOnOrOff) {
  unsigned current = 7, pending = 7;
  EXPECT_EQ(call("nvmlDeviceGetMigMode", device_, &current, &pending), kSuccess);
  EXPECT_EQ(current, nvml::kEnabled);
  EXPECT_EQ(pending, nvml::kEnabled);
  unsigned most = 0;
  EXPECT_EQ(call("nvmlDeviceGetMaxMigDeviceCount", device_, &most), kSuccess);
  EXPECT_EQ(most, 7U);
  int activation = 7;
  EXPECT_EQ(call("nvmlDeviceSetMigMode", device_, nvml::kEnabled, &activation), kSuccess);
  EXPECT_EQ(activation, kSuccess);
  EXPECT_EQ(call("nvmlDeviceSetMigMode", device_, nvml::kDisabled, &activation), kSuccess);
  EXPECT_EQ(activation, kSuccess);
  EXPECT_EQ(call("nvmlDeviceGetMigMode", device_, &current, &pending), kSuccess);
  EXPECT_EQ(current, nvml::kDisabled);
  EXPECT_EQ(pending, nvml::kDisabled);
  EXPECT_EQ(call("nvmlDeviceSetMigMode", device_, nvml::kEnabled, &activation), kSuccess);
  EXPECT_EQ(activation, kSuccess);
  EXPECT_EQ(call("nvmlDeviceSetMigMode", device_, 2, &activation), kInvalidArgument);
  EXPECT_EQ(call("nvmlDeviceSetMigMode", device_, nvml::kEnabled, none_), kInvalidArgument);
}

TEST_F(NvmlMig, AllVersionsOfAGpuInstanceProfileAgree) {
  nvml::GpuInstanceProfileInfo first{};
  auto second = of_version<nvml::GpuInstanceProfileInfoV2>(2);
  auto third = of_version<nvml::GpuInstanceProfileInfoV3>(3);
  const char *function = "nvmlDeviceGetGpuInstanceProfileInfo",
             *versioned = "nvmlDeviceGetGpuInstanceProfileInfoV";
  EXPECT_EQ(call(function, device_, k3Slices, &first), kSuccess);
  EXPECT_EQ(call(versioned, device_, k3Slices, &second), kSuccess);
  EXPECT_EQ(call(versioned, device_, k3Slices, &third), kSuccess);
  const auto expect_3g20gb = [](const auto& info) {
    EXPECT_EQ(info.id, k3g20gb);
    EXPECT_EQ(info.slices, 3U);
    EXPECT_EQ(info.instances, 2U);
    EXPECT_EQ(info.multiprocessors, 42U);
    EXPECT_EQ(info.copy_engines, 3U);
    EXPECT_EQ(info.decoders, 2U);
    EXPECT_EQ(info.encoders + info.jpegs + info.ofas, 0U);
    EXPECT_EQ(info.memory_mib, 19'968U);
  };
  expect_3g20gb(first);
  expect_3g20gb(second);
  expect_3g20gb(third);
  EXPECT_STREQ(second.name, "MIG 3g.20gb");
  EXPECT_STREQ(third.name, "MIG 3g.20gb");

  for (const char* either : {function, versioned}) {
    EXPECT_EQ(call(either, device_, k8Slices, &second), kNotSupported) << either;
    EXPECT_EQ(call(either, device_, kNoProfile, &second), kInvalidArgument) << either;
    EXPECT_EQ(call(either, none_, k3Slices, &second), kInvalidArgument) << either;
    EXPECT_EQ(call(either, device_, k3Slices, none_), kInvalidArgument) << either;
  }
  second.version = 0;
  EXPECT_EQ(call(versioned, device_, k3Slices, &second), kVersionMismatch);
}

TEST_F(NvmlMig, GpuInstancesAreCreatedListedAndDestroyed) {
  const char* const remaining = "nvmlDeviceGetGpuInstanceRemainingCapacity";
  EXPECT_EQ(capacity(remaining, device_, k3g20gb), 2U);
  for (const char* function : {"nvmlDeviceGetGpuInstancePossiblePlacements",
                               "nvmlDeviceGetGpuInstancePossiblePlacements_v2"}) {
    EXPECT_EQ(places(function, device_, k3g20gb), (Places{{0, 4}, {4, 4}})) << function;
    EXPECT_EQ(places(function, device_, k4g20gb), (Places{{0, 4}})) << function;
  }
  void *const left = create_at(0), *right = nullptr;
  ASSERT_EQ(call("nvmlDeviceCreateGpuInstance", device_, k3g20gb, &right), kSuccess);
  EXPECT_EQ(capacity(remaining, device_, k3g20gb), 0U);
  EXPECT_EQ(list("nvmlDeviceGetGpuInstances", device_, k3g20gb), (std::vector{left, right}));
  EXPECT_TRUE(list("nvmlDeviceGetGpuInstances", device_, k4g20gb).empty());
  for (const auto& [instance, start] : {std::pair{left, 0U}, {right, 4U}}) {
    nvml::GpuInstanceInfo info{};
    EXPECT_EQ(call("nvmlGpuInstanceGetInfo", instance, &info), kSuccess);
    EXPECT_EQ(static_cast<void*>(info.device), device_);
    EXPECT_EQ(info.profile, k3g20gb);
    EXPECT_EQ(info.placement.start, start);
    EXPECT_EQ(info.placement.size, 4U);
    void* found = nullptr;
    EXPECT_EQ(call("nvmlDeviceGetGpuInstanceById", device_, info.id, &found), kSuccess);
    EXPECT_EQ(found, instance);
  }
  void* third = nullptr;
  EXPECT_EQ(call("nvmlDeviceCreateGpuInstance", device_, k3g20gb, &third), kInsufficientResources);
  EXPECT_EQ(third, nullptr);
  EXPECT_EQ(call("nvmlGpuInstanceDestroy", right), kSuccess);
  EXPECT_EQ(capacity(remaining, device_, k3g20gb), 1U);
  EXPECT_EQ(list("nvmlDeviceGetGpuInstances", device_, k3g20gb), std::vector{left});
  EXPECT_EQ(call("nvmlGpuInstanceDestroy", right), kNotFound) << "it is destroyed";
}

TEST_F(NvmlMig, BadCallsForGpuInstancesFail) {
  void *const instance = create_at(0), *found = nullptr;
  unsigned count = 8;
  Placement places[8]{};
  for (const char* function : {"nvmlDeviceGetGpuInstancePossiblePlacements",
                               "nvmlDeviceGetGpuInstancePossiblePlacements_v2"}) {
    EXPECT_EQ(call(function, device_, kNoProfile, &places[0], &count), kInvalidArgument);
    EXPECT_EQ(call(function, none_, k3g20gb, &places[0], &count), kInvalidArgument);
    EXPECT_EQ(call(function, device_, k3g20gb, &places[0], none_), kInvalidArgument);
  }
  const char* function = "nvmlDeviceGetGpuInstanceRemainingCapacity";
  EXPECT_EQ(call(function, device_, kNoProfile, &count), kInvalidArgument);
  EXPECT_EQ(call(function, device_, k3g20gb, none_), kInvalidArgument);
  function = "nvmlDeviceCreateGpuInstance";
  EXPECT_EQ(call(function, device_, kNoProfile, &found), kInvalidArgument);
  EXPECT_EQ(call(function, none_, k3g20gb, &found), kInvalidArgument);
  EXPECT_EQ(call(function, device_, k3g20gb, none_), kInvalidArgument);
  function = "nvmlDeviceCreateGpuInstanceWithPlacement";
  const Placement taken{.start = 0, .size = 4}, beyond{.start = 8, .size = 4};
  EXPECT_EQ(call(function, device_, k3g20gb, &taken, &found), kInsufficientResources);
  EXPECT_EQ(call(function, device_, k3g20gb, &beyond, &found), kInvalidArgument);
  EXPECT_EQ(call(function, device_, k3g20gb, none_, &found), kInvalidArgument);
  function = "nvmlDeviceGetGpuInstances";
  EXPECT_EQ(call(function, device_, k3g20gb, none_, &count), kInvalidArgument);
  EXPECT_EQ(call(function, device_, k3g20gb, &found, none_), kInvalidArgument);
  EXPECT_EQ(call("nvmlDeviceGetGpuInstanceById", device_, kNoProfile, &found), kNotFound);
  EXPECT_EQ(call("nvmlDeviceGetGpuInstanceById", device_, 1, none_), kInvalidArgument);
  nvml::GpuInstanceInfo info{};
  EXPECT_EQ(call("nvmlGpuInstanceGetInfo", device_, &info), kInvalidArgument);
  EXPECT_EQ(call("nvmlGpuInstanceGetInfo", instance, none_), kInvalidArgument);
  EXPECT_EQ(call("nvmlGpuInstanceDestroy", device_), kInvalidArgument);
  create_compute(instance, k1c);
  EXPECT_EQ(call("nvmlGpuInstanceDestroy", instance), kInUse);
  EXPECT_EQ(found, nullptr);
}

TEST_F(NvmlMig, AllVersionsOfAComputeInstanceProfileAgree) {
  void* const instance = create_at(4);
  nvml::ComputeInstanceProfileInfo first{};
  auto second = of_version<nvml::ComputeInstanceProfileInfoV2>(2);
  auto third = of_version<nvml::ComputeInstanceProfileInfoV3>(3);
  const char *function = "nvmlGpuInstanceGetComputeInstanceProfileInfo",
             *versioned = "nvmlGpuInstanceGetComputeInstanceProfileInfoV";
  const unsigned engines = nvml::kSharedEngines;
  EXPECT_EQ(call(function, instance, k2c, engines, &first), kSuccess);
  EXPECT_EQ(call(versioned, instance, k2c, engines, &second), kSuccess);
  EXPECT_EQ(call(versioned, instance, k2c, engines, &third), kSuccess);
  const auto expect_2c = [](const auto& info) {
    EXPECT_EQ(info.id, k2c);
    EXPECT_EQ(info.slices, 2U);
    EXPECT_EQ(info.instances, 1U);
    EXPECT_EQ(info.multiprocessors, 28U);
    EXPECT_EQ(info.copy_engines, 3U);
    EXPECT_EQ(info.decoders, 2U);
    EXPECT_EQ(info.encoders + info.jpegs + info.ofas, 0U);
  };
  expect_2c(first);
  expect_2c(second);
  expect_2c(third);
  EXPECT_STREQ(second.name, "MIG 2c.3g.20gb");
  EXPECT_STREQ(third.name, "MIG 2c.3g.20gb");

  const unsigned k7c = 4;  // NVML_COMPUTE_INSTANCE_PROFILE_7_SLICE.
  for (const char* either : {function, versioned}) {
    EXPECT_EQ(call(either, instance, k7c, engines, &second), kNotSupported) << either;
    EXPECT_EQ(call(either, instance, kNoProfile, engines, &second), kInvalidArgument) << either;
    EXPECT_EQ(call(either, instance, k2c, engines + 1, &second), kInvalidArgument) << either;
    EXPECT_EQ(call(either, device_, k2c, engines, &second), kInvalidArgument) << either;
    EXPECT_EQ(call(either, instance, k2c, engines, none_), kInvalidArgument) << either;
  }
  second.version = 0;
  EXPECT_EQ(call(versioned, instance, k2c, engines, &second), kVersionMismatch);
}

TEST_F(NvmlMig, ComputeInstancesAreCreatedListedAndDestroyed) {
  void* const instance = create_at(4);
  const char *const remaining = "nvmlGpuInstanceGetComputeInstanceRemainingCapacity",
                    *const possible = "nvmlGpuInstanceGetComputeInstancePossiblePlacements",
                    *const listed = "nvmlGpuInstanceGetComputeInstances";
  EXPECT_EQ(capacity(remaining, instance, k1c), 3U);
  EXPECT_EQ(places(possible, instance, k1c), (Places{{0, 1}, {1, 1}, {2, 1}}));
  EXPECT_EQ(places(possible, instance, k3c), (Places{{0, 3}}));
  const Placement last{.start = 2, .size = 1};
  void *one = nullptr, *const two = create_compute(instance, k2c);
  ASSERT_EQ(call("nvmlGpuInstanceCreateComputeInstanceWithPlacement", instance, k1c, &last, &one),
            kSuccess);
  EXPECT_EQ(capacity(remaining, instance, k1c), 0U);
  EXPECT_EQ(list(listed, instance, k1c), std::vector{one});
  EXPECT_EQ(list(listed, instance, k2c), std::vector{two});
  EXPECT_TRUE(list(listed, instance, k3c).empty());
  for (const char* function : {"nvmlComputeInstanceGetInfo", "nvmlComputeInstanceGetInfo_v2"}) {
    nvml::ComputeInstanceInfo info{};
    EXPECT_EQ(call(function, one, &info), kSuccess) << function;
    EXPECT_EQ(static_cast<void*>(info.device), device_) << function;
    EXPECT_EQ(static_cast<void*>(info.instance), instance) << function;
    EXPECT_EQ(info.profile, k1c) << function;
    EXPECT_EQ(info.placement.start, 2U) << function;
    EXPECT_EQ(info.placement.size, 1U) << function;
    void* found = nullptr;
    EXPECT_EQ(call("nvmlGpuInstanceGetComputeInstanceById", instance, info.id, &found), kSuccess);
    EXPECT_EQ(found, one);
    EXPECT_EQ(call(function, one, none_), kInvalidArgument) << function;
    EXPECT_EQ(call(function, device_, &info), kInvalidArgument) << function;
  }
  EXPECT_EQ(call("nvmlComputeInstanceDestroy", two), kSuccess);
  EXPECT_EQ(capacity(remaining, instance, k1c), 2U);
  EXPECT_TRUE(list(listed, instance, k2c).empty());
  EXPECT_EQ(call("nvmlComputeInstanceDestroy", two), kNotFound) << "it is destroyed";
  EXPECT_EQ(call("nvmlComputeInstanceDestroy", device_), kInvalidArgument);
}

TEST_F(NvmlMig, BadCallsForComputeInstancesFail) {
  void *const instance = create_at(4), *found = nullptr;
  create_compute(instance, k3c);
  unsigned count = 8;
  Placement places[8]{};
  const char* function = "nvmlGpuInstanceGetComputeInstancePossiblePlacements";
  EXPECT_EQ(call(function, instance, kNoProfile, &places[0], &count), kInvalidArgument);
  EXPECT_EQ(call(function, device_, k1c, &places[0], &count), kInvalidArgument);
  EXPECT_EQ(call(function, instance, k1c, &places[0], none_), kInvalidArgument);
  function = "nvmlGpuInstanceGetComputeInstanceRemainingCapacity";
  EXPECT_EQ(call(function, instance, kNoProfile, &count), kInvalidArgument);
  EXPECT_EQ(call(function, device_, k1c, &count), kInvalidArgument);
  EXPECT_EQ(call(function, instance, k1c, none_), kInvalidArgument);
  function = "nvmlGpuInstanceCreateComputeInstance";
  EXPECT_EQ(call(function, instance, k1c, &found), kInsufficientResources);
  EXPECT_EQ(call(function, device_, k1c, &found), kInvalidArgument);
  EXPECT_EQ(call(function, instance, k1c, none_), kInvalidArgument);
  function = "nvmlGpuInstanceCreateComputeInstanceWithPlacement";
  const Placement taken{.start = 0, .size = 1}, beyond{.start = 8, .size = 1};
  EXPECT_EQ(call(function, instance, k1c, &taken, &found), kInsufficientResources);
  EXPECT_EQ(call(function, instance, k1c, &beyond, &found), kInvalidArgument);
  EXPECT_EQ(call(function, instance, k1c, none_, &found), kInvalidArgument);
  function = "nvmlGpuInstanceGetComputeInstances";
  EXPECT_EQ(call(function, instance, k1c, none_, &count), kInvalidArgument);
  EXPECT_EQ(call(function, device_, k1c, &found, &count), kInvalidArgument);
  EXPECT_EQ(call(function, instance, k1c, &found, none_), kInvalidArgument);
  function = "nvmlGpuInstanceGetComputeInstanceById";
  EXPECT_EQ(call(function, instance, 7, &found), kNotFound);
  EXPECT_EQ(call(function, device_, 0, &found), kInvalidArgument);
  EXPECT_EQ(call(function, instance, 0, none_), kInvalidArgument);
  EXPECT_EQ(found, nullptr);
}

TEST_F(NvmlMig, AMigDeviceIsTheShareOfAComputeInstance) {
  void *const instance = create_at(4), *mig = nullptr;
  const char* const by_index = "nvmlDeviceGetMigDeviceHandleByIndex";
  EXPECT_EQ(call(by_index, device_, 0, &mig), kNotFound) << "no compute instance";
  create_compute(instance, k2c);
  ASSERT_EQ(call(by_index, device_, 0, &mig), kSuccess);
  EXPECT_EQ(call(by_index, device_, 0, none_), kInvalidArgument);
  void* other = nullptr;
  EXPECT_EQ(call(by_index, device_, 1, &other), kNotFound);
  EXPECT_EQ(call(by_index, mig, 0, &other), kNotSupported) << "a MIG device has none";

  nvml::GpuInstanceInfo info{};
  ASSERT_EQ(call("nvmlGpuInstanceGetInfo", instance, &info), kSuccess);
  unsigned number = 77;
  EXPECT_EQ(call("nvmlDeviceIsMigDeviceHandle", mig, &number), kSuccess);
  EXPECT_EQ(number, 1U);
  EXPECT_EQ(call("nvmlDeviceGetGpuInstanceId", mig, &number), kSuccess);
  EXPECT_EQ(number, info.id);
  EXPECT_EQ(call("nvmlDeviceGetComputeInstanceId", mig, &number), kSuccess);
  EXPECT_EQ(number, 0U);
  for (const char* function : {"nvmlDeviceGetGpuInstanceId", "nvmlDeviceGetComputeInstanceId"}) {
    EXPECT_EQ(call(function, device_, &number), kNotSupported) << function;
    EXPECT_EQ(call(function, mig, none_), kInvalidArgument) << function;
  }
  const char* function = "nvmlDeviceGetDeviceHandleFromMigDeviceHandle";
  EXPECT_EQ(call(function, mig, &other), kSuccess);
  EXPECT_EQ(other, device_);
  EXPECT_EQ(call(function, device_, &other), kInvalidArgument) << "a GPU is no MIG device";
  EXPECT_EQ(call(function, mig, none_), kInvalidArgument);
  function = "nvmlDeviceGetAttributes_v2";
  nvml::DeviceAttributes attributes{};
  EXPECT_EQ(call(function, mig, &attributes), kSuccess);
  EXPECT_EQ(attributes.multiprocessors, 28U);
  EXPECT_EQ(attributes.copy_engines, 3U);
  EXPECT_EQ(attributes.instance_slices, 3U);
  EXPECT_EQ(attributes.compute_slices, 2U);
  EXPECT_EQ(attributes.memory_mib, 19'968U);
  EXPECT_EQ(call(function, device_, &attributes), kNotSupported);
  EXPECT_EQ(call(function, mig, none_), kInvalidArgument);
}

}  // namespace
