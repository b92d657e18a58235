// SPDX-License-Identifier: Apache-2.0
// Access of one GPU to another's memory: the good calls. They need a process of their own, because
// a process keeps the GPUs that it has found.
#include <filesystem>
#include <string>
#include <unistd.h>
#include <utility>

#include "gpemu/gpemu.h"

#include "loaded_libraries.hpp"

namespace {

/// Two A100s.
class Peers : public LoadedLibraries {
 protected:
  void SetUp() override {
    load({GPEMU_TEST_DRIVER, GPEMU_TEST_RUNTIME_12});
    folder_ =
        std::filesystem::path(testing::TempDir()) / ("gpemu_peers_" + std::to_string(getpid()));
    ASSERT_EQ(setenv("GPEMU_NODE_DIR", folder_.c_str(), 1), 0);
    ASSERT_EQ(setenv("GPEMU_NODE", "n", 1), 0);
    const gpemu_node_config config{
        .struct_size = sizeof config, .name = "n", .gpu = "A100-SXM4-40GB", .device_count = 2};
    ASSERT_EQ(call("gpemu_node_create", &config, &node_), 0);
    int count = 0;
    ASSERT_EQ(call("cudaGetDeviceCount", &count), 0);
    if (count != 2) GTEST_SKIP() << "this process has found its GPUs before";
  }
  void TearDown() override {
    call_as<void>("gpemu_node_close", node_);
    std::filesystem::remove_all(folder_);
    unsetenv("GPEMU_NODE");
    unsetenv("GPEMU_NODE_DIR");
  }

  /// Returns what a device has sent and received over PCIe (-1), or over all of its NVLinks.
  std::pair<uint64_t, uint64_t> traffic(int device, int first_link, int end) {
    std::pair<uint64_t, uint64_t> sum;
    for (int link = first_link; link < end; ++link) {
      uint64_t sent = 0, received = 0;
      EXPECT_EQ(call("gpemu_monitor_get_link_traffic", device, link, &sent, &received), 0);
      sum.first += sent;
      sum.second += received;
    }
    return sum;
  }

  /// Copies from the first device to the second, and checks that watchers see it.
  void expect_copies_on_links() {
    constexpr size_t kBytes = 1'000'003;
    void* memory[2] = {};
    for (const int device : {0, 1}) {
      ASSERT_EQ(call("cudaSetDevice", device), 0);
      ASSERT_EQ(call("cudaMalloc", &memory[device], kBytes), 0);
    }
    ASSERT_EQ(call("cudaMemcpyPeer", memory[1], 1, memory[0], 0, kBytes), 0);
    ASSERT_EQ(call("gpemu_monitor_attach"), 0);
    constexpr int kNvlinks = 12;
    using Traffic = std::pair<uint64_t, uint64_t>;
    EXPECT_EQ(traffic(0, 0, kNvlinks), Traffic(kBytes, 0));
    EXPECT_EQ(traffic(1, 0, kNvlinks), Traffic(0, kBytes));
    EXPECT_EQ(traffic(1, 3, 4), Traffic(0, kBytes / kNvlinks + 1)) << "each has its part";
    EXPECT_EQ(traffic(0, -1, 0), Traffic(0, 0)) << "nothing went over PCIe";
    EXPECT_EQ(call("gpemu_monitor_detach"), 0);
  }

  static constexpr int kAccessSupported = 2, kAlreadyEnabled = 704;
  std::filesystem::path folder_;
  void* node_ = nullptr;
};

TEST_F(Peers, OneGpuReachesTheOther) {
  void* contexts[2] = {};
  ASSERT_EQ(call("cuInit", 0U), 0);
  for (const int device : {0, 1}) {
    ASSERT_EQ(call("cuDevicePrimaryCtxRetain", &contexts[device], device), 0);
  }
  ASSERT_EQ(call("cuCtxSetCurrent", contexts[0]), 0);
  int supported = 0;
  EXPECT_EQ(call("cuDeviceGetP2PAttribute", &supported, kAccessSupported, 0, 1), 0);
  EXPECT_EQ(supported, 1);
  EXPECT_EQ(call("cuCtxEnablePeerAccess", contexts[1], 0U), 0);
  EXPECT_EQ(call("cuCtxEnablePeerAccess", contexts[1], 0U), kAlreadyEnabled);
  EXPECT_EQ(call("cuCtxDisablePeerAccess", contexts[1]), 0);
  supported = 0;
  ASSERT_EQ(call("cudaSetDevice", 0), 0);
  EXPECT_EQ(call("cudaDeviceGetP2PAttribute", &supported, kAccessSupported, 0, 1), 0);
  EXPECT_EQ(supported, 1);
  EXPECT_EQ(call("cudaDeviceEnablePeerAccess", 1, 0U), 0);
  EXPECT_EQ(call("cudaDeviceEnablePeerAccess", 1, 0U), kAlreadyEnabled);
  EXPECT_EQ(call("cudaDeviceDisablePeerAccess", 1), 0);
  expect_copies_on_links();
  for (const int device : {0, 1}) EXPECT_EQ(call("cuDevicePrimaryCtxRelease", device), 0);
}

}  // namespace
