// SPDX-License-Identifier: Apache-2.0
#include "gpemu/device/monitor.hpp"

#include <algorithm>
#include <future>
#include <unistd.h>
#include <utility>

#include <gtest/gtest.h>

#include "gpemu/device/device.hpp"

namespace gpemu::device {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): literals only.

class MonitorTest : public testing::Test {
 protected:
  sim::VirtualClock clock_;
  std::shared_ptr<Node> node_ =
      Node::create_private(
          {.name = "m",
           .devices = {{.gpu = "A", .memory_bytes = kMiB, .max_power_w = 250, .idle_power_w = 50},
                       {.gpu = "A", .memory_bytes = kMiB}}})
          .value();
  std::unique_ptr<Device> device_ = Device::open(node_, 0, clock_).value();
  std::unique_ptr<Monitor> monitor_ = Monitor::create(NodeView::of(node_), clock_, 200ms).value();

  [[nodiscard]] DeviceLoad load_of(int index) const { return monitor_->load(index).value(); }

  /// Lets the device compute for `work` and then stand still for `rest`.
  void work(Duration work, Duration rest) {
    device_->default_stream().launch(work);
    clock_.wait_until(clock_.now() + work + rest);
  }
};

TEST_F(MonitorTest, TellsTheShareOfThePeriodThatTheDeviceComputed) {
  work(150ms, 100ms);
  const DeviceLoad load = load_of(0);
  EXPECT_DOUBLE_EQ(load.compute, 0.6);
  EXPECT_EQ(load.end - load.start, 250ms);
  EXPECT_DOUBLE_EQ(load.power_w, 50 + 0.64 * 200 * 0.6);
  EXPECT_DOUBLE_EQ(load.temperature_c, 30 + 50 * 126.8 / 250);
  EXPECT_DOUBLE_EQ(load_of(1).compute, 0);
}

TEST_F(MonitorTest, CountsWorkInThePeriodInWhichItRuns) {
  device_->default_stream().launch(300ms);
  clock_.wait_until(clock_.now() + 200ms);
  EXPECT_DOUBLE_EQ(load_of(0).compute, 1);
  clock_.wait_until(clock_.now() + 200ms);
  EXPECT_DOUBLE_EQ(load_of(0).compute, 0.5);
}

TEST_F(MonitorTest, RepeatsTheLastPeriodUntilTheNextIsLongEnough) {
  work(200ms, 0ms);
  const DeviceLoad first = load_of(0);
  work(0ms, 199ms);
  EXPECT_EQ(load_of(0).end, first.end);
  EXPECT_DOUBLE_EQ(load_of(0).compute, 1);
  work(0ms, 1ms);
  EXPECT_DOUBLE_EQ(load_of(0).compute, 0);
}

TEST_F(MonitorTest, WaitsForThePeriodOfTheFirstReading) {
  device_->default_stream().launch(50ms);
  const DeviceLoad load = load_of(0);
  EXPECT_EQ(clock_.now(), TimePoint(200ms));
  EXPECT_DOUBLE_EQ(load.compute, 0.25);
}

/// Has another thread read a load while somebody waits on it or asks for the time.
class BusyClock final : public sim::Clock {
 public:
  mutable Monitor* read_meanwhile = nullptr;
  int read_index = 1;
  [[nodiscard]] TimePoint now() const override {
    if (now_ > TimePoint()) read();
    return now_;
  }
  void wait_until(TimePoint deadline) override {
    now_ = std::max(now_, deadline);
    read();
  }
  void wait_for_change(const std::atomic<std::uint32_t>& /*word*/, std::uint32_t /*seen*/,
                       TimePoint deadline) override {
    wait_until(deadline);
  }
  [[nodiscard]] bool runs_by_itself() const override { return false; }

 private:
  void read() const {
    Monitor* const other = std::exchange(read_meanwhile, nullptr);
    if (other == nullptr) return;
    EXPECT_TRUE(std::async(std::launch::async, [&] { return other->load(read_index); }).get());
  }
  TimePoint now_{};
};

TEST_F(MonitorTest, HoldsNobodyUpWhileItWaits) {
  BusyClock clock;
  const auto monitor = Monitor::create(NodeView::of(node_), clock, 200ms).value();
  clock.read_meanwhile = monitor.get();
  EXPECT_EQ(monitor->load(0).value().end, TimePoint(200ms));
  clock.wait_until(TimePoint(400ms));
  clock.read_meanwhile = monitor.get();
  EXPECT_EQ(monitor->load(0).value().end, TimePoint(400ms));
}

TEST_F(MonitorTest, OfTwoWhoEndAPeriodTheFirstCounts) {
  BusyClock clock;
  const auto monitor = Monitor::create(NodeView::of(node_), clock, 200ms).value();
  device_->default_stream().launch(50ms);
  clock.read_index = 0;
  clock.read_meanwhile = monitor.get();
  const DeviceLoad load = monitor->load(0).value();
  EXPECT_EQ(load.end, TimePoint(200ms));
  EXPECT_DOUBLE_EQ(load.compute, 0.25);
}

TEST_F(MonitorTest, TellsCopiesByDirection) {
  device_->default_stream().copy(Engine::kCopyHostToDevice, 1000, 50ms);
  device_->default_stream().copy(Engine::kCopyDeviceToHost, 500, 100ms);
  clock_.wait_until(clock_.now() + 200ms);
  const DeviceLoad load = load_of(0);
  EXPECT_DOUBLE_EQ(load.compute, 0);
  EXPECT_DOUBLE_EQ(load.copy_h2d, 0.25);
  EXPECT_DOUBLE_EQ(load.copy_d2h, 0.5);
  EXPECT_DOUBLE_EQ(load.h2d_bytes_per_s, 5000);
  EXPECT_DOUBLE_EQ(load.d2h_bytes_per_s, 2500);
}

TEST_F(MonitorTest, TellsTheLoadOfEachProcess) {
  work(80ms, 120ms);
  const DeviceLoad load = load_of(0);
  ASSERT_EQ(load.processes.size(), 1);
  EXPECT_EQ(load.processes[0].pid, ::getpid());
  EXPECT_DOUBLE_EQ(load.processes[0].compute, 0.4);
  EXPECT_TRUE(load_of(1).processes.empty());
}

TEST_F(MonitorTest, AddsUpPowerToEnergy) {
  work(1s, 3s);
  EXPECT_DOUBLE_EQ(monitor_->energy_j(0).value(), 50 * 4 + 128 * 1);
}

TEST_F(MonitorTest, TellsTheBoostClockOfPeriodsWithKernels) {
  GpuFacts facts;
  facts.base_clock_mhz = 1000;
  facts.boost_clock_mhz = 1500;
  DeviceSnapshot device{.facts = facts};
  EXPECT_EQ(sm_clock_mhz(device, 0), 1000);
  EXPECT_EQ(sm_clock_mhz(device, 0.01), 1500);
  device.facts.base_clock_mhz = 0;  // not known
  EXPECT_EQ(sm_clock_mhz(device, 0), 1500);
}

TEST_F(MonitorTest, PerformanceStateTellsWhetherAnybodyHasTheDeviceOpen) {
  EXPECT_EQ(load_of(0).performance_state, 0);
  EXPECT_EQ(load_of(1).performance_state, 8);
}

}  // namespace
}  // namespace gpemu::device
