// SPDX-License-Identifier: Apache-2.0
#include "segment.hpp"

#include <filesystem>
#include <memory>
#include <set>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace gpemu::device {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): literals only.

/// A node to which this process attaches twice, each time as if it were another process.
class SegmentTest : public testing::Test {
 protected:
  SegmentTest() {
    std::filesystem::remove_all(folder_);
    first_ = create();
    second_ = open();
  }
  ~SegmentTest() override {
    second_.reset();
    first_.reset();
    std::filesystem::remove_all(folder_);
  }

  [[nodiscard]] std::unique_ptr<Segment> create(SharingPolicy policy = SharingPolicy::kFifo) {
    return Segment::create_file(
               {.name = "n",
                .devices = {{.gpu = "A", .memory_bytes = kMiB}, {.gpu = "B", .memory_bytes = kMiB}},
                .policy = policy},
               folder_, &clock_)
        .value();
  }
  [[nodiscard]] std::unique_ptr<Segment> open() {
    return Segment::open_file(resolve("n", folder_).value(), &clock_).value();
  }
  /// Queues work on an engine of the first device for an attachment, until `end`.
  static void queue_until(Segment& segment, Duration end) {
    layout::HoldingRecord::Use& use = segment.own_holding(0).engines[0];
    layout::EngineRecord& engine = segment.engines(0)[0];
    use.queued.busy_ns += end.count() - engine.tail_ns;
    use.tail_ns = end.count();
    engine.tail_ns = end.count();
  }
  [[nodiscard]] static Duration tail(const Segment& segment) {
    return Duration(segment.engines(0)[0].tail_ns);
  }

  sim::VirtualClock clock_;
  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / fmt::format("gpemu_segment_test_{}", ::getpid());
  std::unique_ptr<Segment> first_;
  std::unique_ptr<Segment> second_;
};

// ---- Engine time

TEST_F(SegmentTest, AProcessThatEndsGivesBackTheTimeInWhichItsWorkHasNotRun) {
  queue_until(*first_, 3ms);
  queue_until(*second_, 1h);
  clock_.wait_until(TimePoint(5ms));
  second_.reset();
  EXPECT_EQ(tail(*first_), 5ms);
  EXPECT_EQ(first_->snapshot(0, TimePoint(5ms)).engines[0].busy, 5ms) << "what has run counts";
  EXPECT_EQ(first_->snapshot(0, TimePoint(2h)).engines[0].busy, 5ms) << "and no more";
}

TEST_F(SegmentTest, WhenAProcessEndsTheOthersKeepTheirTime) {
  queue_until(*second_, 3ms);
  queue_until(*first_, 8ms);
  queue_until(*second_, 1h);
  clock_.wait_until(TimePoint(5ms));
  second_.reset();
  EXPECT_EQ(tail(*first_), 8ms);
}

