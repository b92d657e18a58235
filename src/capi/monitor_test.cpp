// SPDX-License-Identifier: Apache-2.0
#include "gpemu/monitor.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/gpemu.h"

#include "test_node.hpp"

namespace {

/// A node of two emulated V100s, the only one in a folder of the test.
class CApiMonitor : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::path(testing::TempDir()) / ("gpemu_capi_" + std::to_string(::getpid()));
    ASSERT_EQ(::setenv("GPEMU_NODE_DIR", folder_.c_str(), 1), 0);
    const gpemu_node_config config{
        .struct_size = sizeof config, .name = "n", .gpu = "V100-PCIE-32GB", .device_count = 2};
    ASSERT_EQ(gpemu_node_create(&config, &node_), GPEMU_OK) << gpemu_last_error();
  }
  void TearDown() override {
    gpemu_node_close(node_);
    std::filesystem::remove_all(folder_);
    ::unsetenv("GPEMU_NODE_DIR");
  }

  std::filesystem::path folder_;
  gpemu_node* node_ = nullptr;
};

/// The monitor is attached to that node, and this process has a context on its first device.
class CApiMonitorAttached : public CApiMonitor {
 protected:
  void SetUp() override {
    CApiMonitor::SetUp();
    ASSERT_EQ(gpemu_device_open(node_, 0, &device_), GPEMU_OK) << gpemu_last_error();
    ASSERT_EQ(gpemu_monitor_attach(), GPEMU_OK) << gpemu_last_error();
  }
  void TearDown() override {
    EXPECT_EQ(gpemu_monitor_detach(), GPEMU_OK);
    gpemu_device_close(device_);
    CApiMonitor::TearDown();
  }

  gpemu_device* device_ = nullptr;
};

TEST_F(CApiMonitor, AForkedChildInheritsNoLock) {
#if defined(GPEMU_SANITIZE_ADDRESS) || defined(GPEMU_SANITIZE_THREAD)
  GTEST_SKIP() << "a forked child inherits locks of the sanitizer's allocator";
#endif
  std::atomic<bool> stop = false;
  std::thread reader([&stop] {
    while (!stop) {
      gpemu_monitor_attach();
      gpemu_monitor_detach();
    }
  });
  int status = 0;
  for (int i = 0; i < 100 && status == 0; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(10);
      int32_t count = 0;
      gpemu_monitor_attach();
      ::_exit(gpemu_monitor_device_count(&count) == GPEMU_OK ? 0 : 1);
    }
    EXPECT_EQ(::waitpid(child, &status, 0), child);
  }
  stop = true;
  reader.join();
  EXPECT_EQ(status, 0) << "a child waited for a lock until its alarm";
}

TEST_F(CApiMonitor, AttachesToTheOnlyNode) {
  const gpemu_node_config config{
      .struct_size = sizeof config, .name = "m", .gpu = "V100-PCIE-32GB", .device_count = 1};
  gpemu_node* second = nullptr;
  ASSERT_EQ(gpemu_node_create(&config, &second), GPEMU_OK) << gpemu_last_error();
  EXPECT_EQ(gpemu_monitor_attach(), GPEMU_ERROR_INVALID_ARGUMENT) << "there are two nodes";
  gpemu_node_close(second);
  gpemu_node_close(node_);
  node_ = nullptr;
  EXPECT_EQ(gpemu_monitor_attach(), GPEMU_ERROR_NOT_FOUND);
  EXPECT_EQ(gpemu_monitor_detach(), GPEMU_ERROR_UNAVAILABLE) << "no attempt succeeded";
}

