// SPDX-License-Identifier: Apache-2.0
#include "gpemu/containers/pool_monitor.hpp"

#include <chrono>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/base/file.hpp"
#include "gpemu/base/temporary_folder.hpp"
#include "gpemu/containers/gpu_pool.hpp"
#include "gpemu/device/device.hpp"
#include "gpemu/device/node.hpp"

namespace gpemu::containers {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): literals only.

constexpr double kIdleWatts = 20;

/// Numbers are exact, although the clock is the host's: what is watched has ended by then.
class PoolMonitorTest : public testing::Test {
 protected:
  PoolMonitorTest() {
    std::filesystem::create_directories(folder_.path() / "gpemu/lib/gpemu/shims/bin");
    write_file_atomically(folder_.path() / "gpemu/lib/gpemu/shims/libgpemu_audit.so", "").value();
  }

  GpuPool pool(int gpus, int replicas = 1, std::string faults = "") {
    GpuPoolOptions options{.machine = "n1",
                           .gpus = {},
                           .faults = std::move(faults),
                           .slices = {},
                           .folder = folder_.path() / "state",
                           .installation = folder_.path() / "gpemu",
                           .replicas = replicas};
    options.gpus.resize(
        static_cast<std::size_t>(gpus),
        {.gpu = "TEST-GPU", .memory_bytes = kGiB, .max_power_w = 100, .idle_power_w = kIdleWatts});
    return GpuPool::create(std::move(options)).value();
  }
  PoolMonitor monitor() { return PoolMonitor::open(folder_.path() / "state").value(); }

  /// A program in a container that has got a device.
  struct Program {
    std::shared_ptr<device::Node> node;
    std::unique_ptr<device::Device> device;

    void work(Duration cost) {
      device->default_stream().launch(cost);
      device->synchronize();
    }
  };
  static Program start(GpuPool& pool, const std::string& id, std::uint8_t tenant = 0) {
    const ContainerEdits edits = pool.allocate(std::vector{id}).value();
    Program program;
    program.node = device::Node::open(kNodeName, edits.mounts.back().host).value();
    program.device =
        device::Device::open(program.node, 0, program.node->clock(), {}, {.tenant = tenant})
            .value();
    return program;
  }

  TemporaryFolder folder_ =
      TemporaryFolder::create(testing::TempDir(), "gpemu-containers-").value();
};

TEST_F(PoolMonitorTest, SumsUpWhatTheContainersOfAGpuHaveDone) {
  GpuPool two = pool(2);
  PoolMonitor watch = monitor();
  Program first = start(two, two.devices()[1].id);
  ASSERT_TRUE(first.device->allocate(kMiB));
  first.work(30ms);
  auto uses = watch.look().value();
  ASSERT_EQ(uses.size(), 2U);
  EXPECT_EQ(uses[1].now.uuid, two.devices()[1].id);
  EXPECT_EQ(uses[1].busy, 30ms);
  EXPECT_EQ(uses[1].now.memory_used, kMiB);
  EXPECT_GT(uses[1].load.compute, 0);
  EXPECT_GT(uses[1].load.power_w, kIdleWatts);
  EXPECT_EQ(uses[0].busy, 0ms);
  EXPECT_EQ(uses[0].load.power_w, kIdleWatts);
  EXPECT_EQ(uses[0].now.processes.size(), 0U);
  const double idle_j = uses[0].energy_j;
  EXPECT_GT(idle_j, 0);
  EXPECT_GT(uses[1].energy_j, idle_j);
  // What it does before the GPU is another container's counts, too.
  first.work(10ms);
  first = {};
  Program second = start(two, two.devices()[1].id);
  second.work(5ms);
  uses = watch.look().value();
  EXPECT_EQ(uses[1].busy, 45ms);
  EXPECT_EQ(uses[1].now.memory_used, 0U);
  EXPECT_EQ(watch.look().value()[1].busy, 45ms);
  EXPECT_EQ(watch.look().value()[1].load.compute, 0) << "since the last look";
}

TEST_F(PoolMonitorTest, WhatWasBeforeItBeganDoesNotCount) {
  GpuPool one = pool(1);
  Program program = start(one, one.devices()[0].id);
  program.work(10ms);
  PoolMonitor watch = monitor();
  EXPECT_EQ(watch.look().value()[0].busy, 0ms);
  program.work(7ms);
  EXPECT_EQ(watch.look().value()[0].busy, 7ms);
}

