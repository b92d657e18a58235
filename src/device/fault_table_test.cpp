// SPDX-License-Identifier: Apache-2.0
#include "gpemu/device/fault_table.hpp"

#include <chrono>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gpemu/device/device.hpp"
#include "gpemu/device/node_view.hpp"
#include "gpemu/device/rendezvous.hpp"

#include "layout.hpp"

namespace gpemu::device {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): literals only.
using profile::Fault;
using profile::FaultKind;

TimePoint since_zero(Duration time) {
  return TimePoint(time);
}

/// A table of faults of a node that was made at 1 s.
class FaultTableTest : public testing::Test {
 protected:
  void add(const Fault& fault) { plan_.faults.push_back(fault); }
  [[nodiscard]] FaultTable table() const {
    return {plan_, since_zero(1s), {std::shared_ptr<void>(), records_.data()}};
  }
  /// Returns how long work of 10 ms takes on GPU 0 that starts so long after the node was made.
  [[nodiscard]] Duration time_of(Duration start) const {
    return table().time_of(0, since_zero(1s + start), 10ms);
  }

  profile::FaultPlan plan_;
  std::vector<layout::FaultRecord> records_{profile::kMostFaults};
};

TEST_F(FaultTableTest, ASlowGpuTakesLongerFromThenOn) {
  add({.kind = FaultKind::kSlow, .gpu = 0, .at = 100ms, .lasts = 50ms, .clock = 0.5});
  EXPECT_EQ(time_of(0ms), 10ms);
  EXPECT_EQ(time_of(90ms), 10ms);
  EXPECT_EQ(time_of(94ms), 14ms) << "4 of the 10 ms are left when it becomes slow";
  EXPECT_EQ(time_of(100ms), 20ms);
  EXPECT_EQ(time_of(130ms), 20ms);
  EXPECT_EQ(time_of(146ms), 12ms) << "2 of the 10 ms are done when it recovers";
  EXPECT_EQ(time_of(150ms), 10ms);
  EXPECT_EQ(table().time_of(1, since_zero(1s + 100ms), 10ms), 10ms) << "another GPU";
}

TEST_F(FaultTableTest, TheLowestClockCounts) {
  add({.kind = FaultKind::kSlow, .gpu = 0, .at = 0ms, .clock = 0.5});
  add({.kind = FaultKind::kSlow, .gpu = 0, .at = 10ms, .lasts = 20ms, .clock = 0.25});
  EXPECT_EQ(time_of(0ms), 30ms) << "5 ms of the work in 10 ms, and 5 ms in 20 ms";
  EXPECT_EQ(table().health(0, since_zero(1s)).clock, 0.5);
  EXPECT_EQ(table().health(0, since_zero(1s + 29ms)).clock, 0.25);
  EXPECT_EQ(table().health(0, since_zero(1s + 30ms)).clock, 0.5);
  EXPECT_EQ(table().health(1, since_zero(1s)).clock, 1);
}

TEST_F(FaultTableTest, WorkEndsWhenTheGpuIsLost) {
  add({.kind = FaultKind::kLost, .gpu = 0, .at = 5ms});
  EXPECT_EQ(time_of(0ms), 5ms);
  EXPECT_EQ(time_of(5ms), 0ms);
  EXPECT_EQ(time_of(9ms), 0ms);
  EXPECT_EQ(table().lost_from(0, since_zero(1s)), since_zero(1s + 5ms));
  EXPECT_EQ(table().lost_from(1, since_zero(1s)), TimePoint::max());
  EXPECT_FALSE(table().health(0, since_zero(1s + 4ms)).lost);
  EXPECT_TRUE(table().health(0, since_zero(1s + 5ms)).lost);
}

TEST_F(FaultTableTest, AGpuThatComesBackIsLostForThoseWhoUsedIt) {
  add({.kind = FaultKind::kLost, .gpu = 0, .at = 5ms, .lasts = 10ms});
  add({.kind = FaultKind::kLost, .gpu = 0, .at = 40ms});
  EXPECT_EQ(time_of(0ms), 5ms);
  EXPECT_EQ(time_of(5ms), 0ms);
  EXPECT_EQ(time_of(14ms), 0ms);
  EXPECT_EQ(time_of(15ms), 10ms) << "the work of a process that came later";
  EXPECT_EQ(time_of(35ms), 5ms);
  EXPECT_TRUE(table().health(0, since_zero(1s + 14ms)).lost);
  EXPECT_FALSE(table().health(0, since_zero(1s + 15ms)).lost);
  EXPECT_TRUE(table().health(0, since_zero(1s + 40ms)).lost);
  EXPECT_EQ(table().lost_from(0, since_zero(1s)), since_zero(1s + 5ms));
  EXPECT_EQ(table().lost_from(0, since_zero(1s + 14ms)), since_zero(1s + 5ms));
  EXPECT_EQ(table().lost_from(0, since_zero(1s + 15ms)), since_zero(1s + 40ms));
}