TEST_F(CApiMonitor, ShowsThePartOfTheNodeThatTheProcessSees) {
  gpemu_monitor_device device{.struct_size = sizeof device};
  std::array<std::string, 2> uuids;
  ASSERT_EQ(gpemu_monitor_attach(), GPEMU_OK) << gpemu_last_error();
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(gpemu_monitor_get_device(i, &device), GPEMU_OK);
    uuids.at(static_cast<std::size_t>(i)) = device.uuid;
  }
  EXPECT_EQ(gpemu_monitor_detach(), GPEMU_OK);
  ASSERT_EQ(::setenv("GPEMU_DEVICES", "1", 1), 0);
  ASSERT_EQ(gpemu_monitor_attach(), GPEMU_OK) << gpemu_last_error();
  std::int32_t count = 0;
  EXPECT_EQ(gpemu_monitor_device_count(&count), GPEMU_OK);
  EXPECT_EQ(count, 1);
  ASSERT_EQ(gpemu_monitor_get_device(0, &device), GPEMU_OK);
  EXPECT_EQ(device.uuid, uuids[1]);
  EXPECT_EQ(gpemu_monitor_get_device(1, &device), GPEMU_ERROR_NOT_FOUND);
  EXPECT_EQ(gpemu_monitor_detach(), GPEMU_OK);
  ASSERT_EQ(::setenv("GPEMU_DEVICES", "2", 1), 0);
  EXPECT_EQ(gpemu_monitor_attach(), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(gpemu_last_error(),
               "GPEMU_DEVICES: \"2\" names device 2, but the node has 2: 0 to 1");
  ::unsetenv("GPEMU_DEVICES");
}

TEST_F(CApiMonitor, AnswersOnlyWhileSomebodyIsAttached) {
  int32_t count = 7;
  EXPECT_EQ(gpemu_monitor_device_count(&count), GPEMU_ERROR_UNAVAILABLE);
  ASSERT_EQ(gpemu_monitor_attach(), GPEMU_OK) << gpemu_last_error();
  ASSERT_EQ(gpemu_monitor_attach(), GPEMU_OK) << gpemu_last_error();
  ASSERT_EQ(gpemu_monitor_detach(), GPEMU_OK);
  EXPECT_EQ(gpemu_monitor_device_count(&count), GPEMU_OK) << "one user is left";
  EXPECT_EQ(count, 2);
  ASSERT_EQ(gpemu_monitor_detach(), GPEMU_OK);
  EXPECT_EQ(gpemu_monitor_detach(), GPEMU_ERROR_UNAVAILABLE);
  gpemu_monitor_device device{.struct_size = sizeof device};
  gpemu_monitor_state state{.struct_size = sizeof state};
  gpemu_monitor_load load{.struct_size = sizeof load};
  EXPECT_EQ(gpemu_monitor_get_device(0, &device), GPEMU_ERROR_UNAVAILABLE);
  EXPECT_EQ(gpemu_monitor_get_state(0, &state), GPEMU_ERROR_UNAVAILABLE);
  EXPECT_EQ(gpemu_monitor_get_load(0, &load), GPEMU_ERROR_UNAVAILABLE);
  EXPECT_EQ(gpemu_monitor_is_lost(0, &count), GPEMU_ERROR_UNAVAILABLE);
  EXPECT_EQ(gpemu_monitor_get_xids(0, nullptr, &count), GPEMU_ERROR_UNAVAILABLE);
  EXPECT_EQ(gpemu_monitor_get_processes(0, nullptr, &count), GPEMU_ERROR_UNAVAILABLE);
  EXPECT_EQ(gpemu_monitor_get_process_loads(0, nullptr, &count), GPEMU_ERROR_UNAVAILABLE);
  EXPECT_EQ(count, 2) << "on failure, no output is changed";
}

TEST(CApiMonitorDriver, HasAVersionWithoutBeingAttached) {
  const std::string version = gpemu_monitor_driver_version();
  EXPECT_EQ(std::ranges::count(version, '.'), 2) << version;
  EXPECT_EQ(version.find_first_not_of("0123456789."), std::string::npos) << version;
}

TEST_F(CApiMonitorAttached, DescribesADevice) {
  gpemu_device_info info{.struct_size = sizeof info};
  ASSERT_EQ(gpemu_device_get_info(device_, &info), GPEMU_OK);
  gpemu_monitor_device device{.struct_size = sizeof device};
  ASSERT_EQ(gpemu_monitor_get_device(0, &device), GPEMU_OK) << gpemu_last_error();
  EXPECT_STREQ(device.gpu, "V100-PCIE-32GB");
  EXPECT_STREQ(device.architecture, "Volta");
  EXPECT_STREQ(device.uuid, info.uuid);
  EXPECT_STREQ(device.pci_bus_id, info.pci_bus_id);
  EXPECT_EQ(device.compute_capability_major, 7);
  EXPECT_EQ(device.compute_capability_minor, 0);
  EXPECT_EQ(device.multiprocessors, 80);
  EXPECT_EQ(device.compute_mode, 0);
  EXPECT_GT(device.max_power_w, device.idle_power_w);
}

