// SPDX-License-Identifier: Apache-2.0
#include "sliced_sharing.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/device/device.hpp"
#include "gpemu/device/node.hpp"

namespace gpemu::device {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): literals only.

/// Processes that share a device by time slices, on a virtual clock.
class SlicedSharingTest : public testing::Test {
 protected:
  SlicedSharingTest() {
    std::string name = std::filesystem::temp_directory_path() / "gpemu-slices-XXXXXX";
    folder_ = ::mkdtemp(name.data());
    NodeConfig config{
        .name = "n", .devices = {{.gpu = "A", .memory_bytes = kMiB}}, .temporary = true};
    config.policy = SharingPolicy::kTimeSlices;
    config.slices = {.quantum = 2ms, .context_switch = 100us};
    nodes_.push_back(Node::create(config, folder_).value());
  }
  ~SlicedSharingTest() override {
    devices_.clear();
    nodes_.clear();
    std::filesystem::remove_all(folder_);
  }

  /// Adds a process and returns its default stream.
  Stream& begin(const std::optional<MpsClient>& client = {}) {
    if (!devices_.empty()) nodes_.push_back(Node::open("n", folder_).value());
    devices_.push_back(Device::open(nodes_.back(), 0, clock_, client).value());
    return devices_.back()->default_stream();
  }
  void wait_until(TimePoint deadline) {
    while (true) {
      TimePoint next = deadline;
      for (const auto& node : nodes_) next = std::min(next, node->settle(clock_.now()));
      if (next >= deadline) break;
      clock_.wait_until(next);
    }
    clock_.wait_until(deadline);
  }
  /// Lets time pass until the work of a stream has ended, and returns when that was.
  Duration end_of(Stream& stream) {
    const Moment end = stream.tail();
    while (!end.is_over(clock_.now())) wait_until(end.time());
    return end.time().time_since_epoch();
  }
  /// Returns how much of its work a device has done, by process and in all.
  [[nodiscard]] std::vector<Duration> busy() const {
    const DeviceSnapshot snapshot = nodes_[0]->device_snapshot(0, clock_.now());
    std::vector<Duration> done = {snapshot.engines[0].busy};
    for (const ProcessSnapshot& process : snapshot.processes) done.push_back(process.busy[0]);
    return done;
  }

  sim::VirtualClock clock_;
  std::filesystem::path folder_;
  std::vector<std::shared_ptr<Node>> nodes_;
  std::vector<std::unique_ptr<Device>> devices_;
};

TEST_F(SlicedSharingTest, AProcessAloneIsNotSliced) {
  Stream& stream = begin();
  for (int i = 0; i < 10; ++i) stream.launch(5ms);
  EXPECT_EQ(end_of(stream), 50ms);
}

TEST_F(SlicedSharingTest, TwoProcessesTakeTurns) {
  Stream& first = begin();
  Stream& second = begin();
  first.launch(5ms);
  second.launch(5ms);
  // Five slices, the last ones of a millisecond, and a switch before each but the first.
  EXPECT_EQ(end_of(first), 5 * 2ms - 1ms + 4 * 100us);
  EXPECT_EQ(end_of(second), 10ms + 5 * 100us);
}

TEST_F(SlicedSharingTest, ASettingHalvesTheSlices) {
  ASSERT_TRUE(nodes_[0]->settings(0).set_time_slice(TimeSliceLength::kShort));
  Stream& first = begin();
  Stream& second = begin();
  first.launch(5ms);
  second.launch(5ms);
  // Ten slices of a millisecond, and a switch before each but the first.
  EXPECT_EQ(end_of(first), 9ms + 8 * 100us);
  EXPECT_EQ(end_of(second), 10ms + 9 * 100us);
  EXPECT_EQ(nodes_[0]->device_snapshot(0, clock_.now()).time_slice, TimeSliceLength::kShort);
}

TEST_F(SlicedSharingTest, ASettingAppliesToTheNextSlices) {
  Stream& first = begin();
  Stream& second = begin();
  first.launch(6ms);
  second.launch(6ms);
  wait_until(TimePoint(3ms));
  ASSERT_TRUE(nodes_[0]->settings(0).set_time_slice(TimeSliceLength::kLong));
  // The slice of the second, from 2.1 to 4.1 ms, ends as it was; then slices take 8 ms.
  EXPECT_EQ(end_of(first), 4ms + 200us + 4ms);
  EXPECT_EQ(end_of(second), 8ms + 300us + 4ms);
}

TEST_F(SlicedSharingTest, ASecondProcessWaitsForTheSliceOfTheFirst) {
  Stream& first = begin();
  for (int i = 0; i < 10; ++i) first.launch(1ms);
  wait_until(at_ns(0) + 3500us);
  Stream& second = begin();
  second.launch(500us);
  // The first one's slice begins with the second process. The kernel that runs goes on alone.
  EXPECT_EQ(end_of(second), 3500us + 2ms + 100us + 500us);
}

TEST_F(SlicedSharingTest, WhenOthersEndTheLastOneIsAloneAgain) {
  Stream& first = begin();
  {
    Stream& second = begin();
    second.launch(1ms);
    first.launch(1ms);
    end_of(second);
    end_of(first);
    devices_.pop_back();
    nodes_.pop_back();
  }
  const TimePoint now = clock_.now();
  first.launch(7ms);
  EXPECT_EQ(end_of(first), now.time_since_epoch() + 7ms);
}

