// SPDX-License-Identifier: Apache-2.0
#include "peer.hpp"

#include <gtest/gtest.h>

#include "gpemu/cuda.h"

namespace gpemu::cuda {
namespace {

/// A device of a node whose GPUs are all of one kind.
struct PeerDevice : DeviceState {
  PeerDevice(int place, const char* product, int nvlink_joins = 1) {
    ordinal = place;
    index = place;
    spec.name = product;
    spec.product_name = product;
    spec.nvlink_gpus = nvlink_joins;
  }
};

TEST(PeerLink, IsNvlinkWhereABridgeJoinsTwo) {
  const PeerDevice first(0, "NVIDIA A100-PCIE-40GB", 2), second(1, "NVIDIA A100-PCIE-40GB", 2),
      third(2, "NVIDIA A100-PCIE-40GB", 2), fourth(3, "NVIDIA A100-PCIE-40GB", 2);
  EXPECT_EQ(peer_link(first, second), PeerLink::kNvlink);
  EXPECT_EQ(peer_link(second, first), PeerLink::kNvlink);
  EXPECT_EQ(peer_link(second, third), PeerLink::kPcie);
  EXPECT_EQ(peer_link(fourth, third), PeerLink::kNvlink);
}

TEST(PeerLink, IsPcieWithoutNvlink) {
  EXPECT_EQ(peer_link(PeerDevice(0, "Tesla T4"), PeerDevice(1, "Tesla T4")), PeerLink::kPcie);
}

TEST(PeerLink, IsNvlinkOrNoneOfGeForce) {
  const char* const product = "NVIDIA GeForce RTX 3090";
  EXPECT_EQ(peer_link(PeerDevice(0, product, 2), PeerDevice(1, product, 2)), PeerLink::kNvlink);
  EXPECT_EQ(peer_link(PeerDevice(1, product, 2), PeerDevice(2, product, 2)), PeerLink::kNone);
  EXPECT_EQ(peer_link(PeerDevice(0, product), PeerDevice(1, product)), PeerLink::kNone);
}

TEST(PeerLink, IsNoneOfDifferentKindsAndToItself) {
  const PeerDevice device(0, "Tesla T4");
  EXPECT_EQ(peer_link(device, PeerDevice(1, "NVIDIA L4")), PeerLink::kNone);
  EXPECT_EQ(peer_link(device, device), PeerLink::kNone);
}

TEST(PeerAccess, IsEnabledOnceAndInOneDirection) {
  PeerDevice first(0, "Tesla T4"), second(1, "Tesla T4");
  EXPECT_EQ(disable_peer_access(first, second), GPEMU_CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
  EXPECT_EQ(enable_peer_access(first, second), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(enable_peer_access(first, second), GPEMU_CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  EXPECT_EQ(disable_peer_access(second, first), GPEMU_CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
  EXPECT_EQ(disable_peer_access(first, second), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(disable_peer_access(first, second), GPEMU_CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
}

TEST(PeerAccess, NeedsALink) {
  PeerDevice first(0, "NVIDIA GeForce RTX 4090"), second(1, "NVIDIA GeForce RTX 4090");
  EXPECT_EQ(enable_peer_access(first, second), GPEMU_CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
  EXPECT_EQ(disable_peer_access(first, second), GPEMU_CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
}

}  // namespace
}  // namespace gpemu::cuda