TEST_F(CApiMonitorAttached, WithoutATopologyTellsOfTheGpusLinksOnly) {
  gpemu_monitor_path path{.struct_size = sizeof path};
  ASSERT_EQ(gpemu_monitor_get_path(0, 1, &path), GPEMU_OK) << gpemu_last_error();
  EXPECT_EQ(path.pcie, -1);
  EXPECT_EQ(path.nvlinks, 0) << "a V100 for PCIe has none";
  EXPECT_EQ(path.access, 1);
  ASSERT_EQ(gpemu_monitor_get_path(1, 1, &path), GPEMU_OK) << gpemu_last_error();
  EXPECT_EQ(path.pcie, 0);
  EXPECT_EQ(path.access, 0);
  EXPECT_EQ(gpemu_monitor_get_path(0, 2, &path), GPEMU_ERROR_NOT_FOUND);
  EXPECT_EQ(gpemu_monitor_get_path(-1, 0, &path), GPEMU_ERROR_NOT_FOUND);
  EXPECT_EQ(gpemu_monitor_get_path(0, 1, nullptr), GPEMU_ERROR_INVALID_ARGUMENT);
  int32_t peer = 7;
  EXPECT_EQ(gpemu_monitor_get_nvlink(0, 0, &peer), GPEMU_ERROR_NOT_FOUND);
  EXPECT_EQ(gpemu_monitor_get_nvlink(0, 0, nullptr), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(peer, 7);
}

/// Yields what each NVLink of a device leads to.
std::vector<int32_t> nvlinks_of(int32_t device) {
  std::vector<int32_t> peers;
  int32_t peer = 0;
  while (gpemu_monitor_get_nvlink(device, static_cast<int32_t>(peers.size()), &peer) == GPEMU_OK) {
    peers.push_back(peer);
  }
  return peers;
}

/// Nodes of several kinds of GPU with NVLink.
class CApiMonitorLinks : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) /
              ("gpemu_capi_links_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    ASSERT_EQ(::setenv("GPEMU_NODE_DIR", (folder_ / "nodes").c_str(), 1), 0);
  }
  void TearDown() override {
    EXPECT_EQ(gpemu_monitor_detach(), GPEMU_OK);
    gpemu_node_close(node_);
    std::filesystem::remove_all(folder_);
    ::unsetenv("GPEMU_NODE_DIR");
  }
  void watch(const char* gpu, int32_t devices, const char* topology = nullptr) {
    const gpemu_node_config config{.struct_size = sizeof config,
                                   .name = "n",
                                   .gpu = gpu,
                                   .device_count = devices,
                                   .clock = GPEMU_CLOCK_REAL,
                                   .topology = topology};
    ASSERT_EQ(gpemu_node_create(&config, &node_), GPEMU_OK) << gpemu_last_error();
    ASSERT_EQ(gpemu_monitor_attach(), GPEMU_OK) << gpemu_last_error();
  }

  std::filesystem::path folder_;
  gpemu_node* node_ = nullptr;
};

TEST_F(CApiMonitorLinks, OfABridgeLeadToTheNeighbour) {
  watch("RTX-3090", 3);
  EXPECT_EQ(nvlinks_of(0), std::vector<int32_t>(4, 1));
  EXPECT_EQ(nvlinks_of(1), std::vector<int32_t>(4, 0));
  EXPECT_EQ(nvlinks_of(2), std::vector<int32_t>(4, GPEMU_MONITOR_NVLINK_INACTIVE));
  gpemu_monitor_path path{.struct_size = sizeof path};
  ASSERT_EQ(gpemu_monitor_get_path(0, 1, &path), GPEMU_OK) << gpemu_last_error();
  EXPECT_EQ(path.nvlinks, 4);
  EXPECT_EQ(path.access, 1);
  ASSERT_EQ(gpemu_monitor_get_path(1, 2, &path), GPEMU_OK) << gpemu_last_error();
  EXPECT_EQ(path.nvlinks, 0);
  EXPECT_EQ(path.access, 0) << "GeForce over PCIe";
}

TEST_F(CApiMonitorLinks, ThatJoinManyVoltasMayLeadToAnyOfThem) {
  watch("V100-SXM2-32GB", 2);
  EXPECT_EQ(nvlinks_of(1), std::vector<int32_t>(6, GPEMU_MONITOR_NVLINK_UNKNOWN));
}