TEST_F(SlicedSharingTest, WorkOfAProcessThatEndsIsDropped) {
  Stream& first = begin();
  begin().launch(100ms);
  first.launch(10ms);
  wait_until(at_ns(0) + 3ms);
  devices_.pop_back();
  nodes_.pop_back();
  EXPECT_LE(end_of(first), 3ms + 2 * 100us + 10ms);
}

TEST_F(SlicedSharingTest, CopiesOverlapWithTheKernelsOfOthers) {
  Stream& first = begin();
  Stream& second = begin();
  for (int step = 0; step < 10; ++step) {
    for (Stream* const stream : {&first, &second}) {
      stream->copy(Engine::kCopyHostToDevice, 1, 2ms);
      for (int i = 0; i < 20; ++i) stream->launch(1ms);
    }
  }
  // The engine is idle for the first copy, and for a switch per slice.
  const Duration last = std::max(end_of(first), end_of(second));
  EXPECT_GE(last, 400ms + 2ms);
  EXPECT_LE(last, 400ms / 2ms * (2ms + 100us) + 2ms + 2ms);
}

TEST_F(SlicedSharingTest, WorkThatIsNotDoneIsNotCounted) {
  Stream& first = begin();
  Stream& second = begin();
  first.launch(10ms);
  second.launch(10ms);
  wait_until(at_ns(0) + 5ms);
  // Two milliseconds each, and what the first got of its second slice.
  EXPECT_EQ(busy(), (std::vector<Duration>{4800us, 2800us, 2ms}));
  wait_until(at_ns(0) + 50ms);
  EXPECT_EQ(busy(), (std::vector<Duration>{20ms, 10ms, 10ms}));
}

TEST_F(SlicedSharingTest, ClientsOfAnMpsServerRunSideBySide) {
  Stream& first = begin(MpsClient{.server = 9, .width = kWholeWidth / 2});
  Stream& second = begin(MpsClient{.server = 9, .width = kWholeWidth / 2});
  for (int i = 0; i < 5; ++i) {
    first.launch(1ms);
    second.launch(1ms);
  }
  EXPECT_EQ(end_of(first), 5ms);
  EXPECT_EQ(end_of(second), 5ms);
}

TEST_F(SlicedSharingTest, ClientsThatAreTooWideGetLess) {
  Stream& first = begin(MpsClient{.server = 9});
  Stream& second = begin(MpsClient{.server = 9, .width = kWholeWidth / 4});
  Stream& third = begin(MpsClient{.server = 9});
  first.launch(3ms);
  second.launch(16ms);
  third.launch(6ms);
  // Three eighths for the wide ones, until the first ends; then three quarters for the third.
  EXPECT_EQ(end_of(first), 8ms);
  EXPECT_EQ(end_of(third), 12ms);
  EXPECT_EQ(end_of(second), 16ms);
}

TEST_F(SlicedSharingTest, KernelsOfAClientFollowEachOtherWithoutALoss) {
  Stream& first = begin(MpsClient{.server = 9});
  Stream& second = begin(MpsClient{.server = 9});
  begin(MpsClient{.server = 9}).launch(1s);
  second.launch(1s);
  // At a third of the engine, a kernel of 10 ns takes 30.
  for (int i = 0; i < 1000; ++i) first.launch(10ns);
  EXPECT_EQ(end_of(first), 30us);
}

TEST_F(SlicedSharingTest, AClientHoldsNoMoreMemoryThanItMay) {
  begin(MpsClient{.server = 9, .memory = kMiB / 2});
  Device& limited = *devices_.back();
  EXPECT_EQ(limited.memory_info().total, kMiB / 2);
  ASSERT_TRUE(limited.allocate(kMiB / 4));
  EXPECT_EQ(limited.memory_info().free, kMiB / 4);
  const auto refused = limited.allocate(kMiB / 2);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("to which it is limited"), std::string::npos)
      << refused.error().message;
  EXPECT_TRUE(limited.allocate(kMiB / 4)) << "exactly the rest";
  begin();
  EXPECT_TRUE(devices_.back()->allocate(kMiB / 2)) << "the limit is the client's alone";
}

TEST_F(SlicedSharingTest, WorkOfAnAbandonedContextTakesNoTime) {
  Stream& first = begin(MpsClient{.server = 9});
  for (int i = 0; i < 10; ++i) first.launch(10s);
  Stream& second = begin(MpsClient{.server = 9});
  second.launch(1ms);
  EXPECT_EQ(end_of(second), 2ms);
  devices_[0]->abandon();
  devices_[0]->abandon();
  const TimePoint now = clock_.now();
  second.launch(5ms);
  EXPECT_EQ(end_of(second), now.time_since_epoch() + 5ms);
}

TEST_F(SlicedSharingTest, SaysThatThereIsNoRoom) {
  for (std::size_t i = 0; i < layout::kMostSharers; ++i) begin();
  nodes_.push_back(Node::open("n", folder_).value());
  const auto refused = Device::open(nodes_.back(), 0, clock_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceLimit);
  EXPECT_NE(refused.error().message.find("64 processes"), std::string::npos)
      << refused.error().message;
  devices_.pop_back();
  EXPECT_TRUE(Device::open(nodes_.back(), 0, clock_));
}

}  // namespace
}  // namespace gpemu::device
