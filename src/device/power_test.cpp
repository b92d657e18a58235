// SPDX-License-Identifier: Apache-2.0
#include "power.hpp"

#include <cmath>
#include <filesystem>
#include <future>
#include <limits>
#include <string>
#include <unistd.h>

#include <gtest/gtest.h>

#include "gpemu/device/device.hpp"
#include "gpemu/device/monitor.hpp"

namespace gpemu::device {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): literals only.

/// A limit of 75 W leaves an eighth of the power that work adds, so half of the clock.
DeviceConfig board() {
  DeviceConfig device{
      .gpu = "A", .memory_bytes = kMiB, .max_power_w = 250, .idle_power_w = 50, .facts = {}};
  device.facts.boost_clock_mhz = 1500;
  return device;
}

class PowerTest : public testing::Test {
 protected:
  [[nodiscard]] PowerSnapshot power() const {
    return node_->device_snapshot(0, clock_.now()).power;
  }
  Duration launch(Duration cost, double memory_share = 0) {
    const QueuedWork interval = device_->default_stream().launch(cost, memory_share);
    return interval.expected.end - interval.expected.start;
  }
  void wait_until(Duration time) { clock_.wait_until(TimePoint(time)); }
  [[nodiscard]] bool limit(double watts) {
    return node_->settings(0).set_power_limit(watts, clock_.now()).has_value();
  }
  [[nodiscard]] bool lock(double megahertz) {
    return node_->settings(0).lock_clock(megahertz, clock_.now()).has_value();
  }

  sim::VirtualClock clock_;
  std::shared_ptr<Node> node_ =
      Node::create_private({.name = "p", .devices = {board(), board()}}).value();
  std::unique_ptr<Device> device_ = Device::open(node_, 0, clock_).value();
};

TEST_F(PowerTest, ALimitedDeviceTakesLongerByTheCubeRoot) {
  EXPECT_EQ(launch(100ms), 100ms);
  ASSERT_TRUE(limit(75));
  EXPECT_EQ(launch(100ms), 200ms);
  ASSERT_TRUE(limit(150));  // half of what work adds
  EXPECT_EQ(launch(100ms), from_milliseconds(100 * std::cbrt(2)));
  ASSERT_TRUE(limit(0));
  EXPECT_EQ(launch(100ms), 100ms);
}

TEST_F(PowerTest, TimeForMemoryDoesNotFollowTheClock) {
  ASSERT_TRUE(limit(75));
  EXPECT_EQ(launch(100ms, 1), 100ms);
  EXPECT_EQ(launch(100ms, 0.25), 25ms + 2 * 75ms);
  EXPECT_EQ(launch(100ms, std::nan("")), 200ms);
}

TEST_F(PowerTest, OtherDevicesAndCopiesGoOnAsBefore) {
  ASSERT_TRUE(limit(75));
  const auto other = Device::open(node_, 1, clock_).value();
  EXPECT_EQ(other->default_stream().launch(100ms).busy, 100ms);
  EXPECT_EQ(device_->default_stream().copy(Engine::kCopyHostToDevice, 1, 100ms).busy, 100ms);
}

TEST_F(PowerTest, EnergyIsPowerOverTime) {
  launch(1s);
  wait_until(2s);
  EXPECT_DOUBLE_EQ(power().energy_j, 50 * 2 + 128 * 1);
  ASSERT_TRUE(limit(75));
  EXPECT_DOUBLE_EQ(power().energy_j, 228) << "what has been used does not change";
  launch(1s);
  wait_until(5s);
  EXPECT_DOUBLE_EQ(power().energy_j, 228 + 50 * 3 + 16 * 2);
  EXPECT_EQ(power().capped_time, 2s);
}

TEST_F(PowerTest, ALimitHoldsFromNowOnForThePowerAndFromTheNextLaunchForTimes) {
  launch(4s);
  wait_until(1s);
  ASSERT_TRUE(limit(75));
  EXPECT_EQ(device_->default_stream().tail().time(), TimePoint(4s));
  wait_until(4s);
  EXPECT_DOUBLE_EQ(power().energy_j, 50 * 4 + 128 * 1 + 16 * 3);
}

TEST_F(PowerTest, ALockedClockSlowsKernelsAndSavesEnergyWithoutALimit) {
  ASSERT_TRUE(lock(750));
  EXPECT_EQ(launch(1s), 2s);
  wait_until(2s);
  EXPECT_DOUBLE_EQ(power().energy_j, 50 * 2 + 16 * 2);
  EXPECT_EQ(power().capped_time, 0s);
  EXPECT_FALSE(power().capped);
  EXPECT_EQ(power().locked_clock_mhz, 750);
}

TEST_F(PowerTest, TheLowerOfTwoClocksCounts) {
  ASSERT_TRUE(lock(750) && limit(150));
  EXPECT_EQ(power().clock, 0.5);
  EXPECT_FALSE(power().capped) << "the clock is lower than the limit would have it";
  ASSERT_TRUE(lock(1400));
  EXPECT_EQ(power().clock, std::cbrt(0.5));
  EXPECT_TRUE(power().capped);
  EXPECT_EQ(power().limit_w, 150);
}

TEST_F(PowerTest, OfAClockThatTheDeviceLacksTheNearestCounts) {
  ASSERT_TRUE(lock(1));
  EXPECT_EQ(power().locked_clock_mhz, 210);
  ASSERT_TRUE(lock(9999));
  EXPECT_EQ(power().clock, 1);
  EXPECT_FALSE(lock(-1));
  EXPECT_FALSE(lock(std::nan("")));
}

