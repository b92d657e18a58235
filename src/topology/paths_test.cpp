// SPDX-License-Identifier: Apache-2.0
#include "gpemu/topology/paths.hpp"

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "test_machine.hpp"

namespace gpemu::topology {
namespace {

/// Returns the names of the paths from a GPU to all network adapters.
std::string to_adapters(const profile::TopologySpec& machine, std::size_t gpu) {
  std::string names;
  for (const profile::NetworkAdapter& adapter : machine.adapters) {
    names += std::string(path_name(pcie_path(machine, machine.gpus[gpu], adapter.place))) + ' ';
  }
  return names;
}

/// Returns the number of NVLinks from a GPU to all GPUs.
std::string to_gpus(const profile::TopologySpec& machine, int gpu) {
  std::string links;
  for (int peer = 0; peer < static_cast<int>(machine.gpus.size()); ++peer) {
    links += std::to_string(nvlinks_between(machine, gpu, peer)) + ' ';
  }
  return links;
}

// The NVLinks of GPU 0: https://github.com/NVIDIA/nccl/issues/671.
TEST(Paths, OfADgx1) {
  const profile::TopologySpec dgx = machine("dgx-1v");
  EXPECT_EQ(to_gpus(dgx, 0), "0 1 1 2 2 0 0 0 ");
  EXPECT_EQ(to_gpus(dgx, 6), "0 0 1 0 1 2 0 2 ");
  EXPECT_EQ(to_adapters(dgx, 0), "PIX PHB SYS SYS ");
  EXPECT_EQ(to_adapters(dgx, 7), "SYS SYS PHB PIX ");
  EXPECT_EQ(path_name(pcie_path(dgx, dgx.gpus[0], dgx.gpus[1])), "PIX");
}

TEST(NvlinkPeer, IsAtTheOtherEndOfEachLink) {
  const profile::TopologySpec dgx = machine("dgx-1v");
  for (int gpu = 0; gpu < 8; ++gpu) {
    std::vector<int> links(8);
    for (int link = 0; link < 6; ++link) ++links.at(nvlink_peer(dgx, gpu, link).value());
    for (int peer = 0; peer < 8; ++peer) {
      EXPECT_EQ(links[peer], nvlinks_between(dgx, gpu, peer)) << gpu << ' ' << peer;
    }
    EXPECT_FALSE(nvlink_peer(dgx, gpu, 6));
  }
  EXPECT_FALSE(nvlink_peer(machine("dgx-a100"), 0, 0)) << "a switch";
}

// GPUs 0 and 1 are below a switch; 2 below another one of the same processor; 4 at the other.
TEST(Uplinks, AreTheLinksThatAPathCrosses) {
  const profile::TopologySpec dgx = machine("dgx-1v");
  const auto between = [&dgx](std::size_t from, std::size_t to) {
    return uplinks_between(dgx, dgx.gpus[from], dgx.gpus[to]);
  };
  EXPECT_EQ(between(0, 1), std::vector<int>{});
  EXPECT_EQ(between(0, 2), (std::vector{0, 1}));
  EXPECT_EQ(between(4, 0), (std::vector{2, 0}));
  EXPECT_EQ(uplinks_above(dgx, dgx.gpus[7]), std::vector{3});
  // Two levels of switches: GPUs 0 and 2 share the upper one.
  const profile::TopologySpec dgx2 = machine("dgx-2");
  EXPECT_EQ(uplinks_between(dgx2, dgx2.gpus[0], dgx2.gpus[2]).size(), 2U);
  EXPECT_EQ(uplinks_between(dgx2, dgx2.gpus[0], dgx2.gpus[4]).size(), 4U);
  EXPECT_EQ(uplinks_above(dgx2, dgx2.gpus[0]).size(), 2U);
}

TEST(SocketOf, IsThatOfTheHostBridge) {
  const profile::TopologySpec dgx = machine("dgx-1v");
  EXPECT_EQ(socket_of(dgx, dgx.gpus[3]), 0);
  EXPECT_EQ(socket_of(dgx, dgx.gpus[4]), 1);
}

TEST(Paths, EachGpuOfADgx1HasSixLinks) {
  const profile::TopologySpec dgx = machine("dgx-1v");
  for (int gpu = 0; gpu < 8; ++gpu) {
    int links = 0;
    for (int peer = 0; peer < 8; ++peer) links += nvlinks_between(dgx, gpu, peer);
    EXPECT_EQ(links, 6) << gpu;
  }
}

// https://github.com/NVIDIA/nccl/issues/1505
TEST(Paths, OfADgxA100) {
  const profile::TopologySpec dgx = machine("dgx-a100");
  EXPECT_EQ(to_gpus(dgx, 1), "12 0 12 12 12 12 12 12 ");
  EXPECT_EQ(to_adapters(dgx, 0), "PXB PXB SYS SYS SYS SYS SYS SYS ");
  EXPECT_EQ(to_adapters(dgx, 3), "SYS SYS PXB PXB SYS SYS SYS SYS ");
}

// https://github.com/vllm-project/vllm/issues/6746
TEST(Paths, OfADgxH100) {
  const profile::TopologySpec dgx = machine("dgx-h100");
  EXPECT_EQ(to_gpus(dgx, 7), "18 18 18 18 18 18 18 0 ");
  EXPECT_EQ(to_adapters(dgx, 0), "PXB NODE NODE NODE SYS SYS SYS SYS ");
  EXPECT_EQ(to_adapters(dgx, 7), "SYS SYS SYS SYS NODE NODE NODE PXB ");
}

// Its paths are those of the DGX H100; the NVLinks:
// https://github.com/NVIDIA/nccl-tests/issues/256.
TEST(Paths, OfADgxH200) {
  const profile::TopologySpec dgx = machine("dgx-h200");
  EXPECT_EQ(to_gpus(dgx, 0), "0 18 18 18 18 18 18 18 ");
  EXPECT_EQ(to_adapters(dgx, 0), "PXB NODE NODE NODE SYS SYS SYS SYS ");
  EXPECT_EQ(to_adapters(dgx, 7), "SYS SYS SYS SYS NODE NODE NODE PXB ");
}

// https://github.com/vllm-project/vllm/issues/16336; GPU 7 follows its pattern. The NVLinks:
// https://github.com/vllm-project/vllm/issues/32862.
TEST(Paths, OfADgxB200) {
  const profile::TopologySpec dgx = machine("dgx-b200");
  EXPECT_EQ(to_gpus(dgx, 0), "0 18 18 18 18 18 18 18 ");
  EXPECT_EQ(to_adapters(dgx, 0), "PXB NODE NODE NODE SYS SYS SYS SYS ");
  EXPECT_EQ(to_adapters(dgx, 5), "SYS SYS SYS SYS NODE PXB NODE NODE ");
  EXPECT_EQ(to_adapters(dgx, 7), "SYS SYS SYS SYS NODE NODE NODE PXB ");
}

// GPU 0: https://github.com/sgl-project/sglang/issues/26632. GPU 7 as with 40 GB.
TEST(Paths, OfADgxA100With80Gb) {
  const profile::TopologySpec dgx = machine("dgx-a100-80");
  EXPECT_EQ(to_gpus(dgx, 0), "0 12 12 12 12 12 12 12 ");
  EXPECT_EQ(numa_node_of(dgx, dgx.gpus[0]), 3);
  EXPECT_EQ(to_adapters(dgx, 0), "PXB PXB SYS SYS SYS SYS SYS SYS ");
  EXPECT_EQ(to_adapters(dgx, 7), "SYS SYS SYS SYS SYS SYS PXB PXB ");
}

// GPUs 0 to 4: https://github.com/NVIDIA/nccl-tests/issues/78. GPU 15 follows their pattern.
TEST(Paths, OfADgx2) {
  const profile::TopologySpec dgx = machine("dgx-2");
  EXPECT_EQ(to_gpus(dgx, 0), "0 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 ");
  EXPECT_EQ(to_adapters(dgx, 0), "PIX PXB NODE NODE SYS SYS SYS SYS ");
  EXPECT_EQ(to_adapters(dgx, 3), "PXB PIX NODE NODE SYS SYS SYS SYS ");
  EXPECT_EQ(to_adapters(dgx, 4), "NODE NODE PIX PXB SYS SYS SYS SYS ");
  EXPECT_EQ(to_adapters(dgx, 15), "SYS SYS SYS SYS NODE NODE PXB PIX ");
}

// https://github.com/NVIDIA/nccl-tests/issues/307
TEST(Paths, OfEightRtx4090) {
  const profile::TopologySpec box = machine("rtx-4090-x8");
  EXPECT_EQ(to_gpus(box, 0), "0 0 0 0 0 0 0 0 ");
  EXPECT_EQ(path_name(pcie_path(box, box.gpus[0], box.gpus[3])), "PIX");
  EXPECT_EQ(path_name(pcie_path(box, box.gpus[0], box.gpus[4])), "SYS");
  EXPECT_EQ(path_name(pcie_path(box, box.gpus[4], box.gpus[7])), "PIX");
}

TEST(Paths, BetweenHostBridgesOfANumaNode) {
  profile::TopologySpec two;
  two.bridges = {{.name = "a", .socket = 0, .numa_node = 0},
                 {.name = "b", .socket = 0, .numa_node = 0}};
  EXPECT_EQ(path_name(pcie_path(two, {.index = 0}, {.index = 1})), "NODE");
  EXPECT_EQ(path_name(pcie_path(two, {.index = 1}, {.index = 1})), "PHB");
}

}  // namespace
}  // namespace gpemu::topology