TEST_F(PoolMonitorTest, TellsContainersOfAGpuApart) {
  GpuPool shared = pool(1, 4);
  PoolMonitor watch = monitor();
  Program first = start(shared, shared.devices()[0].id, 1);
  Program third = start(shared, shared.devices()[2].id, 3);
  ASSERT_TRUE(third.device->allocate(kMiB));
  first.work(10ms);
  third.work(20ms);
  auto uses = watch.look().value();
  EXPECT_EQ(uses[0].busy, 30ms);
  EXPECT_EQ(uses[0].tenants.at(1).busy, 10ms);
  EXPECT_EQ(uses[0].tenants.at(1).memory_held, 0U);
  EXPECT_EQ(uses[0].tenants.at(3).busy, 20ms);
  EXPECT_EQ(uses[0].tenants.at(3).memory_held, kMiB);
  // A process that has ended counts on.
  third = {};
  uses = watch.look().value();
  EXPECT_EQ(uses[0].tenants.at(3).busy, 20ms);
  EXPECT_EQ(uses[0].tenants.at(3).memory_held, 0U);
  third = start(shared, shared.devices()[2].id, 3);
  third.work(1ms);
  EXPECT_EQ(watch.look().value()[0].tenants.at(3).busy, 21ms);
}

TEST_F(PoolMonitorTest, ReportsTheLastXid) {
  GpuPool two = pool(2, 1, "[[fault]]\nkind = \"lost\"\ngpu = 1\nat_s = 0\n");
  PoolMonitor watch = monitor();
  const auto uses = watch.look().value();
  EXPECT_EQ(uses[0].xid, 0);
  EXPECT_EQ(uses[1].xid, 79);
}

TEST_F(PoolMonitorTest, GarbageInAContainersNodeStaysThere) {
  GpuPool two = pool(2);
  PoolMonitor watch = monitor();
  const ContainerEdits edits = two.allocate(std::vector{two.devices()[0].id}).value();
  write_file_atomically(edits.mounts.back().host / kNodeName, std::string(1 << 20, '\xff')).value();
  Program other = start(two, two.devices()[1].id);
  other.work(2ms);
  const auto uses = watch.look().value();
  EXPECT_EQ(uses[0].busy, 0ms);
  EXPECT_EQ(uses[1].busy, 2ms);
}

TEST_F(PoolMonitorTest, GarbageIsInNoSumOfTheNextContainer) {
  GpuPool one = pool(1);
  PoolMonitor watch = monitor();
  const std::string id = one.devices()[0].id;
  const ContainerEdits edits = one.allocate(std::vector{id}).value();
  {
    const auto node = device::Node::open(kNodeName, edits.mounts.back().host).value();
    const auto device = device::Device::open(node, 0, node->clock()).value();
    device->default_stream().launch(30ms);
    device->synchronize();
  }
  EXPECT_EQ(watch.look().value()[0].busy, 30ms);
  // It writes that its GPU worked for two hundred years.
  const auto file = edits.mounts.back().host / kNodeName;
  const std::string node = read_file(file).value();
  const auto bytes_of = [](std::int64_t number) {
    return std::string(reinterpret_cast<const char*>(&number), sizeof number);
  };
  const std::string was = bytes_of(Duration(30ms).count());
  std::fstream out(file, std::ios::in | std::ios::out | std::ios::binary);
  int changed = 0;
  for (std::size_t at = 0; (at = node.find(was, at)) != std::string::npos; at += was.size()) {
    out.seekp(static_cast<std::streamoff>(at)) << bytes_of(std::int64_t{1} << 62);
    ++changed;
  }
  out.close();
  ASSERT_GT(changed, 0);
  EXPECT_EQ(watch.look().value()[0].busy, 30ms);
  Program next = start(one, id);
  next.work(5ms);
  EXPECT_EQ(watch.look().value()[0].busy, 35ms);
}

TEST_F(PoolMonitorTest, AFolderWithoutAPoolIsNamed) {
  const auto wrong = PoolMonitor::open(folder_.path() / "none");
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().message.find("none"), std::string::npos) << wrong.error().message;
}

}  // namespace
}  // namespace gpemu::containers