TEST_F(PowerTest, RefusesLimitsThatTheBoardLacks) {
  EXPECT_EQ(power().min_limit_w, 75);
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double watts : {74.9, 250.1, -1.0, std::nan(""), infinity}) {
    EXPECT_FALSE(limit(watts)) << watts;
  }
  EXPECT_TRUE(limit(75) && limit(250));
  EXPECT_EQ(power().limit_w, 250);
}

TEST_F(PowerTest, SharesOfProcessesAddUpToTheBoard) {
  const auto monitor = Monitor::create(NodeView::of(node_), clock_, 200ms).value();
  ASSERT_TRUE(limit(75));
  launch(100ms);  // takes 200 ms
  wait_until(400ms);
  const DeviceLoad load = monitor->load(0).value();
  EXPECT_DOUBLE_EQ(load.power_w, 50 + 16 * 0.5);
  ASSERT_EQ(load.processes.size(), 1);
  EXPECT_NEAR(load.processes[0].power_w, 16 * 0.5, 1e-9);
  EXPECT_DOUBLE_EQ(load.sm_clock_mhz, 750);
}

TEST_F(PowerTest, APeriodWithAChangeHasTheMeanPower) {
  const auto monitor = Monitor::create(NodeView::of(node_), clock_, 200ms).value();
  launch(400ms);
  wait_until(100ms);
  ASSERT_TRUE(limit(75));
  wait_until(400ms);
  EXPECT_DOUBLE_EQ(monitor->load(0).value().power_w, 50 + (128 * 0.1 + 16 * 0.3) / 0.4);
}

TEST(PowerOfNodesTest, EnergyAndLimitOutliveTheProcess) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("gpemu_power_" + std::to_string(::getpid()));
  sim::VirtualClock clock;
  const auto node = Node::create({.name = "n", .devices = {board()}}, folder).value();
  {
    const auto user = Node::open("n", folder).value();
    const auto device = Device::open(user, 0, clock).value();
    device->default_stream().launch(1s);
    clock.wait_until(TimePoint(1s));
    ASSERT_TRUE(user->settings(0).set_power_limit(75, clock.now()));
    device->default_stream().launch(1s);
    clock.wait_until(TimePoint(3s));
  }
  const PowerSnapshot power = node->device_snapshot(0, clock.now()).power;
  EXPECT_DOUBLE_EQ(power.energy_j, 178 + 66 * 2);
  EXPECT_EQ(power.limit_w, 75);
  const auto view = NodeView::open("n", folder).value();
  EXPECT_DOUBLE_EQ(view->device_snapshot(0, clock.now()).value().power.energy_j, power.energy_j)
      << "who only watches sees the same";
  std::filesystem::remove_all(folder);
}

bool write_settings(layout::PowerTable& table, std::uint64_t taken, PowerSettings settings) {
  return write_power(table, taken, settings);
}

TEST(PowerTableTest, AChangeThatWasCutShortDoesNotCount) {
  layout::PowerTable table{};
  ASSERT_TRUE(write_settings(table, 0, {.limit_w = 100}));
  ++table.taken;  // Its process dies before it writes.
  EXPECT_EQ(read_power(table).limit_w, 100);
  EXPECT_EQ(read_power(table, table).limit_w, 100);
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(write_settings(table, table.taken, {.limit_w = 100.0 + i}));
  }
  EXPECT_EQ(read_power(table).limit_w, 119);
}

TEST(PowerTableTest, OfTwoWhoChangeTheSameSettingsTheSecondMustLookAgain) {
  layout::PowerTable table{};
  ASSERT_TRUE(write_settings(table, 0, {.limit_w = 100}));
  EXPECT_FALSE(write_settings(table, 0, {.clock_mhz = 1000}));
  EXPECT_EQ(read_power(table).limit_w, 100);
}

TEST_F(PowerTest, ChangesAtTheSameTimeAreNotLost) {
  constexpr int kChanges = 2000;
  const auto changed = std::async(std::launch::async, [&] {
    for (int i = 0; i < kChanges; ++i) static_cast<void>(limit(100 + i % 100));
  });
  for (int i = 0; i < kChanges; ++i) static_cast<void>(lock(300 + i % 1000));
  changed.wait();
  EXPECT_EQ(power().limit_w, 100 + (kChanges - 1) % 100);
  EXPECT_EQ(power().locked_clock_mhz, 300 + (kChanges - 1) % 1000);
}

TEST(PowerTableTest, DamagedSumsStayFinite) {
  DeviceFacts facts;
  facts.max_power_w = 250;
  facts.idle_power_w = 50;
  const double infinity = std::numeric_limits<double>::infinity();
  const PowerSnapshot power = power_at(
      {.number = 1, .from = TimePoint::min(), .busy = Duration::min(), .energy_j = infinity}, facts,
      Duration::max(), TimePoint::max());
  EXPECT_TRUE(std::isfinite(power.energy_j));
}

TEST(PowerTableTest, DamageYieldsDefaults) {
  DeviceFacts facts;
  facts.max_power_w = 250;
  facts.idle_power_w = 50;
  facts.facts.boost_clock_mhz = 1500;
  const double nothing = std::nan("");
  const PowerSnapshot power = power_at({.number = 1,
                                        .from = TimePoint::max(),
                                        .busy = Duration::min(),
                                        .capped = Duration::min(),
                                        .energy_j = nothing,
                                        .limit_w = nothing,
                                        .clock_mhz = -1},
                                       facts, 1s, TimePoint(2s));
  EXPECT_EQ(power.limit_w, 250);
  EXPECT_EQ(power.clock, 1);
  EXPECT_TRUE(std::isfinite(power.energy_j));
  EXPECT_GE(power.energy_j, 0);
  EXPECT_EQ(power.capped_time, 0s);
}

}  // namespace
}  // namespace gpemu::device
