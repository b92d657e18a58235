// SPDX-License-Identifier: Apache-2.0
#include "gpemu/process/peer.hpp"

#include <cstdint>
#include <memory>
#include <utility>

#include <gtest/gtest.h>

#include "gpemu/cuda.h"
#include "gpemu/process/process.hpp"

#include "test_gpu.hpp"

namespace gpemu::cuda {
namespace {

/// A device of a node whose GPUs are all of one kind.
struct PeerDevice : process::DeviceState {
  PeerDevice(int place, const char* product, int nvlink_joins = 1) {
    ordinal = place;
    index = place;
    spec.name = product;
    spec.product_name = product;
    spec.generation = profile::generation_facts(8, 0).value();
    spec.pcie_generation = 4;
    spec.pcie_lanes = 16;
    spec.nvlink_gpus = nvlink_joins;
    if (nvlink_joins > 1) spec.nvlink_bytes_per_s = 100e9;
  }
};

topology::LinkClass link_of(const process::DeviceState& device, const process::DeviceState& peer) {
  return process::peer_path(device, peer).link;
}

using topology::LinkClass;

TEST(PeerPath, IsNvlinkWhereABridgeJoinsTwo) {
  const PeerDevice first(0, "NVIDIA A100-PCIE-40GB", 2), second(1, "NVIDIA A100-PCIE-40GB", 2),
      third(2, "NVIDIA A100-PCIE-40GB", 2), fourth(3, "NVIDIA A100-PCIE-40GB", 2);
  EXPECT_EQ(link_of(first, second), LinkClass::kNvlink);
  EXPECT_EQ(link_of(second, first), LinkClass::kNvlink);
  EXPECT_EQ(link_of(second, third), LinkClass::kPciePeer);
  EXPECT_EQ(link_of(fourth, third), LinkClass::kNvlink);
}

TEST(PeerPath, IsPcieWithoutNvlink) {
  EXPECT_EQ(link_of(PeerDevice(0, "Tesla T4"), PeerDevice(1, "Tesla T4")), LinkClass::kPciePeer);
}

TEST(PeerPath, IsNvlinkOrStagedOfGeForce) {
  const char* const product = "NVIDIA GeForce RTX 3090";
  EXPECT_EQ(link_of(PeerDevice(0, product, 2), PeerDevice(1, product, 2)), LinkClass::kNvlink);
  EXPECT_EQ(link_of(PeerDevice(1, product, 2), PeerDevice(2, product, 2)), LinkClass::kPcieStaged);
  EXPECT_EQ(link_of(PeerDevice(0, product), PeerDevice(1, product)), LinkClass::kPcieStaged);
}

TEST(PeerPath, GivesNoAccessToDifferentKindsAndToItself) {
  const PeerDevice device(0, "Tesla T4");
  EXPECT_FALSE(process::can_access(device, PeerDevice(1, "NVIDIA L4")));
  EXPECT_FALSE(process::can_access(device, device));
  EXPECT_TRUE(process::can_access(device, PeerDevice(1, "Tesla T4")));
}

/// GPUs 0 and 1 of four have an NVLink; all are below one host bridge.
profile::TopologySpec one_bond() {
  profile::TopologySpec box;
  box.sockets = {"A processor"};
  box.bridges.resize(1);
  box.gpus.resize(4);
  box.bonds = {{.first = 0, .second = 1, .links = 1}};
  return box;
}

TEST(PeerPath, IsAsTheNodesTopologySays) {
  const profile::TopologySpec box = one_bond();
  PeerDevice first(0, "NVIDIA A100", 4), second(1, "NVIDIA A100", 4), third(2, "NVIDIA A100", 4);
  EXPECT_EQ(link_of(first, third), LinkClass::kNvlink);
  EXPECT_DOUBLE_EQ(process::peer_path(first, second).line_rate, 100e9);
  for (PeerDevice* device : {&first, &second, &third}) device->machine = &box;
  EXPECT_EQ(link_of(first, second), LinkClass::kNvlink);
  EXPECT_DOUBLE_EQ(process::peer_path(first, second).line_rate, 25e9);
  EXPECT_EQ(link_of(first, third), LinkClass::kPciePeer);
  EXPECT_EQ(process::peer_path(first, "NVIDIA A100", 4).link, LinkClass::kPcieStaged)
      << "does not exist";
}

TEST(PeerCopy, OfDifferentKindsIsAsSlowAsTheSlowerLink) {
  const PeerDevice fast(0, "NVIDIA L4");
  PeerDevice slow(1, "Tesla T4");
  slow.spec.pcie_generation = 3;
  EXPECT_DOUBLE_EQ(process::peer_copy(fast, slow).rate, process::peer_copy(slow, fast).rate);
  EXPECT_LT(process::peer_copy(fast, slow).rate,
            process::peer_copy(fast, PeerDevice(1, "other")).rate);
}

TEST(PeerAccess, IsEnabledOnceAndInOneDirection) {
  PeerDevice first(0, "Tesla T4"), second(1, "Tesla T4");
  EXPECT_EQ(process::disable_peer_access(first, second), GPEMU_CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
  EXPECT_EQ(process::enable_peer_access(first, second), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(process::enable_peer_access(first, second),
            GPEMU_CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  EXPECT_EQ(process::disable_peer_access(second, first), GPEMU_CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
  EXPECT_EQ(process::disable_peer_access(first, second), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(process::disable_peer_access(first, second), GPEMU_CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
}

TEST(PeerAccess, NeedsALink) {
  PeerDevice first(0, "NVIDIA GeForce RTX 4090"), second(1, "NVIDIA GeForce RTX 4090");
  EXPECT_EQ(process::enable_peer_access(first, second), GPEMU_CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
  EXPECT_EQ(process::disable_peer_access(first, second), GPEMU_CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
}

/// A node of two V100s. The second one has no context, because it does not exist in the node.
class PeerFunctionsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { use_test_gpu(); }
  void SetUp() override {
    ASSERT_EQ(gpemu_cuda_context_reset(0), GPEMU_CUDA_SUCCESS);
    ASSERT_EQ(gpemu_cuda_set_current_device(0), GPEMU_CUDA_SUCCESS);
    auto second = std::make_unique<process::DeviceState>();
    second->ordinal = second->index = 1;
    second->spec = process::process().devices.front()->spec;
    process::process().devices.push_back(std::move(second));
  }
  void TearDown() override { process::process().devices.pop_back(); }
};

TEST_F(PeerFunctionsTest, DevicesOfOneKindCanAccessEachOther) {
  std::int32_t can = -1;
  ASSERT_EQ(gpemu_cuda_can_access_peer(0, 1, &can), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(can, 1);
  ASSERT_EQ(gpemu_cuda_can_access_peer(0, 0, &can), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(can, 0) << "itself";
  process::process().devices.back()->spec.name = "other";
  can = -1;
  ASSERT_EQ(gpemu_cuda_can_access_peer(1, 0, &can), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(can, 0);
  can = -1;
  for (const std::int32_t none : {-1, 2}) {
    EXPECT_EQ(gpemu_cuda_can_access_peer(none, 0, &can), GPEMU_CUDA_ERROR_INVALID_DEVICE);
    EXPECT_EQ(gpemu_cuda_can_access_peer(0, none, &can), GPEMU_CUDA_ERROR_INVALID_DEVICE);
  }
  EXPECT_EQ(can, -1);
  EXPECT_EQ(gpemu_cuda_can_access_peer(0, 1, nullptr), GPEMU_CUDA_ERROR_INVALID_VALUE);
}

TEST_F(PeerFunctionsTest, AccessIsTheCurrentDevicesAndEndsWithItsContext) {
  EXPECT_EQ(gpemu_cuda_disable_peer_access(1), GPEMU_CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
  ASSERT_EQ(gpemu_cuda_enable_peer_access(1), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_enable_peer_access(1), GPEMU_CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  EXPECT_TRUE(process::process().devices.back()->peers.empty()) << "the other direction";
  ASSERT_EQ(gpemu_cuda_disable_peer_access(1), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_enable_peer_access(1), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_context_reset(0), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_disable_peer_access(1), GPEMU_CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
}

TEST_F(PeerFunctionsTest, AccessNeedsAnotherDeviceWithALink) {
  EXPECT_EQ(gpemu_cuda_enable_peer_access(0), GPEMU_CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
  for (const std::int32_t none : {-1, 2}) {
    EXPECT_EQ(gpemu_cuda_enable_peer_access(none), GPEMU_CUDA_ERROR_INVALID_DEVICE);
    EXPECT_EQ(gpemu_cuda_disable_peer_access(none), GPEMU_CUDA_ERROR_INVALID_DEVICE);
  }
  process::process().devices.back()->spec.name = "other";
  EXPECT_EQ(gpemu_cuda_enable_peer_access(1), GPEMU_CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
}

}  // namespace
}  // namespace gpemu::cuda