TEST_F(SegmentTest, AProcessThatTakesTheSlotOfADeadOneDropsItsWork) {
  queue_until(*first_, 3ms);
  const pid_t child = ::fork();
  if (child == 0) {
    Segment* const own = open().release();  // As if it were killed.
    queue_until(*own, 1h);
    ::_exit(own->claims(0).take_memory(kMiB) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  clock_.wait_until(TimePoint(5ms));
  EXPECT_EQ(tail(*first_), 1h);
  const auto third = open();
  EXPECT_EQ(tail(*first_), 5ms);
  EXPECT_EQ(first_->snapshot(0, TimePoint(2h)).engines[0].busy, 5ms);
  EXPECT_EQ(third->memory_used(0), 0U);
}

TEST_F(SegmentTest, TrimsToTheLastWorkThatALivingProcessHas) {
  queue_until(*second_, 6ms);
  first_->engines(0)[0].tail_ns = Duration(1h).count();  // Of nobody.
  first_->trim(0, 0, TimePoint(1ms), Duration(9ms).count());
  EXPECT_EQ(tail(*first_), 9ms) << "its own";
  first_->trim(0, 0, TimePoint(1ms), 0);
  EXPECT_EQ(tail(*first_), 6ms) << "the other's";
  first_->trim(0, 0, TimePoint(2h), 0);
  EXPECT_EQ(tail(*first_), 6ms) << "a queue is never made longer";
}

TEST_F(SegmentTest, TrimsWorkThatNobodyCanHaveQueued) {
  queue_until(*second_, 30h);
  first_->trim(0, 0, TimePoint(1ms), 0);
  EXPECT_EQ(tail(*first_), 1ms);
}

TEST_F(SegmentTest, TrimsOnlyTheGivenEngine) {
  for (int device = 0; device < 2; ++device) {
    for (layout::EngineRecord& engine : first_->engines(device)) engine.tail_ns = 100;
  }
  first_->trim(1, 2, TimePoint(), 0);
  Duration sum{};
  for (int device = 0; device < 2; ++device) {
    for (const layout::EngineRecord& engine : first_->engines(device)) {
      sum += Duration(engine.tail_ns);
    }
  }
  EXPECT_EQ(Duration(first_->engines(1)[2].tail_ns), 0ns);
  EXPECT_EQ(sum, 500ns) << "of the other five";
}

// ---- Memory and contexts

TEST_F(SegmentTest, ProcessesShareTheMemoryOfADevice) {
  ASSERT_TRUE(first_->claims(0).take_memory(768 * kKiB));
  EXPECT_FALSE(second_->claims(0).take_memory(512 * kKiB));
  EXPECT_TRUE(second_->claims(0).take_memory(256 * kKiB));
  EXPECT_FALSE(second_->claims(0).take_memory(1));
  EXPECT_TRUE(second_->claims(1).take_memory(kMiB)) << "of another device";
  EXPECT_EQ(first_->memory_used(0), kMiB);
  EXPECT_EQ(first_->claims(0).memory(), 768 * kKiB);
  first_->claims(0).give_back_memory(512 * kKiB);
  EXPECT_EQ(second_->memory_used(0), 512 * kKiB);
  EXPECT_TRUE(second_->claims(0).take_memory(512 * kKiB));
}

TEST_F(SegmentTest, AProcessThatEndsGivesBackItsMemory) {
  ASSERT_TRUE(second_->claims(0).take_memory(kMiB));
  second_.reset();
  EXPECT_EQ(first_->memory_used(0), 0U);
  EXPECT_TRUE(first_->claims(0).take_memory(kMiB));
}

TEST_F(SegmentTest, OneProcessAtATimeUsesAnExclusiveDevice) {
  second_.reset();
  first_.reset();
  std::filesystem::remove_all(folder_);
  first_ = create();
  first_->settings(0).compute_mode = 3;
  first_->settings(1).compute_mode = 3;
  ASSERT_TRUE(first_->add_context(0));
  ASSERT_TRUE(first_->add_context(0)) << "its own second context";
  const auto as_another_process = [this](int device) {
    const pid_t child = ::fork();
    if (child == 0) {
      const auto added = open()->add_context(device);
      ::_exit(added ? 0 : added.error().code == ErrorCode::kUnavailable ? 1 : 2);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WEXITSTATUS(status);
  };
  EXPECT_EQ(as_another_process(0), 1);
  EXPECT_EQ(as_another_process(1), 0);
  first_->claims(0).remove_context();
  EXPECT_EQ(as_another_process(0), 1) << "it has one left";
  first_->claims(0).remove_context();
  EXPECT_EQ(as_another_process(0), 0);
}

TEST_F(SegmentTest, NoProcessUsesAProhibitedDevice) {
  ASSERT_TRUE(second_->add_context(0));
  first_->settings(0).compute_mode = static_cast<std::uint32_t>(ComputeMode::kProhibited);
  const auto refused = first_->add_context(0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_TRUE(refused.error().message.starts_with("device 0 of node 'n' is prohibited"))
      << refused.error().message;
  EXPECT_TRUE(first_->add_context(1)) << "the other device";
  second_->claims(0).remove_context();
  first_->settings(0).compute_mode = 0;
  EXPECT_TRUE(first_->add_context(0));
}

TEST_F(SegmentTest, AWrongSettingIsTheDefault) {
  first_->settings(0).compute_mode = 1;
  first_->settings(0).time_slice = 4;
  EXPECT_EQ(compute_mode_of(first_->settings(0)), ComputeMode::kDefault);
  EXPECT_EQ(first_->time_slice(0), TimeSliceLength::kDefault);
  first_->settings(0).compute_mode = 0x103;
  EXPECT_EQ(first_->snapshot(0, {}).compute_mode, ComputeMode::kDefault);
}

// ---- Who takes part

TEST_F(SegmentTest, AnAttachmentIsAliveUntilItEndsAndNeverAgain) {
  const std::uint64_t identity = second_->identity();
  EXPECT_NE(identity, first_->identity());
  EXPECT_TRUE(first_->is_alive(identity));
  EXPECT_TRUE(first_->is_alive(first_->identity()));
  EXPECT_TRUE(
      first_->describe_process(identity).starts_with(fmt::format("process {} ", ::getpid())));
  second_.reset();
  EXPECT_FALSE(first_->is_alive(identity));
  second_ = open();
  EXPECT_EQ(second_->identity() % layout::kProcessCapacity, identity % layout::kProcessCapacity)
      << "in the same slot";
  EXPECT_FALSE(first_->is_alive(identity));
  EXPECT_EQ(first_->describe_process(identity), "a process that has ended");
}

TEST_F(SegmentTest, SaysWhetherOthersTakePart) {
  EXPECT_TRUE(first_->all_others_among({::getpid()}));
  EXPECT_FALSE(first_->all_others_among({}));
  second_.reset();
  EXPECT_TRUE(first_->all_others_among({}));
}

TEST_F(SegmentTest, AForkedChildIsNotTheOwner) {
  EXPECT_TRUE(first_->check_owner());
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(first_->check_owner().error().code == ErrorCode::kUnavailable ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(AnonymousSegment, HasOneProcess) {
  const auto segment =
      Segment::create_anonymous({.name = "n", .devices = {{.gpu = "A", .memory_bytes = kMiB}}})
          .value();
  EXPECT_TRUE(segment->is_alive(segment->identity()));
  EXPECT_FALSE(segment->is_alive(segment->identity() + layout::kProcessCapacity));
  EXPECT_TRUE(segment->all_others_among({}));
  ASSERT_TRUE(segment->claims(0).take_memory(kMiB));
  EXPECT_EQ(segment->memory_used(0), kMiB);
  EXPECT_FALSE(segment->claims(0).take_memory(1));
}

}  // namespace
}  // namespace gpemu::device
