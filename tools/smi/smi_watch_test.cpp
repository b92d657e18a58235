// SPDX-License-Identifier: Apache-2.0
#include "smi/smi_watch.hpp"

#include <fstream>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gpemu/device/device.hpp"
#include "gpemu/device/node.hpp"

namespace gpemu::tools {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): literals only.

class SmiWatchTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove_all(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::shared_ptr<device::Node> create(const std::string& name, std::size_t devices,
                                                     bool temporary = false) const {
    device::NodeConfig config{.name = name, .temporary = temporary};
    config.devices.assign(devices, {.gpu = "A", .memory_bytes = kMiB, .max_power_w = 250});
    return device::Node::create(config, folder_).value();
  }

  [[nodiscard]] SmiWatch watch(const std::string& node = "", int device = -1) {
    return SmiWatch(
        {.folder = folder_, .node = node, .device = device, .period = 200ms, .clock = &clock_});
  }

  /// Returns the devices of a sample as "NODE/INDEX NODE/INDEX", or the error.
  static std::string shown(SmiWatch& watch) {
    const auto devices = watch.sample();
    if (!devices) return devices.error().message;
    std::string text;
    for (const SmiDevice& device : *devices) {
      text += fmt::format("{}{}/{}", text.empty() ? "" : " ", device.node, device.now.index);
    }
    return text;
  }

  sim::VirtualClock clock_;
  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / fmt::format("gpemu_smi_test_{}", ::getpid());
};

TEST_F(SmiWatchTest, APeriodBeginsWhereThePreviousOneEnded) {
  const auto node = create("n", 1);
  const auto device = device::Device::open(node, 0, clock_).value();
  SmiWatch watch = this->watch();
  device->default_stream().launch(250ms);
  const auto first = watch.sample().value();
  EXPECT_EQ(clock_.now(), TimePoint(200ms)) << "the first period must end";
  EXPECT_DOUBLE_EQ(first.at(0).load.compute, 1);
  clock_.wait_until(TimePoint(700ms));
  const auto second = watch.sample().value();
  EXPECT_EQ(second.at(0).load.start, TimePoint(200ms));
  EXPECT_EQ(second.at(0).load.end, TimePoint(700ms));
  EXPECT_DOUBLE_EQ(second.at(0).load.compute, 0.1);
}

TEST_F(SmiWatchTest, FollowsNodesThatComeAndGo) {
  SmiWatch watch = this->watch();
  EXPECT_EQ(shown(watch), "");
  const auto first = create("a", 2);
  EXPECT_EQ(shown(watch), "a/0 a/1");
  auto run = create("run", 1, true);
  EXPECT_EQ(shown(watch), "a/0 a/1 run/0");
  run.reset();
  EXPECT_EQ(shown(watch), "a/0 a/1");
  ASSERT_TRUE(device::remove_node("a", true, folder_));
  EXPECT_EQ(shown(watch), "");
}

TEST_F(SmiWatchTest, ShowsTheRequestedDeviceOfTheRequestedNode) {
  const auto first = create("a", 1);
  const auto second = create("b", 2);
  SmiWatch of_node = watch("b");
  EXPECT_EQ(shown(of_node), "b/0 b/1");
  SmiWatch of_device = watch("", 1);
  EXPECT_EQ(shown(of_device), "b/1") << "a has one device";
  SmiWatch of_none = watch("", 2);
  EXPECT_EQ(shown(of_none), "there is no device 2; `gpemu smi -L` lists them");
  SmiWatch of_missing = watch("c");
  EXPECT_EQ(of_missing.sample().error().code, ErrorCode::kNotFound);
}

TEST_F(SmiWatchTest, LeavesOutDamagedNodes) {
  const auto good = create("good", 1);
  ASSERT_TRUE(create("cut", 1));
  SmiWatch watch = this->watch();
  EXPECT_EQ(shown(watch), "cut/0 good/0");
  std::filesystem::resize_file(folder_ / "cut", 4096);
  EXPECT_EQ(shown(watch), "good/0");
  std::ofstream(folder_ / "other") << "not a node";
  EXPECT_EQ(shown(watch), "good/0");
}

}  // namespace
}  // namespace gpemu::tools