TEST_F(CApiMonitorLinks, ThatJoinManyLeadToASwitchFromAmpereOn) {
  watch("A100-SXM4-40GB", 2);
  EXPECT_EQ(nvlinks_of(1), std::vector<int32_t>(12, GPEMU_MONITOR_NVLINK_SWITCH));
}

TEST_F(CApiMonitorLinks, AreThoseOfTheTopology) {
  watch("V100-SXM2-32GB", 8, GPEMU_TOPOLOGIES_FOLDER "/dgx-1v.toml");
  EXPECT_EQ(nvlinks_of(0), (std::vector<int32_t>{1, 2, 3, 3, 4, 4}));
  EXPECT_EQ(nvlinks_of(6), (std::vector<int32_t>{2, 4, 5, 5, 7, 7}));
  int32_t peer = 0;
  EXPECT_EQ(gpemu_monitor_get_nvlink(0, 5, &peer), GPEMU_OK) << gpemu_last_error();
  EXPECT_EQ(peer, 4);
  gpemu_monitor_path path{.struct_size = sizeof path};
  ASSERT_EQ(gpemu_monitor_get_path(0, 3, &path), GPEMU_OK) << gpemu_last_error();
  EXPECT_EQ(path.pcie, 3) << "a host bridge";
  EXPECT_EQ(path.nvlinks, 2);
  EXPECT_EQ(path.access, 1);
  ASSERT_EQ(gpemu_monitor_get_path(0, 5, &path), GPEMU_OK) << gpemu_last_error();
  EXPECT_EQ(path.pcie, 5) << "the link between NUMA nodes";
  EXPECT_EQ(path.nvlinks, 0);
  EXPECT_EQ(path.access, 0);
}

TEST_F(CApiMonitorLinks, LeadToASwitch) {
  watch("A100-SXM4-40GB", 8, GPEMU_TOPOLOGIES_FOLDER "/dgx-a100.toml");
  EXPECT_EQ(nvlinks_of(7), std::vector<int32_t>(12, GPEMU_MONITOR_NVLINK_SWITCH));
}

TEST_F(CApiMonitorAttached, TellsMemoryAndProcessesOfADevice) {
  uint64_t address = 0;
  ASSERT_EQ(gpemu_device_allocate(device_, 1 << 20, &address), GPEMU_OK);
  uint64_t free_bytes = 0;
  uint64_t total_bytes = 0;
  ASSERT_EQ(gpemu_device_memory(device_, &free_bytes, &total_bytes), GPEMU_OK);
  gpemu_monitor_state state{.struct_size = sizeof state};
  ASSERT_EQ(gpemu_monitor_get_state(0, &state), GPEMU_OK) << gpemu_last_error();
  EXPECT_EQ(state.memory_total, total_bytes);
  EXPECT_EQ(state.memory_used, total_bytes - free_bytes);
  EXPECT_EQ(state.process_count, 1);
  EXPECT_GT(state.energy_mj, 0);
  ASSERT_EQ(gpemu_monitor_get_state(1, &state), GPEMU_OK) << gpemu_last_error();
  EXPECT_EQ(state.memory_used, 0);
  EXPECT_EQ(state.process_count, 0);
}

TEST_F(CApiMonitorAttached, ListsProcessesAsFarAsThereIsRoom) {
  int32_t count = 0;
  ASSERT_EQ(gpemu_monitor_get_processes(0, nullptr, &count), GPEMU_OK) << gpemu_last_error();
  EXPECT_EQ(count, 1);
  std::array<gpemu_monitor_process, 2> processes{};
  count = 2;
  ASSERT_EQ(gpemu_monitor_get_processes(0, processes.data(), &count), GPEMU_OK);
  EXPECT_EQ(count, 1);
  EXPECT_EQ(processes[0].pid, static_cast<uint32_t>(::getpid()));
  EXPECT_EQ(processes[1].pid, 0);
  ASSERT_EQ(gpemu_monitor_get_processes(1, processes.data(), &count), GPEMU_OK);
  EXPECT_EQ(count, 0);
}

