// SPDX-License-Identifier: Apache-2.0
// Each function of NVML's shim: one good call and one bad one. Source of the statuses: nvml.h of
// NVML 13.5, which names them for each function.
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/gpemu.h"

#include "loaded_libraries.hpp"
#include "nvml/abi.hpp"

namespace {

template <typename Struct>
constexpr unsigned version_of(unsigned number) {
  return sizeof(Struct) | (number << 24);
}

/// On the second of two A100s, a kernel of this process runs as long as the test does.
class Nvml : public LoadedLibraries {
 protected:
  /// Source: catalog/gpus/A100-SXM4-40GB.toml.
  static constexpr uint64_t kReserved = uint64_t{621} << 20;
  static constexpr int kSuccess = nvml::kSuccess, kUninitialized = nvml::kUninitialized,
                       kInvalidArgument = nvml::kInvalidArgument,
                       kNotSupported = nvml::kNotSupported, kNotFound = nvml::kNotFound,
                       kInsufficientSize = nvml::kInsufficientSize,
                       kVersionMismatch = nvml::kArgumentVersionMismatch;

  void SetUp() override {
    load({GPEMU_TEST_NVML});
    folder_ =
        std::filesystem::path(testing::TempDir()) / ("gpemu_nvml_" + std::to_string(getpid()));
    ASSERT_EQ(setenv("GPEMU_NODE_DIR", folder_.c_str(), 1), 0);
    ASSERT_EQ(setenv("GPEMU_NODE", "n", 1), 0);
    const gpemu_node_config config{
        .struct_size = sizeof config, .name = "n", .gpu = "A100-SXM4-40GB", .device_count = 2};
    const int64_t hour_ns = 3'600'000'000'000;
    ASSERT_EQ(call("gpemu_node_create", &config, &node_), 0);
    ASSERT_EQ(call("gpemu_device_open", node_, 1, &busy_), 0);
    ASSERT_EQ(call("gpemu_stream_default", busy_, &stream_), 0);
    ASSERT_EQ(call("gpemu_stream_launch", stream_, hour_ns, none_), 0);
    ASSERT_EQ(call("nvmlInit_v2"), kSuccess);
    ASSERT_EQ(call("nvmlDeviceGetHandleByIndex_v2", 1, &device_), kSuccess);
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

  template <typename Number, typename... Arguments>
  void expect_number(const char* function, Number expected, Arguments... arguments) {
    Number number = expected == 0 ? 1 : 0;
    EXPECT_EQ(call(function, arguments..., &number), kSuccess) << function;
    EXPECT_EQ(number, expected) << function;
    EXPECT_EQ(call(function, arguments..., none_), kInvalidArgument) << function;
  }

  template <typename... Arguments>
  void expect_text(const char* function, const std::string& expected, Arguments... arguments) {
    char text[96] = "";
    const auto length = static_cast<unsigned>(expected.size());
    EXPECT_EQ(call(function, arguments..., &text[0], length + 1), kSuccess) << function;
    EXPECT_EQ(text, expected) << function;
    EXPECT_EQ(call(function, arguments..., &text[0], length), kInsufficientSize) << function;
    EXPECT_EQ(call(function, arguments..., none_, 96U), kInvalidArgument) << function;
  }

  std::filesystem::path folder_;
  void *node_ = nullptr, *busy_ = nullptr, *stream_ = nullptr;
  void* device_ = nullptr;
};

TEST_F(Nvml, NumbersOfADeviceAreYielded) {
  // The lower half of a number is the whole of those that are an unsigned int.
  const std::pair<uint64_t, std::vector<const char*>> numbers[] = {
      {0,
       {"nvmlDeviceGetPcieReplayCounter", "nvmlDeviceGetDisplayMode", "nvmlDeviceGetDisplayActive",
        "nvmlDeviceGetAccountingMode", "nvmlDeviceGetMultiGpuBoard",
        "nvmlDeviceGetVirtualizationMode", "nvmlDeviceGetComputeMode",
        "nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceIsMigDeviceHandle",
        "nvmlDeviceGetPerformanceState", "nvmlDeviceGetPowerState",
        "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"}},
      {1,
       {"nvmlDeviceGetIndex", "nvmlDeviceGetMinorNumber", "nvmlDeviceGetPersistenceMode",
        "nvmlDeviceGetPowerManagementMode"}},
      {nvml::kGpuIdle | nvml::kClocksSetting | nvml::kSwPowerCap | nvml::kHwSlowdown,
       {"nvmlDeviceGetSupportedClocksEventReasons", "nvmlDeviceGetSupportedClocksThrottleReasons"}},
      {nvml::kPcieBus, {"nvmlDeviceGetBusType"}},
      {4,
       {"nvmlDeviceGetMaxPcieLinkGeneration", "nvmlDeviceGetGpuMaxPcieLinkGeneration",
        "nvmlDeviceGetCurrPcieLinkGeneration", "nvmlDeviceGetPcieLinkMaxSpeed"}},
      {7, {"nvmlDeviceGetArchitecture"}},
      {14, {"nvmlDeviceGetBrand"}},
      {16, {"nvmlDeviceGetMaxPcieLinkWidth", "nvmlDeviceGetCurrPcieLinkWidth"}},
      {5120, {"nvmlDeviceGetMemoryBusWidth"}},
      {6912, {"nvmlDeviceGetNumGpuCores"}},
      {16'000, {"nvmlDeviceGetPcieSpeed"}},
      {400'000,
       {"nvmlDeviceGetPowerManagementLimit", "nvmlDeviceGetPowerManagementDefaultLimit",
        "nvmlDeviceGetEnforcedPowerLimit"}},
      {274'000, {"nvmlDeviceGetPowerUsage"}}};  // 50 W idle and 0.64 of the rest.
  for (const auto& [number, functions] : numbers) {
    for (const char* function : functions) expect_number(function, number, device_);
  }
  uint64_t energy_mj = 0;
  EXPECT_EQ(call("nvmlDeviceGetTotalEnergyConsumption", device_, &energy_mj), kSuccess);
  EXPECT_GT(energy_mj, 0U);
  EXPECT_EQ(call("nvmlDeviceGetTotalEnergyConsumption", &energy_mj, &energy_mj), kInvalidArgument)
      << "a stray handle";
}

TEST_F(Nvml, AllProcessorsAreNearADevice) {
  // As many words as there are bits: more than there are processors.
  const long cpus = ::sysconf(_SC_NPROCESSORS_CONF);
  std::vector<unsigned long> affinity(static_cast<std::size_t>(cpus), ~0UL);
  const auto words = static_cast<unsigned>(affinity.size());
  EXPECT_EQ(call("nvmlDeviceGetCpuAffinity", device_, words, affinity.data()), kSuccess);
  long bits = 0;
  for (const unsigned long word : affinity) bits += std::popcount(word);
  EXPECT_EQ(bits, cpus);
  EXPECT_EQ(affinity[0] & 1, 1U);
  EXPECT_EQ(call("nvmlDeviceGetCpuAffinity", device_, 0U, affinity.data()), kInvalidArgument);
}

TEST_F(Nvml, PairsOfNumbersAreYielded) {
  const struct {
    const char* function;
    unsigned first, second;
  } pairs[] = {{"nvmlDeviceGetCudaComputeCapability", 8, 0},
               {"nvmlDeviceGetMigMode", nvml::kDisabled, nvml::kDisabled},
               {"nvmlDeviceGetPowerManagementLimitConstraints", 94'000, 400'000},
               {"nvmlDeviceGetEncoderUtilization", 0, 166'666},
               {"nvmlDeviceGetDecoderUtilization", 0, 166'666},
               {"nvmlDeviceGetJpgUtilization", 0, 166'666},
               {"nvmlDeviceGetOfaUtilization", 0, 166'666}};
  for (const auto& [function, expected, also_expected] : pairs) {
    unsigned first = 7, second = 7;
    EXPECT_EQ(call(function, device_, &first, &second), kSuccess) << function;
    EXPECT_EQ(first, expected) << function;
    EXPECT_EQ(second, also_expected) << function;
    EXPECT_EQ(call(function, device_, &first, none_), kInvalidArgument) << function;
    EXPECT_EQ(call(function, device_, none_, &second), kInvalidArgument) << function;
  }
}

TEST_F(Nvml, TheComputeModeOfADeviceChanges) {
  for (const unsigned mode : {2U, 3U, 0U}) {
    EXPECT_EQ(call("nvmlDeviceSetComputeMode", device_, mode), kSuccess);
    expect_number("nvmlDeviceGetComputeMode", mode, device_);
  }
  EXPECT_EQ(call("nvmlDeviceSetComputeMode", device_, 1U), kNotSupported) << "EXCLUSIVE_THREAD";
  EXPECT_EQ(call("nvmlDeviceSetComputeMode", device_, 4U), kInvalidArgument);
  EXPECT_EQ(call("nvmlDeviceSetComputeMode", none_, 0U), kInvalidArgument);
}

TEST_F(Nvml, WithoutMigThereAreNoInstances) {
  int activation = 7;
  EXPECT_EQ(call("nvmlDeviceSetMigMode", device_, nvml::kDisabled, &activation), kSuccess);
  EXPECT_EQ(activation, kSuccess);
  EXPECT_EQ(call("nvmlDeviceSetMigMode", device_, nvml::kEnabled, &activation), kNotSupported);
  unsigned count = 1;
  void* instance = nullptr;
  const unsigned profile = 9;  // 3g.20gb
  EXPECT_EQ(call("nvmlDeviceCreateGpuInstance", device_, profile, &instance), kNotSupported);
  EXPECT_EQ(call("nvmlDeviceGetGpuInstances", device_, profile, &instance, &count), kNotSupported);
}

TEST_F(Nvml, FeaturesThatNoBoardHasAreNotSupported) {
  uint64_t places[3]{};
  for (const char* function :
       {"nvmlDeviceGetSerial", "nvmlDeviceGetBoardPartNumber", "nvmlDeviceGetVbiosVersion",
        "nvmlDeviceGetFanSpeed", "nvmlDeviceGetFanSpeed_v2", "nvmlDeviceGetNumFans",
        "nvmlDeviceGetEccMode", "nvmlDeviceGetTotalEccErrors",
        "nvmlDeviceGetRetiredPagesPendingStatus", "nvmlDeviceGetGpuInstanceId",
        "nvmlDeviceGetComputeInstanceId", "nvmlDeviceGetGpuFabricInfo",
        "nvmlDeviceGetGpuFabricInfoV"}) {
    EXPECT_EQ(call(function, device_, &places[0], &places[1], &places[2]), kNotSupported)
        << function;
    EXPECT_EQ(call(function, none_, &places[0], &places[1], &places[2]), kInvalidArgument)
        << function;
  }
}

TEST_F(Nvml, TextsNeedRoomForTheirEnd) {
  gpemu_device_info info{.struct_size = sizeof info};
  ASSERT_EQ(call("gpemu_device_get_info", busy_, &info), 0);
  expect_text("nvmlDeviceGetName", "NVIDIA A100-SXM4-40GB", device_);
  expect_text("nvmlDeviceGetUUID", info.uuid, device_);
  expect_text("nvmlSystemGetDriverVersion", "595.45.04");
  expect_text("nvmlSystemGetNVMLVersion", "13.595.45.04");

  char text[96] = "";
  const auto pid = static_cast<unsigned>(getpid());
  EXPECT_EQ(call("nvmlSystemGetProcessName", pid, &text[0], 96U), kSuccess);
  const std::string name = text;
  EXPECT_EQ(call("nvmlSystemGetProcessName", pid, &text[0], 5U), kSuccess);
  EXPECT_EQ(text, name.substr(0, 4)) << "it is cropped";
  EXPECT_EQ(call("nvmlSystemGetProcessName", 0U, &text[0], 96U), kNotFound);
  EXPECT_EQ(call("nvmlSystemGetProcessName", pid, &text[0], 0U), kInvalidArgument);

  EXPECT_STREQ(call_as<const char*>("nvmlErrorString", 6), "Not Found");
  EXPECT_STREQ(call_as<const char*>("nvmlErrorString", 998), "Unknown Error");
}

TEST_F(Nvml, DevicesAreFoundByWhatNamesThem) {
  nvml::PciInfo pci{};
  nvml::Uuid uuid{.version = version_of<nvml::Uuid>(1), .type = nvml::kAsciiUuid, .text = ""};
  ASSERT_EQ(call("nvmlDeviceGetPciInfo_v3", device_, &pci), kSuccess);
  ASSERT_EQ(call("nvmlDeviceGetUUID", device_, &uuid.text[0], 41U), kSuccess);
  nvml::Uuid binary{.version = uuid.version, .type = nvml::kBinaryUuid, .text = ""};
  const char* digit = &uuid.text[0] + std::string("GPU-").size();
  for (unsigned char& byte : binary.bytes) {
    digit += *digit == '-' ? 1 : 0;
    byte = static_cast<unsigned char>(std::stoul(std::string(digit, 2), nullptr, 16));
    digit += 2;
  }
  nvml::Uuid of_no_version{.version = 0, .type = nvml::kAsciiUuid, .text = ""};
  nvml::Uuid of_no_type{.version = uuid.version, .type = 0, .text = ""};
  const struct {
    const char* function;
    const void* name;
    int status;
  } names[] = {{"nvmlDeviceGetHandleByPciBusId", pci.bus_id, kSuccess},
               {"nvmlDeviceGetHandleByPciBusId", "0:77:00.0", kNotFound},
               {"nvmlDeviceGetHandleByPciBusId_v2", pci.bus_id_legacy, kSuccess},
               {"nvmlDeviceGetHandleByPciBusId_v2", "second", kInvalidArgument},
               {"nvmlDeviceGetHandleByUUID", uuid.text, kSuccess},
               {"nvmlDeviceGetHandleByUUID", "GPU-0", kNotFound},
               {"nvmlDeviceGetHandleByUUIDV", &uuid, kSuccess},
               {"nvmlDeviceGetHandleByUUIDV", &binary, kSuccess},
               {"nvmlDeviceGetHandleByUUIDV", &of_no_version, kVersionMismatch},
               {"nvmlDeviceGetHandleByUUIDV", &of_no_type, kInvalidArgument},
               {"nvmlDeviceGetHandleBySerial", "1", kNotFound},
               {"nvmlDeviceGetHandleBySerial", nullptr, kInvalidArgument}};
  for (const auto& [function, name, status] : names) {
    void* found = nullptr;
    EXPECT_EQ(call(function, name, &found), status) << function;
    EXPECT_EQ(found, status == kSuccess ? device_ : nullptr) << function;
    EXPECT_EQ(call(function, name, none_), kInvalidArgument) << function;
  }
  for (const char* function : {"nvmlDeviceGetHandleByIndex", "nvmlDeviceGetHandleByIndex_v2"}) {
    void* found = nullptr;
    EXPECT_EQ(call(function, 1, &found), kSuccess) << function;
    EXPECT_EQ(found, device_) << function;
    EXPECT_EQ(call(function, 2, &found), kInvalidArgument) << function;
  }
  for (const char* function : {"nvmlDeviceGetCount", "nvmlDeviceGetCount_v2"}) {
    expect_number(function, 2U);
  }
  for (const char* function : {"nvmlUnitGetCount", "nvmlGetExcludedDeviceCount"}) {
    expect_number(function, 0U);
  }
  for (const char* function :
       {"nvmlSystemGetCudaDriverVersion", "nvmlSystemGetCudaDriverVersion_v2"}) {
    expect_number(function, 13020);
  }
  void* mig = nullptr;
  EXPECT_EQ(call("nvmlDeviceGetMigDeviceHandleByIndex", device_, 0, &mig), kNotFound);
  EXPECT_EQ(call("nvmlDeviceGetMigDeviceHandleByIndex", device_, 0, none_), kInvalidArgument);
}

TEST_F(Nvml, AllVersionsOfThePciAddressAgree) {
  nvml::PciInfoV1 first{};
  nvml::PciInfoV2 second{};
  nvml::PciInfo third{};
  nvml::PciInfoExt extended{};
  EXPECT_EQ(call("nvmlDeviceGetPciInfoExt", device_, &extended), kVersionMismatch);
  extended.version = version_of<nvml::PciInfoExt>(1);
  const std::pair<const char*, void*> functions[] = {{"nvmlDeviceGetPciInfo", &first},
                                                     {"nvmlDeviceGetPciInfo_v2", &second},
                                                     {"nvmlDeviceGetPciInfo_v3", &third},
                                                     {"nvmlDeviceGetPciInfoExt", &extended}};
  for (const auto& [function, info] : functions) {
    EXPECT_EQ(call(function, device_, info), kSuccess) << function;
    EXPECT_EQ(call(function, none_, info), kInvalidArgument) << function;
    EXPECT_EQ(call(function, device_, none_), kInvalidArgument) << function;
  }
  EXPECT_EQ(std::string(first.bus_id).insert(0, "0000"), third.bus_id);
  EXPECT_STREQ(second.bus_id, third.bus_id_legacy);
  EXPECT_STREQ(extended.bus_id, third.bus_id);
  EXPECT_EQ(first.pci_device_id, 0x10DEU) << "NVIDIA's";
  EXPECT_EQ(extended.base_class, 3U) << "display controller";
}

TEST_F(Nvml, ClocksAreYieldedByType) {
  const struct {
    unsigned type;
    int status;
    unsigned megahertz;
  } clocks[] = {{nvml::kGraphicsClock, kSuccess, 1410},
                {nvml::kSmClock, kSuccess, 1410},
                {nvml::kMemoryClock, kSuccess, 1215},
                {nvml::kVideoClock, kNotSupported, 0},
                {nvml::kClockTypeEnd, kInvalidArgument, 0}};
  for (const auto& [type, status, megahertz] : clocks) {
    unsigned clock = 0;
    for (const char* function :
         {"nvmlDeviceGetClockInfo", "nvmlDeviceGetMaxClockInfo", "nvmlDeviceGetApplicationsClock",
          "nvmlDeviceGetDefaultApplicationsClock", "nvmlDeviceGetMaxCustomerBoostClock"}) {
      EXPECT_EQ(call(function, device_, type, &clock), status) << function << ' ' << type;
      EXPECT_EQ(clock, megahertz) << function << ' ' << type;
      EXPECT_EQ(call(function, device_, nvml::kSmClock, none_), kInvalidArgument) << function;
      clock = 0;
    }
    EXPECT_EQ(call("nvmlDeviceGetClock", device_, type, 0, &clock), status) << type;
    EXPECT_EQ(clock, megahertz) << type;
    EXPECT_EQ(call("nvmlDeviceGetClock", device_, type, 4, &clock), kInvalidArgument) << type;
  }
  unsigned count = 1, list[2]{};
  EXPECT_EQ(call("nvmlDeviceGetSupportedMemoryClocks", device_, &count, &list[0]), kSuccess);
  EXPECT_EQ(list[0], 1215U);
  EXPECT_EQ(call("nvmlDeviceGetSupportedMemoryClocks", device_, none_, &list[0]), kInvalidArgument);
  const auto graphics = [&](unsigned of_memory) {
    return call("nvmlDeviceGetSupportedGraphicsClocks", device_, of_memory, &count, &list[0]);
  };
  EXPECT_EQ(graphics(1215), kInsufficientSize);
  EXPECT_EQ(count, 2U);
  EXPECT_EQ(graphics(1215), kSuccess);
  EXPECT_EQ(list[0], 1410U);
  EXPECT_EQ(list[1], 1095U);
  EXPECT_EQ(graphics(1), kNotFound);
}

TEST_F(Nvml, TemperaturesAreYieldedBySensorAndThreshold) {
  expect_number("nvmlDeviceGetTemperature", 64U, device_, nvml::kGpuSensor);
  unsigned degrees = 0;
  EXPECT_EQ(call("nvmlDeviceGetTemperature", device_, 1, &degrees), kInvalidArgument);
  nvml::Temperature temperature{};
  EXPECT_EQ(call("nvmlDeviceGetTemperatureV", device_, &temperature), kVersionMismatch);
  temperature.version = version_of<nvml::Temperature>(1);
  EXPECT_EQ(call("nvmlDeviceGetTemperatureV", device_, &temperature), kSuccess);
  EXPECT_EQ(temperature.temperature, 64);
  const unsigned thresholds[] = {90, 87, 85, 83};
  for (const unsigned& threshold : thresholds) {
    expect_number("nvmlDeviceGetTemperatureThreshold", threshold, device_, &threshold - thresholds);
  }
  for (const auto& [type, status] : {std::pair{4, kNotSupported}, {8, kInvalidArgument}}) {
    EXPECT_EQ(call("nvmlDeviceGetTemperatureThreshold", device_, type, &degrees), status) << type;
  }
}

TEST_F(Nvml, MemoryAndLinksAreTheDevices) {
  uint64_t free_bytes = 0, total_bytes = 0;
  ASSERT_EQ(call("gpemu_device_memory", busy_, &free_bytes, &total_bytes), 0);
  nvml::Memory memory{};
  nvml::MemoryV2 second{};
  EXPECT_EQ(call("nvmlDeviceGetMemoryInfo_v2", device_, &second), kVersionMismatch);
  second.version = version_of<nvml::MemoryV2>(2);
  EXPECT_EQ(call("nvmlDeviceGetMemoryInfo_v2", device_, &second), kSuccess);
  EXPECT_EQ(call("nvmlDeviceGetMemoryInfo", device_, &memory), kSuccess);
  EXPECT_EQ(call("nvmlDeviceGetMemoryInfo", device_, none_), kInvalidArgument);
  // The first function counts what is reserved as used.
  EXPECT_EQ(memory.total, total_bytes + kReserved);
  EXPECT_EQ(memory.free, free_bytes);
  EXPECT_EQ(memory.used, total_bytes - free_bytes + kReserved);
  EXPECT_EQ(second.total, memory.total);
  EXPECT_EQ(second.free, free_bytes);
  EXPECT_EQ(second.reserved, kReserved);
  EXPECT_EQ(second.used, total_bytes - free_bytes);
  expect_number("nvmlDeviceGetNvLinkState", unsigned{nvml::kEnabled}, device_, 0);
  unsigned number = 0;
  EXPECT_EQ(call("nvmlDeviceGetNvLinkState", device_, 12, &number), kInvalidArgument);
  for (const unsigned counter : {nvml::kPcieSent, nvml::kPcieReceived}) {
    expect_number("nvmlDeviceGetPcieThroughput", 0U, device_, counter);
  }
  EXPECT_EQ(call("nvmlDeviceGetPcieThroughput", device_, 2, &number), kInvalidArgument);
}

TEST_F(Nvml, WithoutATopologyOnlyLinksOfTheGpuAreKnown) {
  void* first = nullptr;
  ASSERT_EQ(call("nvmlDeviceGetHandleByIndex_v2", 0, &first), kSuccess);
  unsigned number = 7, count = 0;
  EXPECT_EQ(call("nvmlDeviceGetTopologyCommonAncestor", device_, first, &number), kNotSupported);
  EXPECT_EQ(call("nvmlDeviceGetTopologyNearestGpus", device_, 50U, &count, none_), kNotSupported);
  for (const unsigned capability : {nvml::kPeerRead, nvml::kPeerWrite, nvml::kPeerNvlink}) {
    expect_number("nvmlDeviceGetP2PStatus", unsigned{nvml::kPeerOk}, device_, first, capability);
  }
  expect_number("nvmlDeviceGetNvLinkVersion", 4U, device_, 11);
  expect_number("nvmlDeviceGetNvLinkCapability", 1U, device_, 0, unsigned{nvml::kNvlinkPeers});
  expect_number("nvmlDeviceGetNvLinkCapability", 0U, device_, 0, 1U);
  expect_number("nvmlDeviceGetNvLinkRemoteDeviceType", unsigned{nvml::kNvlinkToSwitch}, device_, 0);
  nvml::PciInfo info{};
  EXPECT_EQ(call("nvmlDeviceGetNvLinkRemotePciInfo_v2", device_, 0, &info), kSuccess);
  EXPECT_STREQ(info.bus_id, "FFFFFFF:FFFF:FF");
}

/// Four A100s: an NVLink joins devices 0 and 1, which are below one switch; device 2 is below the
/// other host bridge of the NUMA node, and device 3 below another processor.
class NvmlTopology : public LoadedLibraries {
 protected:
  static constexpr int kSuccess = nvml::kSuccess, kInvalidArgument = nvml::kInvalidArgument,
                       kNotSupported = nvml::kNotSupported;

  void SetUp() override {
    load({GPEMU_TEST_NVML});
    folder_ = std::filesystem::path(testing::TempDir()) /
              ("gpemu_nvml_topology_" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
    const std::filesystem::path file = folder_ / "box.toml";
    std::ofstream(file) << R"(
name = "box"
title = "A box"
gpu = "A100-PCIE-40GB"
sockets = ["Intel Xeon", "Intel Xeon"]
bridge = [
  { name = "b0", socket = 0, numa_node = 0, source = "us" },
  { name = "b1", socket = 0, numa_node = 0, gpus = [2], source = "us" },
  { name = "b2", socket = 1, numa_node = 1, gpus = [3], source = "us" },
]
switch = [{ name = "s", below = "b0", generation = 4, lanes = 16, gpus = [0, 1], source = "us" }]
nvlink = { bonds = [[0, 1, 4]], source = "us" }
sources = { us = "made up" }
)";
    ASSERT_EQ(setenv("GPEMU_NODE_DIR", (folder_ / "nodes").c_str(), 1), 0);
    ASSERT_EQ(setenv("GPEMU_NODE", "n", 1), 0);
    const gpemu_node_config config{.struct_size = sizeof config,
                                   .name = "n",
                                   .gpu = "A100-PCIE-40GB",
                                   .device_count = 4,
                                   .topology = file.c_str()};
    ASSERT_EQ(call("gpemu_node_create", &config, &node_), 0);
    ASSERT_EQ(call("nvmlInit_v2"), kSuccess);
    for (int i = 0; i < 4; ++i) {
      ASSERT_EQ(call("nvmlDeviceGetHandleByIndex_v2", i, &devices_[i]), kSuccess);
    }
  }
  void TearDown() override {
    EXPECT_EQ(call("nvmlShutdown"), kSuccess);
    call_as<void>("gpemu_node_close", node_);
    std::filesystem::remove_all(folder_);
    unsetenv("GPEMU_NODE");
    unsetenv("GPEMU_NODE_DIR");
  }

  unsigned level(int first, int second) {
    unsigned level = 7;
    EXPECT_EQ(
        call("nvmlDeviceGetTopologyCommonAncestor", devices_[first], devices_[second], &level),
        kSuccess);
    return level;
  }
  unsigned peers(int first, int second, unsigned capability) {
    unsigned status = 7;
    EXPECT_EQ(
        call("nvmlDeviceGetP2PStatus", devices_[first], devices_[second], capability, &status),
        kSuccess);
    return status;
  }

  std::filesystem::path folder_;
  void* node_ = nullptr;
  void* devices_[4] = {};
};

TEST_F(NvmlTopology, LevelsAreThoseOfThePaths) {
  EXPECT_EQ(level(0, 0), 0U) << "itself";
  EXPECT_EQ(level(0, 1), 10U) << "a switch";
  EXPECT_EQ(level(0, 2), 40U) << "two host bridges";
  EXPECT_EQ(level(3, 0), 50U) << "two processors";
  unsigned number = 0;
  EXPECT_EQ(call("nvmlDeviceGetTopologyCommonAncestor", devices_[0], none_, &number),
            kInvalidArgument);
  EXPECT_EQ(call("nvmlDeviceGetTopologyCommonAncestor", devices_[0], devices_[1], none_),
            kInvalidArgument);
}

TEST_F(NvmlTopology, TheNearestAreThoseUpToALevel) {
  const auto nearest = [this](unsigned level, unsigned room) {
    std::vector<void*> found(room);
    EXPECT_EQ(call("nvmlDeviceGetTopologyNearestGpus", devices_[0], level, &room,
                   found.empty() ? nullptr : found.data()),
              kSuccess);
    return std::pair(room, found);
  };
  EXPECT_EQ(nearest(0, 0).first, 0U);
  EXPECT_EQ(nearest(10, 0).first, 1U);
  EXPECT_EQ(nearest(50, 0).first, 3U);
  EXPECT_EQ(nearest(40, 2), std::pair(2U, (std::vector<void*>{devices_[1], devices_[2]})));
  EXPECT_EQ(nearest(50, 1), std::pair(1U, std::vector<void*>{devices_[1]})) << "no room for all";
  EXPECT_EQ(nearest(10, 3).first, 1U);
  unsigned count = 1;
  const char* const function = "nvmlDeviceGetTopologyNearestGpus";
  EXPECT_EQ(call(function, devices_[0], 50U, &count, none_), kInvalidArgument);
  EXPECT_EQ(call(function, devices_[0], 50U, none_, none_), kInvalidArgument);
  EXPECT_EQ(call(function, devices_[0], 45U, &count, &count), kInvalidArgument);
  EXPECT_EQ(call(function, devices_[0], 60U, &count, &count), kInvalidArgument);
  EXPECT_EQ(call(function, none_, 50U, &count, &count), kInvalidArgument);
}

TEST_F(NvmlTopology, PeersAreThoseWithALink) {
  EXPECT_EQ(peers(0, 1, nvml::kPeerRead), nvml::kPeerOk);
  EXPECT_EQ(peers(0, 1, nvml::kPeerNvlink), nvml::kPeerOk);
  EXPECT_EQ(peers(0, 1, nvml::kPeerPcie), nvml::kPeerUnknown);
  EXPECT_EQ(peers(0, 1, nvml::kPeerAtomics), nvml::kPeerNotSupported);
  EXPECT_EQ(peers(2, 0, nvml::kPeerWrite), nvml::kPeerOk) << "over PCIe";
  EXPECT_EQ(peers(2, 0, nvml::kPeerPcie), nvml::kPeerOk);
  EXPECT_EQ(peers(2, 0, nvml::kPeerNvlink), nvml::kPeerNotSupported);
  EXPECT_EQ(peers(0, 3, nvml::kPeerRead), nvml::kPeerChipsetNotSupported);
  unsigned status = 0;
  const char* const function = "nvmlDeviceGetP2PStatus";
  EXPECT_EQ(call(function, devices_[0], devices_[1], 5U, &status), kInvalidArgument);
  EXPECT_EQ(call(function, devices_[0], devices_[0], 0U, &status), kInvalidArgument);
  EXPECT_EQ(call(function, devices_[0], none_, 0U, &status), kInvalidArgument);
  EXPECT_EQ(call(function, devices_[0], devices_[1], 0U, none_), kInvalidArgument);
}

TEST_F(NvmlTopology, LinksInUseLeadToThePeer) {
  unsigned number = 7;
  nvml::PciInfo peer{}, info{};
  nvml::PciInfoV2 older{};
  ASSERT_EQ(call("nvmlDeviceGetPciInfo_v3", devices_[1], &peer), kSuccess);
  EXPECT_EQ(call("nvmlDeviceGetNvLinkState", devices_[0], 3, &number), kSuccess);
  EXPECT_EQ(number, nvml::kEnabled);
  EXPECT_EQ(call("nvmlDeviceGetNvLinkRemotePciInfo_v2", devices_[0], 3, &info), kSuccess);
  EXPECT_STREQ(info.bus_id, peer.bus_id);
  EXPECT_EQ(call("nvmlDeviceGetNvLinkRemotePciInfo", devices_[0], 3, &older), kSuccess);
  EXPECT_STREQ(older.bus_id, peer.bus_id_legacy);
  EXPECT_EQ(call("nvmlDeviceGetNvLinkRemoteDeviceType", devices_[0], 3, &number), kSuccess);
  EXPECT_EQ(number, nvml::kNvlinkToGpu);

  EXPECT_EQ(call("nvmlDeviceGetNvLinkState", devices_[0], 4, &number), kSuccess);
  EXPECT_EQ(number, nvml::kDisabled);
  for (const char* function :
       {"nvmlDeviceGetNvLinkRemotePciInfo_v2", "nvmlDeviceGetNvLinkRemotePciInfo",
        "nvmlDeviceGetNvLinkRemoteDeviceType", "nvmlDeviceGetNvLinkVersion"}) {
    EXPECT_EQ(call(function, devices_[0], 4, &info), kNotSupported) << function;
    EXPECT_EQ(call(function, devices_[0], 12, &info), kInvalidArgument) << function;
    EXPECT_EQ(call(function, devices_[0], 3, none_), kInvalidArgument) << function;
  }
  EXPECT_EQ(call("nvmlDeviceGetNvLinkCapability", devices_[0], 3, 6U, &number), kInvalidArgument);
}

TEST_F(NvmlTopology, LinksOverWhichNothingWentCountNothing) {
  uint64_t sent = 7, received = 7;
  const char* function = "nvmlDeviceGetNvLinkUtilizationCounter";
  EXPECT_EQ(call(function, devices_[0], 3, 0, &received, &sent), kSuccess);
  EXPECT_EQ(sent + received, 0U);
  EXPECT_EQ(call(function, devices_[0], 12, 0, &received, &sent), kInvalidArgument);
  EXPECT_EQ(call(function, devices_[0], 3, 2, &received, &sent), kInvalidArgument);
  EXPECT_EQ(call(function, devices_[0], 3, 0, none_, &sent), kInvalidArgument);
  function = "nvmlDeviceGetNvLinkErrorCounter";
  EXPECT_EQ(call(function, devices_[0], 3, 0, &sent), kSuccess);
  EXPECT_EQ(call(function, devices_[0], 4, 0, &sent), kNotSupported) << "it leads nowhere";
  EXPECT_EQ(call(function, devices_[0], 3, 5, &sent), kInvalidArgument);
  EXPECT_EQ(call(function, devices_[0], 3, 0, none_), kInvalidArgument);
  nvml::FieldValue fields[3]{};
  fields[0] = {.field = nvml::kNvlinkSentField, .scope = nvml::kAllLinks};
  fields[1] = {.field = nvml::kNvlinkReceivedField, .scope = 3};
  fields[2] = {.field = nvml::kNvlinkSentField, .scope = 12};
  ASSERT_EQ(call("nvmlDeviceGetFieldValues", devices_[0], 3, &fields[0]), kSuccess);
  EXPECT_EQ(fields[0].status, kSuccess);
  EXPECT_EQ(fields[1].status, kSuccess);
  EXPECT_EQ(fields[2].status, kInvalidArgument);
}

TEST_F(Nvml, AWaitForEventsEndsWithoutAFault) {
  void* set = nullptr;
  ASSERT_EQ(call("nvmlEventSetCreate", &set), kSuccess);
  EXPECT_EQ(call("nvmlEventSetCreate", none_), kInvalidArgument);
  expect_number("nvmlDeviceGetSupportedEventTypes", nvml::kXidEvent, device_);
  const char* function = "nvmlDeviceRegisterEvents";
  EXPECT_EQ(call(function, device_, nvml::kXidEvent, set), kSuccess);
  EXPECT_EQ(call(function, device_, nvml::kXidEvent, set), kSuccess) << "once more";
  EXPECT_EQ(call(function, device_, uint64_t{1}, set), kNotSupported) << "a single-bit ECC error";
  EXPECT_EQ(call(function, none_, nvml::kXidEvent, set), kInvalidArgument);
  EXPECT_EQ(call(function, device_, nvml::kXidEvent, device_), kInvalidArgument);
  nvml::EventData event{};
  for (const char* wait : {"nvmlEventSetWait", "nvmlEventSetWait_v2"}) {
    EXPECT_EQ(call(wait, set, &event, 1U), nvml::kTimeout) << wait;
    EXPECT_EQ(event.type, 0U) << wait;
    EXPECT_EQ(call(wait, set, none_, 1U), kInvalidArgument) << wait;
    EXPECT_EQ(call(wait, device_, &event, 1U), kInvalidArgument) << wait;
  }
  EXPECT_EQ(call("nvmlEventSetFree", set), kSuccess);
  EXPECT_EQ(call("nvmlEventSetFree", set), kInvalidArgument) << "it is freed";
  EXPECT_EQ(call("nvmlEventSetWait_v2", set, &event, 1U), kInvalidArgument);
}

TEST_F(Nvml, TheLoadIsTheKernels) {
  nvml::Utilization rates{};
  EXPECT_EQ(call("nvmlDeviceGetUtilizationRates", device_, &rates), kSuccess);
  EXPECT_EQ(rates.gpu, 100U);
  EXPECT_EQ(rates.memory, 0U);
  EXPECT_EQ(call("nvmlDeviceGetUtilizationRates", device_, none_), kInvalidArgument);

  const struct {
    unsigned type;
    uint64_t seen_us;
    int status;
    unsigned value;
  } kinds[] = {{nvml::kTotalPowerSamples, 0, kSuccess, 274'000},
               {nvml::kGpuUtilizationSamples, 0, kSuccess, 100},
               {nvml::kGpuUtilizationSamples, UINT64_MAX, kNotFound, 0},
               {nvml::kMemoryUtilizationSamples, 0, kSuccess, 0},
               {nvml::kProcessorClockSamples, 0, kSuccess, 1410},
               {3, 0, kNotSupported, 0},
               {nvml::kSamplingTypeEnd, 0, kInvalidArgument, 0}};
  for (const auto& [type, seen_us, status, value] : kinds) {
    int value_type = 0;
    unsigned count = 1;
    nvml::Sample sample{};
    EXPECT_EQ(call("nvmlDeviceGetSamples", device_, type, seen_us, &value_type, &count, &sample),
              status);
    EXPECT_EQ(sample.value.as_unsigned, value) << type;
  }

  nvml::FieldValue fields[3]{};
  fields[0].field = nvml::kInstantPowerField;
  fields[1].field = nvml::kEnergyField;
  EXPECT_EQ(call("nvmlDeviceGetFieldValues", device_, 3, &fields[0]), kSuccess);
  EXPECT_EQ(fields[0].value.as_unsigned, 274'000U);
  EXPECT_EQ(fields[1].type, nvml::kUnsignedLongLong);
  EXPECT_GT(fields[1].value.as_unsigned_long_long, 0U);
  EXPECT_EQ(fields[2].status, kNotSupported);
  EXPECT_EQ(call("nvmlDeviceGetFieldValues", device_, 3, none_), kInvalidArgument);
}

TEST_F(Nvml, ProcessesAreListedWithTheirLoad) {
  const auto pid = static_cast<unsigned>(getpid());
  const auto lists = [&](const char* function, unsigned listed, auto info) {
    unsigned count = 0;
    const int status = listed == 0 ? kSuccess : kInsufficientSize;
    EXPECT_EQ(call(function, device_, &count, none_), status) << function;
    EXPECT_EQ(count, listed) << function;
    count = 1;
    EXPECT_EQ(call(function, device_, &count, &info), kSuccess) << function;
    EXPECT_EQ(count, listed) << function;
    EXPECT_EQ(info.pid, listed == 0 ? 0 : pid) << function;
    EXPECT_EQ(call(function, device_, none_, &info), kInvalidArgument) << function;
  };
  lists("nvmlDeviceGetComputeRunningProcesses", 1, nvml::ProcessInfoV1{});
  for (const std::string version : {"", "_v2", "_v3"}) {
    if (!version.empty()) {
      lists(("nvmlDeviceGetComputeRunningProcesses" + version).c_str(), 1, nvml::ProcessInfo{});
    }
    lists(("nvmlDeviceGetGraphicsRunningProcesses" + version).c_str(), 0, nvml::ProcessInfo{});
    lists(("nvmlDeviceGetMPSComputeRunningProcesses" + version).c_str(), 0, nvml::ProcessInfo{});
  }
  nvml::ProcessDetail detail{};
  nvml::ProcessDetailList details{.version = 0, .mode = 0, .count = 1, .processes = &detail};
  const char* function = "nvmlDeviceGetRunningProcessDetailList";
  EXPECT_EQ(call(function, device_, &details), kInvalidArgument);
  details.version = version_of<nvml::ProcessDetailList>(1);
  EXPECT_EQ(call(function, device_, &details), kSuccess);
  EXPECT_EQ(detail.pid, pid);
  details.mode = nvml::kMpsProcesses + 1;
  EXPECT_EQ(call(function, device_, &details), kInvalidArgument);

  nvml::ProcessSample sample{};
  unsigned count = 1;
  function = "nvmlDeviceGetProcessUtilization";
  EXPECT_EQ(call(function, device_, &sample, &count, uint64_t{0}), kSuccess);
  EXPECT_EQ(sample.pid, pid);
  EXPECT_EQ(sample.sm, 100U);
  EXPECT_EQ(call(function, device_, none_, &count, uint64_t{0}), kInsufficientSize);
  EXPECT_EQ(call(function, device_, &sample, &count, UINT64_MAX), kNotFound);
  EXPECT_EQ(call(function, device_, &sample, none_, uint64_t{0}), kInvalidArgument);
  nvml::ProcessUtilization load{};
  nvml::ProcessUtilizationList loads{
      .version = 0, .count = 1, .last_seen_us = 0, .processes = &load};
  function = "nvmlDeviceGetProcessesUtilizationInfo";
  EXPECT_EQ(call(function, device_, &loads), kVersionMismatch);
  loads.version = version_of<nvml::ProcessUtilizationList>(1);
  EXPECT_EQ(call(function, device_, &loads), kSuccess);
  EXPECT_EQ(load.pid, pid);
  EXPECT_EQ(load.sm, 100U);
}

TEST_F(Nvml, EachInitNeedsItsShutdown) {
  unsigned count = 0;
  EXPECT_EQ(call("nvmlInit"), kSuccess);
  EXPECT_EQ(call("nvmlInitWithFlags", 0), kSuccess);
  for (int users = 3; users > 0; --users) {
    EXPECT_EQ(call("nvmlDeviceGetCount_v2", &count), kSuccess) << users;
    EXPECT_EQ(call("nvmlShutdown"), kSuccess) << users;
  }
  EXPECT_EQ(call("nvmlShutdown"), kUninitialized);
  EXPECT_EQ(call("nvmlDeviceGetCount_v2", &count), kUninitialized);
  EXPECT_EQ(call("nvmlDeviceGetPowerUsage", device_, &count), kUninitialized);
  ASSERT_EQ(setenv("GPEMU_NODE", "none", 1), 0);
  for (const char* function : {"nvmlInit", "nvmlInit_v2", "nvmlInitWithFlags"}) {
    EXPECT_EQ(call(function, 0), nvml::kDriverNotLoaded) << function;
  }
  ASSERT_EQ(setenv("GPEMU_NODE", "n", 1), 0);
  EXPECT_EQ(call("nvmlInit_v2"), kSuccess);
}

}  // namespace