TEST_F(FaultTableTest, AFaultByCountBeginsWhenItHasBeenCounted) {
  add({.kind = FaultKind::kSlow, .gpu = 0, .at_collective = 5, .clock = 0.5});
  EXPECT_EQ(time_of(0ms), 10ms);
  records_[0].begun_ns = to_ns(since_zero(1s + 5ms));
  EXPECT_EQ(time_of(0ms), 15ms);
}

TEST_F(FaultTableTest, ProcessesThatComeLaterAreNotKilled) {
  add({.kind = FaultKind::kKill, .gpu = 0, .at = 5ms});
  EXPECT_EQ(table().killed_at(0, since_zero(1s)), since_zero(1s + 5ms));
  EXPECT_EQ(table().killed_at(0, since_zero(1s + 6ms)), TimePoint::max());
  EXPECT_EQ(table().killed_at(1, since_zero(1s)), TimePoint::max());
  EXPECT_FALSE(table().may_disturb(0));
}

TEST_F(FaultTableTest, AnIllegalAddressIsReportedOnceAKernelHasUsedIt) {
  add({.kind = FaultKind::kIllegalAddress, .gpu = 0, .at = 5ms});
  EXPECT_TRUE(table().has_any(0));
  EXPECT_FALSE(table().may_disturb(0));
  EXPECT_TRUE(table().xids(0, since_zero(1h)).empty()) << "its time has come, but no kernel";
  records_[0].begun_ns = to_ns(since_zero(1s + 7ms));
  const auto xids = table().xids(0, since_zero(1h));
  ASSERT_EQ(xids.size(), 1U);
  EXPECT_EQ(xids[0].number, 31);
  EXPECT_EQ(xids[0].time, since_zero(1s + 7ms));
}

TEST_F(FaultTableTest, ABrokenLinkStaysBrokenAndBothEndsReportIt) {
  add({.kind = FaultKind::kBrokenLink,
       .gpu = 1,
       .at = 5ms,
       .link = profile::GpuLink::kNvlink,
       .peer = 2});
  add({.kind = FaultKind::kLost, .gpu = 2, .at = 8ms});
  const auto broken = [this](int device, int peer, Duration time) {
    return table().nvlink_is_broken(device, peer, since_zero(1s + time));
  };
  EXPECT_FALSE(broken(1, 2, 4ms));
  EXPECT_TRUE(broken(1, 2, 5ms));
  EXPECT_TRUE(broken(2, 1, 1h));
  EXPECT_FALSE(broken(1, 3, 5ms));
  EXPECT_FALSE(broken(1, -1, 5ms)) << "not all of its links";
  EXPECT_TRUE(table().has_any(2));
  EXPECT_FALSE(table().may_disturb(1));
  EXPECT_EQ(table().xids(1, since_zero(1s + 4ms)).size(), 0U);
  const auto seen = table().xids(2, since_zero(1s + 8ms));
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen[0].number, 74);
  EXPECT_EQ(seen[1].number, 79);
  EXPECT_EQ(seen[1].time, since_zero(1s + 8ms));
  EXPECT_EQ(table().xids(1, since_zero(1h)).size(), 1U);
}

TEST_F(FaultTableTest, ALinkIsSlowAtBothEndsForAWhile) {
  using profile::GpuLink;
  add({.kind = FaultKind::kSlowLink,
       .gpu = 1,
       .at = 5ms,
       .lasts = 5ms,
       .rate = 0.5,
       .link = GpuLink::kNvlink,
       .peer = 2});
  add({.kind = FaultKind::kSlowLink, .gpu = 0, .at = 5ms, .rate = 0.25, .link = GpuLink::kPcie});
  const auto share = [this](int device, int peer, GpuLink link, Duration time) {
    return table().link_share(device, peer, link, since_zero(1s + time));
  };
  EXPECT_EQ(share(1, 2, GpuLink::kNvlink, 4ms), 1);
  EXPECT_EQ(share(1, 2, GpuLink::kNvlink, 5ms), 0.5);
  EXPECT_EQ(share(2, 1, GpuLink::kNvlink, 5ms), 0.5);
  EXPECT_EQ(share(2, 1, GpuLink::kNvlink, 10ms), 1);
  EXPECT_EQ(share(1, 3, GpuLink::kNvlink, 5ms), 1);
  EXPECT_EQ(share(1, 2, GpuLink::kPcie, 5ms), 1);
  EXPECT_EQ(share(0, -1, GpuLink::kPcie, 5ms), 0.25);
  EXPECT_EQ(share(3, 0, GpuLink::kPcie, 5ms), 0.25);
  EXPECT_EQ(share(3, -1, GpuLink::kPcie, 5ms), 1);
  EXPECT_FALSE(table().may_disturb(0));
  EXPECT_TRUE(table().has_any(3)) << "its copies from GPU 0";
}

