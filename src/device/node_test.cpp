// SPDX-License-Identifier: Apache-2.0
#include "gpemu/device/node.hpp"

#include <filesystem>
#include <fstream>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gpemu/device/device.hpp"

namespace gpemu::device {
namespace {

class NodeTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove_all(directory_); }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  static NodeConfig config(std::string name, bool temporary = false) {
    return {.name = std::move(name),
            .devices = {{.gpu = "A", .memory_bytes = kMiB}, {.gpu = "B", .memory_bytes = kMiB}},
            .temporary = temporary};
  }

  std::vector<std::string> names() { return Node::list(directory_).value(); }

  const std::filesystem::path directory_ =
      std::filesystem::path(testing::TempDir()) / fmt::format("gpemu_node_test_{}", ::getpid());
};

using Names = std::vector<std::string>;

TEST_F(NodeTest, IsFoundByNameUntilRemoved) {
  {
    ASSERT_TRUE(Node::create(config("n1"), directory_));
  }
  EXPECT_EQ(names(), Names{"n1"});
  EXPECT_EQ(Node::open("n1", directory_).value()->device_count(), 2);
  ASSERT_TRUE(Node::remove("n1", false, directory_));
  EXPECT_EQ(names(), Names{});
  EXPECT_EQ(Node::open("n1", directory_).error().code, ErrorCode::kNotFound);
}

TEST_F(NodeTest, RefusesANameThatIsTaken) {
  ASSERT_TRUE(Node::create(config("n1"), directory_));
  const auto again = Node::create(config("n1"), directory_);
  EXPECT_EQ(again.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(again.error().message.find("n1"), std::string::npos);
}

TEST_F(NodeTest, RefusesNamesThatAreNoFileNames) {
  for (const char* name : {"", ".", "..", "a/b", "x y", ".hidden"}) {
    EXPECT_EQ(Node::create(config(name), directory_).error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(Node::open(name, directory_).error().code, ErrorCode::kInvalidArgument);
  }
}

TEST_F(NodeTest, RemovesATemporaryNodeWithItsLastUser) {
  auto first = Node::create(config("t", true), directory_).value();
  auto second = Node::open("t", directory_).value();
  first.reset();
  EXPECT_EQ(names(), Names{"t"});
  second.reset();
  EXPECT_FALSE(std::filesystem::exists(directory_ / "t"));
}

TEST_F(NodeTest, RefusesToRemoveANodeInUse) {
  const auto node = Node::create(config("busy"), directory_).value();
  EXPECT_EQ(Node::remove("busy", false, directory_).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(names(), Names{"busy"});
  EXPECT_TRUE(Node::remove("busy", true, directory_));
  EXPECT_EQ(names(), Names{});
}

TEST_F(NodeTest, RefusesFilesThatAreNoSegments) {
  std::filesystem::create_directories(directory_);
  std::ofstream(directory_ / "short") << "hello";
  std::ofstream(directory_ / "long") << std::string(100'000, 'x');
  for (const char* name : {"short", "long"}) {
    const auto opened = Node::open(name, directory_);
    EXPECT_EQ(opened.error().code, ErrorCode::kIncompatible) << name;
    EXPECT_EQ(Node::remove(name, true, directory_).error().code, ErrorCode::kIncompatible);
    EXPECT_TRUE(std::filesystem::exists(directory_ / name)) << "it belongs to somebody else";
  }
  EXPECT_EQ(names(), Names{});
}

TEST_F(NodeTest, OpensTheOnlyNodeOrTheOneThatTheEnvironmentNames) {
  EXPECT_EQ(Node::open_default(directory_).error().code, ErrorCode::kNotFound);
  const auto first = Node::create(config("first"), directory_).value();
  EXPECT_EQ(Node::open_default(directory_).value()->name(), "first");
  const auto second = Node::create(config("second"), directory_).value();
  EXPECT_EQ(Node::open_default(directory_).error().code, ErrorCode::kInvalidArgument);
  ASSERT_EQ(::setenv("GPEMU_NODE", "second", 1), 0);
  EXPECT_EQ(Node::open_default(directory_).value()->name(), "second");
  ASSERT_EQ(::setenv("GPEMU_NODE", "gone", 1), 0);
  EXPECT_EQ(Node::open_default(directory_).error().code, ErrorCode::kNotFound);
  ASSERT_EQ(::unsetenv("GPEMU_NODE"), 0);
}

TEST_F(NodeTest, RefusesASegmentOfAnotherVersion) {
  {
    ASSERT_TRUE(Node::create(config("old"), directory_));
  }
  {
    std::fstream file(directory_ / "old", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(8);
    file.put(99);
  }
  const auto opened = Node::open("old", directory_);
  EXPECT_EQ(opened.error().code, ErrorCode::kIncompatible);
  EXPECT_NE(opened.error().message.find("version 99"), std::string::npos);
}

TEST_F(NodeTest, RefusesATruncatedSegment) {
  {
    ASSERT_TRUE(Node::create(config("cut"), directory_));
  }
  std::filesystem::resize_file(directory_ / "cut", 4096);
  EXPECT_EQ(Node::open("cut", directory_).error().code, ErrorCode::kIncompatible);
}

TEST_F(NodeTest, GivesDevicesAStableIdentity) {
  const auto node = Node::create_private(config("n1")).value();
  const auto same = Node::create_private(config("n1")).value();
  const auto other = Node::create_private(config("n2")).value();
  const DeviceSnapshot first = node->device_snapshot(0, TimePoint{});
  EXPECT_EQ(first.uuid, same->device_snapshot(0, TimePoint{}).uuid);
  EXPECT_NE(first.uuid, node->device_snapshot(1, TimePoint{}).uuid);
  EXPECT_NE(first.uuid, other->device_snapshot(0, TimePoint{}).uuid);
  EXPECT_EQ(first.uuid.size(), std::string("GPU-00000000-0000-8000-8000-000000000000").size());
  EXPECT_EQ(first.pci_bus_id, "00000000:01:00.0");
  EXPECT_EQ(node->device_snapshot(1, TimePoint{}).gpu, "B");
}

TEST_F(NodeTest, SharesMemoryAndTheTimelineFirstInFirstOut) {
  sim::VirtualClock clock;
  const auto node_a = Node::create(config("shared"), directory_).value();
  const auto node_b = Node::open("shared", directory_).value();
  const auto a = Device::open(node_a, 0, clock).value();
  const auto b = Device::open(node_b, 0, clock).value();
  ASSERT_TRUE(a->allocate(768 * kKiB));
  EXPECT_EQ(b->allocate(512 * kKiB).error().code, ErrorCode::kOutOfMemory);
  EXPECT_EQ(b->memory_info().free, 256 * kKiB);

  a->default_stream().launch(Duration(30));
  EXPECT_EQ(b->default_stream().launch(Duration(10)).start, TimePoint(Duration(30)));
  EXPECT_EQ(a->default_stream().launch(Duration(5)).start, TimePoint(Duration(40)));
}

TEST_F(NodeTest, RejectsBadConfigurations) {
  NodeConfig no_devices{.name = "x"};
  EXPECT_EQ(Node::create_private(no_devices).error().code, ErrorCode::kInvalidArgument);
  NodeConfig no_memory{.name = "x", .devices = {{.gpu = "A"}}};
  EXPECT_EQ(Node::create_private(no_memory).error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace gpemu::device
