// SPDX-License-Identifier: Apache-2.0
#include "gpemu/device/node_view.hpp"

#include <filesystem>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gpemu/device/device.hpp"
#include "gpemu/profile/topology_spec.hpp"

#include "test_topology.hpp"

namespace gpemu::device {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): literals only.

class NodeViewTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove_all(directory_); }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  [[nodiscard]] std::shared_ptr<Node> create(bool temporary) const {
    return Node::create({.name = "n1",
                         .devices = {{.gpu = "A", .memory_bytes = kMiB, .max_power_w = 250},
                                     {.gpu = "B", .memory_bytes = 2 * kMiB}},
                         .temporary = temporary},
                        directory_)
        .value();
  }

  [[nodiscard]] std::shared_ptr<NodeView> view() const {
    return NodeView::open("n1", directory_).value();
  }

  const std::filesystem::path directory_ =
      std::filesystem::path(testing::TempDir()) / fmt::format("gpemu_view_test_{}", ::getpid());
};

TEST_F(NodeViewTest, SeesWhatTheProcessesDo) {
  sim::VirtualClock clock;
  const auto node = create(false);
  const auto device = Device::open(node, 1, clock).value();
  ASSERT_TRUE(device->allocate(kMiB));
  device->default_stream().launch(3ms);
  const auto seen = view()->device_snapshot(1, TimePoint(2ms)).value();
  EXPECT_EQ(seen.gpu, "B");
  EXPECT_EQ(seen.memory_used, kMiB);
  EXPECT_EQ(seen.engines[0].busy, 2ms);
  EXPECT_EQ(seen.engines[0].idle_from, TimePoint(3ms));
  ASSERT_EQ(seen.processes.size(), 1U);
  EXPECT_EQ(seen.processes[0].pid, ::getpid());
  EXPECT_EQ(seen.processes[0].foreign_namespace, 0U);
  EXPECT_EQ(seen.processes[0].memory_held, kMiB);
  EXPECT_EQ(seen.processes[0].busy[0], 2ms);
  EXPECT_TRUE(view()->device_snapshot(0, TimePoint(2ms))->processes.empty());
}

TEST_F(NodeViewTest, SeesTheTopology) {
  const auto plain = create(false);
  EXPECT_EQ(plain->topology(), nullptr);
  EXPECT_EQ(view()->topology(), nullptr);
  DeviceConfig device{.gpu = "A", .memory_bytes = kMiB};
  device.facts.nvlink_links = 2;
  NodeConfig config{.name = "n2", .devices = {device, device}, .topology = kPairOfA};
  const auto node = Node::create(config, directory_).value();
  ASSERT_NE(node->topology(), nullptr);
  EXPECT_EQ(node->topology()->name, "pair");
  EXPECT_EQ(Node::open("n2", directory_).value()->topology()->bonds.size(), 1U);
  EXPECT_EQ(Node::create_private(config).value()->topology()->toml, kPairOfA);
  EXPECT_EQ(NodeView::open("n2", directory_).value()->topology()->toml, kPairOfA);
  EXPECT_EQ(NodeView::of(node)->topology(), node->topology());
  // The parts that change lie after it.
  sim::VirtualClock clock;
  const auto queued = Device::open(node, 1, clock).value();
  queued->default_stream().launch(3ms);
  const auto seen = NodeView::open("n2", directory_).value()->device_snapshot(1, TimePoint(1ms));
  EXPECT_EQ(seen.value().engines[0].idle_from, TimePoint(3ms));
}

TEST_F(NodeViewTest, ATopologyOfOtherDevicesIsRefused) {
  NodeConfig config{.name = "n2", .devices = {{.gpu = "A", .memory_bytes = kMiB}}};
  config.topology = kPairOfA;
  const auto one = Node::create(config, directory_);
  ASSERT_FALSE(one);
  EXPECT_EQ(one.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(one.error().message, "the topology pair has 2 GPUs, but the node 1");
  config.topology.assign((1 << 20) + 1, '#');
  EXPECT_EQ(Node::create(config, directory_).error().code, ErrorCode::kInvalidArgument);
}

TEST_F(NodeViewTest, DoesNotKeepANodeOfARunAlive) {
  auto node = create(true);
  const auto watching = view();
  EXPECT_FALSE(watching->over());
  node.reset();
  EXPECT_FALSE(std::filesystem::exists(directory_ / "n1"));
  EXPECT_TRUE(watching->over());
}

TEST_F(NodeViewTest, ANodeThatStaysIsOverWhenItIsRemoved) {
  ASSERT_TRUE(create(false));
  const auto watching = view();
  EXPECT_FALSE(watching->over());
  ASSERT_TRUE(remove_node("n1", false, directory_)) << "watching is no use of it";
  EXPECT_TRUE(watching->over());
}

TEST_F(NodeViewTest, SaysWhenTheSegmentIsCutShortWhileItWatches) {
  ASSERT_TRUE(create(false));
  const auto watching = view();
  std::filesystem::resize_file(directory_ / "n1", 4096);
  const auto seen = watching->device_snapshot(0, TimePoint());
  ASSERT_FALSE(seen);
  EXPECT_EQ(seen.error().code, ErrorCode::kCorruptData);
  EXPECT_NE(seen.error().message.find("gpemu node remove n1"), std::string::npos);
}

TEST_F(NodeViewTest, WatchesWithoutPermissionToWrite) {
  const auto node = create(false);
  if (::geteuid() == 0) GTEST_SKIP() << "root may write anything";
  std::filesystem::permissions(directory_ / "n1", std::filesystem::perms::owner_read);
  EXPECT_EQ(view()->device_count(), 2);
}

}  // namespace
}  // namespace gpemu::device