TEST_F(FaultTableTest, DamagedRecordsDoNoHarm) {
  add({.kind = FaultKind::kSlow, .gpu = 0, .at_collective = 5, .lasts = 10ms, .clock = 0.5});
  for (const std::int64_t damage : {std::numeric_limits<std::int64_t>::min(), std::int64_t{-1},
                                    std::numeric_limits<std::int64_t>::max()}) {
    records_[0].begun_ns = damage;
    EXPECT_EQ(time_of(0ms), 10ms) << damage;
  }
}

/// A private node of two devices on virtual time, whose faults are counted from 0.
struct FaultyNode {
  explicit FaultyNode(const std::string& faults)
      : node(Node::create_private({.name = "faulty",
                                   .devices = {{.gpu = "A", .memory_bytes = kMiB},
                                               {.gpu = "A", .memory_bytes = kMiB}},
                                   .faults = faults})
                 .value()) {}

  sim::VirtualClock clock;
  std::shared_ptr<Node> node;
  std::unique_ptr<Device> first = Device::open(node, 0, clock).value();
  std::unique_ptr<Device> second = Device::open(node, 1, clock).value();
};

constexpr const char* kSlowFrom5Ms =
    "[[fault]]\nkind = \"slow\"\ngpu = 0\nclock = 0.5\nat_s = 0.005\n";

TEST(FaultyNode, KernelsAreStretchedWhenTheyRunNotWhenTheyAreQueued) {
  FaultyNode faulty(kSlowFrom5Ms);
  for (Device* const device : {faulty.first.get(), faulty.second.get()}) {
    for (int i = 0; i < 4; ++i) device->default_stream().launch(2ms);
  }
  faulty.first->synchronize();
  // 5 ms of the 8 ms are done before.
  EXPECT_EQ(faulty.clock.now(), since_zero(11ms));
  EXPECT_EQ(faulty.second->default_stream().last_end().time(), since_zero(8ms));
}

TEST(FaultyNode, WorkThatIsPlacedAgainIsStretchedWhereItRuns) {
  FaultyNode faulty(kSlowFrom5Ms);
  const auto other = faulty.first->create_stream(StreamKind::kNonBlocking);
  const auto late = faulty.first->create_stream(StreamKind::kNonBlocking);
  other->wait(Moment(since_zero(4ms)));
  other->launch(4ms);
  // Puts that off until after the GPU has become slow.
  late->launch(6ms);
  other->synchronize();
  EXPECT_EQ(late->last_end().time(), since_zero(7ms));
  EXPECT_EQ(faulty.clock.now(), since_zero(15ms));
}

TEST(FaultyNode, CopiesTakeAsLongAsBefore) {
  FaultyNode faulty(kSlowFrom5Ms);
  faulty.first->default_stream().copy(Engine::kCopyHostToDevice, 1, 10ms);
  faulty.first->synchronize();
  EXPECT_EQ(faulty.clock.now(), since_zero(10ms));
}

TEST(FaultyNode, ACollectiveBeginsAFault) {
  FaultyNode faulty(
      "[[fault]]\nkind = \"slow\"\ngpu = 0\nclock = 0.5\nat_collective = 3\n"
      "[[fault]]\nkind = \"kill\"\ngpu = 1\nat_collective = 2\n");
  faulty.first->default_stream().launch(1ms);
  faulty.first->default_stream().launch(8ms);
  EXPECT_FALSE(faulty.node->faults().count_collective(0, faulty.clock.now()));
  EXPECT_FALSE(faulty.node->faults().count_collective(0, faulty.clock.now()));
  EXPECT_FALSE(faulty.node->faults().count_collective(1, faulty.clock.now()));
  EXPECT_EQ(faulty.first->default_stream().last_end().time(), since_zero(9ms));
  EXPECT_FALSE(faulty.node->faults().count_collective(0, faulty.clock.now()));
  // The first kernel has started; the second one is queued, and takes twice as long now.
  EXPECT_EQ(faulty.first->default_stream().last_end().time(), since_zero(17ms));
  EXPECT_TRUE(faulty.node->faults().count_collective(1, faulty.clock.now()));
  EXPECT_FALSE(faulty.node->faults().count_collective(1, faulty.clock.now())) << "only once";
  EXPECT_EQ(faulty.node->device_snapshot(0, since_zero(1ms)).health.clock, 0.5);
}