TEST_F(CApiMonitorAttached, NoDeviceIsLostWithoutFaults) {
  int32_t lost = -1;
  ASSERT_EQ(gpemu_monitor_is_lost(1, &lost), GPEMU_OK) << gpemu_last_error();
  EXPECT_EQ(lost, 0);
  EXPECT_EQ(gpemu_monitor_is_lost(2, &lost), GPEMU_ERROR_NOT_FOUND);
  EXPECT_EQ(gpemu_monitor_is_lost(0, nullptr), GPEMU_ERROR_INVALID_ARGUMENT);
  int32_t count = 0;
  EXPECT_EQ(gpemu_monitor_get_xids(1, nullptr, &count), GPEMU_OK) << gpemu_last_error();
  EXPECT_EQ(count, 0);
  EXPECT_EQ(gpemu_monitor_get_xids(2, nullptr, &count), GPEMU_ERROR_NOT_FOUND);
}

TEST_F(CApiMonitorAttached, TellsTheLoadOfAnIdleDevice) {
  gpemu_monitor_load load{.struct_size = sizeof load};
  ASSERT_EQ(gpemu_monitor_get_load(0, &load), GPEMU_OK) << gpemu_last_error();
  EXPECT_GE(load.end_ns - load.start_ns, kMillisecond * 1000 / 6);
  EXPECT_EQ(load.compute, 0);
  EXPECT_EQ(load.copy_h2d, 0);
  EXPECT_EQ(load.d2h_bytes_per_s, 0);
  EXPECT_GT(load.power_w, 0);
  EXPECT_GT(load.temperature_c, 0);
  EXPECT_GT(load.sm_clock_mhz, 0);
  EXPECT_EQ(load.performance_state, 0) << "this process has a context";
  EXPECT_EQ(load.clock_share, 1);
  std::array<gpemu_monitor_process_load, 2> loads{};
  int32_t count = 2;
  ASSERT_EQ(gpemu_monitor_get_process_loads(0, loads.data(), &count), GPEMU_OK);
  EXPECT_EQ(count, 1);
  EXPECT_EQ(loads[0].pid, static_cast<uint32_t>(::getpid()));
  EXPECT_EQ(loads[0].compute, 0);
}

TEST_F(CApiMonitorAttached, RefusesBadArguments) {
  gpemu_monitor_device device{.struct_size = sizeof device + 1};
  gpemu_monitor_state state{.struct_size = 0};
  EXPECT_EQ(gpemu_monitor_get_device(0, &device), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpemu_monitor_get_state(0, &state), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpemu_monitor_get_state(2, &state), GPEMU_ERROR_NOT_FOUND);
  EXPECT_EQ(gpemu_monitor_get_state(-1, &state), GPEMU_ERROR_NOT_FOUND);
  int32_t count = 1;
  EXPECT_EQ(gpemu_monitor_get_processes(0, nullptr, &count), GPEMU_ERROR_INVALID_ARGUMENT);
  count = -1;
  EXPECT_EQ(gpemu_monitor_get_processes(0, nullptr, &count), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpemu_monitor_device_count(nullptr), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpemu_monitor_get_device(0, nullptr), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpemu_monitor_get_state(0, nullptr), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpemu_monitor_get_load(0, nullptr), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpemu_monitor_get_processes(0, nullptr, nullptr), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpemu_monitor_get_process_loads(0, nullptr, nullptr), GPEMU_ERROR_INVALID_ARGUMENT);
}

TEST(CApiMonitorPrivate, HasNoLoad) {
  ASSERT_EQ(::setenv("GPEMU_GPU", "T4", 1), 0);
  ASSERT_EQ(gpemu_monitor_attach(), GPEMU_OK) << gpemu_last_error();
  gpemu_monitor_state state{.struct_size = sizeof state, .energy_mj = 7};
  EXPECT_EQ(gpemu_monitor_get_state(0, &state), GPEMU_OK) << gpemu_last_error();
  EXPECT_EQ(state.energy_mj, 0);
  gpemu_monitor_load load{.struct_size = sizeof load};
  EXPECT_EQ(gpemu_monitor_get_load(0, &load), GPEMU_ERROR_UNSUPPORTED);
  int32_t count = 0;
  EXPECT_EQ(gpemu_monitor_get_process_loads(0, nullptr, &count), GPEMU_ERROR_UNSUPPORTED);
  EXPECT_EQ(gpemu_monitor_detach(), GPEMU_OK);
  ::unsetenv("GPEMU_GPU");
}

}  // namespace
