// SPDX-License-Identifier: Apache-2.0
//
// Kills processes at random moments of their work on a node, and checks what they leave behind.
#include <csignal>
#include <filesystem>
#include <functional>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gpemu/device/device.hpp"
#include "gpemu/sim/random.hpp"

namespace gpemu::device {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): literals only.

constexpr int kKills = 200;
constexpr Bytes kMemory = kGiB;

class NodeKillTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove_all(directory_); }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  /// Runs `work` in a child process and kills it after a random time of up to 3 ms.
  void kill_while(const std::function<void()>& work) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      work();
      ::_exit(0);
    }
    clock_.wait_until(clock_.now() + Duration(static_cast<Duration::rep>(rng_.below(3'000'000))));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }

  [[nodiscard]] NodeConfig config(bool temporary) const {
    return {
        .name = "n",
        .devices = {{.gpu = "A", .memory_bytes = kMemory}, {.gpu = "A", .memory_bytes = kMemory}},
        .temporary = temporary};
  }

  /// Attaches, allocates, queues hours of work and detaches, for ever.
  void churn() const {
    sim::RealClock clock;
    sim::Rng rng(static_cast<std::uint64_t>(::getpid()));
    while (true) {
      const auto node = Node::open("n", directory_);
      if (!node) continue;
      const auto device = Device::open(*node, 1, clock);
      const auto stream = (*device)->create_stream();
      for (std::uint64_t i = rng.below(50); i > 0; --i) {
        const auto address = (*device)->allocate(rng.below(kMemory / 8) + 1);
        stream->launch(1h);
        stream->copy(Engine::kCopyHostToDevice, kMiB, 1h);
        if (address && rng.below(2) == 0) static_cast<void>((*device)->free(*address));
      }
    }
  }

  sim::RealClock clock_;
  sim::Rng rng_{1};
  const std::filesystem::path directory_ =
      std::filesystem::path(testing::TempDir()) / fmt::format("gpemu_kill_test_{}", ::getpid());
};

TEST_F(NodeKillTest, ANextProcessSeesNothingOfTheKilled) {
  {
    ASSERT_TRUE(Node::create(config(false), directory_));
  }
  for (int i = 0; i < kKills; ++i) {
    kill_while([this] { churn(); });
    const auto node = Node::open("n", directory_);
    ASSERT_TRUE(node) << node.error().message;
    const DeviceSnapshot snapshot = (*node)->device_snapshot(1, clock_.now());
    ASSERT_EQ(snapshot.memory_used, 0U) << "after kill " << i;
    ASSERT_TRUE(snapshot.processes.empty()) << "after kill " << i;
    for (const EngineSnapshot& engine : snapshot.engines) {
      ASSERT_LE(engine.idle_from, clock_.now()) << "work of the dead, after kill " << i;
    }
    const auto device = Device::open(*node, 1, clock_);
    ASSERT_TRUE((*device)->allocate(kMemory)) << "after kill " << i;
  }
}

TEST_F(NodeKillTest, ASurvivorGoesOnAndGetsTheMemoryOfTheKilled) {
  const auto node = Node::create(config(false), directory_).value();
  const auto device = Device::open(node, 1, clock_).value();
  ASSERT_TRUE(device->allocate(kMemory / 4));
  for (int i = 0; i < kKills; ++i) {
    kill_while([this] { churn(); });
    // A survivor looks for dead processes at most once per millisecond.
    clock_.wait_until(clock_.now() + 1ms);
    const Interval next = device->default_stream().launch(1us);
    ASSERT_LE(next.end, clock_.now() + 1us) << "the dead's work is waited for, after kill " << i;
    const auto address = device->allocate(kMemory / 4 * 3);
    ASSERT_TRUE(address) << "after kill " << i << ": " << address.error().message;
    ASSERT_TRUE(device->free(*address));
  }
}

TEST_F(NodeKillTest, TemporaryNodesOfTheKilledAreGone) {
  for (int i = 0; i < kKills; ++i) {
    kill_while([this] {
      while (true) static_cast<void>(Node::create(config(true), directory_));
    });
    ASSERT_TRUE(Node::create(config(true), directory_)) << "its name is free, after kill " << i;
    ASSERT_TRUE(Node::list(directory_)->empty()) << "after kill " << i;
  }
  EXPECT_TRUE(std::filesystem::is_empty(directory_));
}

}  // namespace
}  // namespace gpemu::device