/// Two parties, each on a device of its own.
struct FaultyPair : FaultyNode {
  explicit FaultyPair(const std::string& faults)
      : FaultyNode(faults), group(Rendezvous::create_group(*node, 2).value()) {}

  GroupId group;
  std::unique_ptr<Rendezvous> one = Rendezvous::join(node, group, 0, clock).value();
  std::unique_ptr<Rendezvous> two = Rendezvous::join(node, group, 1, clock).value();
};

TEST(FaultyNode, OthersWaitForASlowGpu) {
  FaultyPair faulty(kSlowFrom5Ms);
  Moment last;
  for (int round = 0; round < 3; ++round) {
    faulty.first->default_stream().launch(3ms);
    faulty.second->default_stream().launch(3ms);
    static_cast<void>(faulty.one->arrive(faulty.first->default_stream(), 1ms, {}).value());
    last = faulty.two->arrive(faulty.second->default_stream(), 1ms, {}).value();
  }
  last.wait(faulty.clock);
  // 0-3, 3-4; 4-5 as usual and 5-9 slowly, 9-10; 10-16, 16-17.
  EXPECT_EQ(faulty.clock.now(), since_zero(17ms));
}

TEST(FaultyNode, ALostGpuNeverArrives) {
  FaultyPair faulty("[[fault]]\nkind = \"lost\"\ngpu = 0\nat_s = 0.005\n");
  faulty.first->default_stream().launch(8ms);
  const Moment lost = faulty.one->arrive(faulty.first->default_stream(), 1ms, {}).value();
  const Moment peer = faulty.two->arrive(faulty.second->default_stream(), 1ms, {}).value();
  const auto waited = faulty.two->wait(peer, 1s);
  ASSERT_FALSE(waited);
  EXPECT_EQ(waited.error().code, ErrorCode::kNotReady);
  EXPECT_EQ(faulty.clock.now(), since_zero(1s));
  EXPECT_TRUE(lost.is_open());
  EXPECT_TRUE(faulty.node->device_snapshot(0, faulty.clock.now()).health.lost);
  EXPECT_EQ(faulty.node->faults().lost_from(0, since_zero(0ms)), since_zero(5ms));
}

TEST(FaultyNode, AFileKeepsItsFaults) {
  const auto folder =
      std::filesystem::path(testing::TempDir()) / fmt::format("gpemu_faults_test_{}", ::getpid());
  const auto node = Node::create({.name = "n",
                                  .devices = {{.gpu = "A", .memory_bytes = kMiB}},
                                  .faults = "[[fault]]\nkind = \"lost\"\ngpu = 0\nat_s = 0\n"
                                            "[[fault]]\nkind = \"slow\"\ngpu = 0\nclock = 0.5\n"
                                            "at_collective = 1\n"},
                                 folder)
                        .value();
  const auto other = Node::open("n", folder).value();
  const auto view = NodeView::open("n", folder).value();
  EXPECT_TRUE(other->faults().has_any(0));
  EXPECT_EQ(other->faults().lost_from(0, TimePoint{}), node->faults().lost_from(0, TimePoint{}));
  const auto health = [&view] {
    return view->device_snapshot(0, view->clock().now()).value().health;
  };
  EXPECT_TRUE(health().lost);
  EXPECT_EQ(health().clock, 1);
  EXPECT_FALSE(other->faults().count_collective(0, node->clock().now()));
  EXPECT_EQ(health().clock, 0.5);
  std::filesystem::remove_all(folder);
}

TEST(FaultyNode, FaultsThatCannotBeReadAreRefused) {
  const auto node = Node::create_private({.name = "faulty",
                                          .devices = {{.gpu = "A", .memory_bytes = kMiB}},
                                          .faults = "[[fault]]\nkind = \"lost\"\ngpu = 1\n"});
  ASSERT_FALSE(node);
  EXPECT_TRUE(node.error().message.starts_with("faults:3: fault: gpu: expected a whole number"))
      << node.error().message;
}

}  // namespace
}  // namespace gpemu::device
