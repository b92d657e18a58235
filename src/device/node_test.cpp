// SPDX-License-Identifier: Apache-2.0
#include "gpemu/device/node.hpp"

#include <filesystem>
#include <fstream>
#include <sys/resource.h>
#include <sys/wait.h>
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

  void set_version(const std::string& name, char version) const {
    std::fstream file(directory_ / name, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(8);
    file.put(version);
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

TEST_F(NodeTest, RefusesASegmentOfAnotherVersionButRemovesIt) {
  {
    ASSERT_TRUE(Node::create(config("old"), directory_));
  }
  set_version("old", 99);
  const auto opened = Node::open("old", directory_);
  EXPECT_EQ(opened.error().code, ErrorCode::kIncompatible);
  EXPECT_NE(opened.error().message.find("version 99"), std::string::npos);
  EXPECT_EQ(names(), Names{});
  EXPECT_TRUE(std::filesystem::exists(directory_ / "old")) << "only temporary ones are swept";
  EXPECT_TRUE(Node::remove("old", false, directory_));
  EXPECT_TRUE(Node::create(config("old"), directory_));
}

TEST_F(NodeTest, LeavesSegmentsOfAnotherVersionToTheirUsers) {
  auto user = Node::create(config("old", true), directory_).value();
  set_version("old", 99);
  EXPECT_EQ(Node::remove("old", false, directory_).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(names(), Names{});
  EXPECT_TRUE(std::filesystem::exists(directory_ / "old"));
  // As if its user were killed.
  const auto copy = directory_ / "copy";
  std::filesystem::copy_file(directory_ / "old", copy);
  EXPECT_EQ(names(), Names{});
  EXPECT_FALSE(std::filesystem::exists(copy));
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

/// While this lives, no file can be opened.
class NoMoreFiles {
 public:
  NoMoreFiles() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit none{.rlim_cur = 0, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &none);
  }
  NoMoreFiles(const NoMoreFiles&) = delete;
  NoMoreFiles& operator=(const NoMoreFiles&) = delete;
  ~NoMoreFiles() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

TEST_F(NodeTest, AProcessThatCannotBeLookedAtLives) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer looks at memory through pipes";
#endif
  sim::VirtualClock clock;
  const auto node = Node::create_private(config("n1")).value();
  const auto device = Device::open(node, 0, clock).value();
  ASSERT_TRUE(device->allocate(768 * kKiB));
  const NoMoreFiles limit;
  EXPECT_EQ(node->recover_dead_processes(), 0);
  EXPECT_EQ(device->memory_info().held, 768 * kKiB);
  EXPECT_EQ(device->memory_info().free, 256 * kKiB);
  EXPECT_EQ(device->allocate(512 * kKiB).error().code, ErrorCode::kOutOfMemory);
  EXPECT_EQ(node->device_snapshot(0, clock.now()).processes.size(), 1U);
}

TEST_F(NodeTest, AProcessThatCouldNotReadItsStartTimeLives) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer looks at memory through pipes";
#endif
  std::shared_ptr<Node> node;
  {
    const NoMoreFiles limit;
    node = Node::create_private(config("n1")).value();
  }
  EXPECT_EQ(node->recover_dead_processes(), 0);
}

TEST_F(NodeTest, DropsTheWorkOfTheDeadAndNotTheTimeTheyWaited) {
  sim::RealClock clock;
  const auto node = Node::create(config("n1"), directory_).value();
  const auto busy = [&node](std::size_t engine) {
    return node->device_snapshot(0, TimePoint::max()).engines[engine].busy;
  };
  const auto device = Device::open(node, 0, clock).value();
  device->default_stream().launch(Duration(1000));
  device->default_stream().copy(Engine::kCopyDeviceToHost, 1, Duration(1000));
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto own = Device::open(Node::open("n1", directory_).value(), 0, clock).value();
    own->default_stream().launch(std::chrono::hours(1));
    own->default_stream().copy(Engine::kCopyDeviceToHost, 1, std::chrono::hours(1));
    ::_exit(0);
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(busy(2), std::chrono::hours(1) + Duration(1000));
  EXPECT_EQ(node->recover_dead_processes(), 1);
  // Of the kernel a part has run; the copy would have begun an hour later.
  EXPECT_EQ(busy(2), Duration(1000));
  EXPECT_GE(busy(0), Duration(1000));
  EXPECT_LT(busy(0), std::chrono::minutes(30));
}

TEST_F(NodeTest, AForkedChildTakesNothingFromItsParent) {
  sim::VirtualClock clock;
  const auto node = Node::create(config("n1"), directory_).value();
  auto device = Device::open(node, 0, clock).value();
  const DeviceAddress address = device->allocate(600 * kKiB).value();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto refuses = [](const auto& result) {
      return !result && result.error().code == ErrorCode::kUnavailable;
    };
    const bool refused = refuses(device->allocate(kKiB)) && refuses(device->free(address)) &&
                         refuses(Device::open(node, 0, clock));
    device.reset();
    ::_exit(refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "the child is refused";
  EXPECT_EQ(device->memory_info().held, 600 * kKiB);
  EXPECT_EQ(node->device_snapshot(0, clock.now()).processes.size(), 1U);
  EXPECT_TRUE(device->free(address));
}

TEST_F(NodeTest, RejectsBadConfigurations) {
  NodeConfig no_devices{.name = "x"};
  EXPECT_EQ(Node::create_private(no_devices).error().code, ErrorCode::kInvalidArgument);
  NodeConfig no_memory{.name = "x", .devices = {{.gpu = "A"}}};
  EXPECT_EQ(Node::create_private(no_memory).error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace gpemu::device
