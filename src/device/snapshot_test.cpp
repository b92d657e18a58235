// SPDX-License-Identifier: Apache-2.0
#include "snapshot.hpp"

#include <array>
#include <cstring>
#include <fcntl.h>
#include <limits>
#include <memory>
#include <string_view>
#include <sys/mman.h>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "lock_file.hpp"
#include "process_id.hpp"

namespace gpemu::device {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): literals only.

constexpr std::size_t kCompute = 0;
constexpr std::size_t kCopy = 1;

std::int64_t count(Duration time) {
  return time.count();
}

/// The tables of one device with three slots, in memory of the test.
class SnapshotTest : public testing::Test {
 protected:
  static constexpr std::size_t kSlots = 3;

  SnapshotTest() {
    for (std::size_t slot = 0; slot < kSlots; ++slot) {
      layout::ProcessRecord& process = processes_[slot];
      process.used = 1;
      process.pid = 100 + static_cast<std::int32_t>(slot);
      process.pid_namespace = own_pid_namespace();
      std::memcpy(process.name, "python", 7);
    }
    facts_.gpu = "A";
    facts_.memory_bytes = kMiB;
  }

  /// Queues work of a slot on an engine after all that is there.
  void queue(std::size_t slot, std::size_t engine, Duration busy, Bytes bytes = 0) {
    layout::HoldingRecord::Use& use = holdings_[slot].engines[engine];
    engines_[engine].tail_ns += busy.count();
    use.tail_ns = engines_[engine].tail_ns.load();
    use.queued.busy_ns += busy.count();
    ++use.queued.operations;
    use.queued.bytes += bytes;
  }
  void leave_gap(std::size_t engine, Duration idle) {
    layout::EngineRecord& record = engines_[engine];
    record.gaps[0].start_ns = record.tail_ns.load();
    record.tail_ns += idle.count();
    record.gaps[0].end_ns = record.tail_ns.load();
  }
  void hold(std::size_t slot, Bytes memory) {
    holdings_[slot].memory = memory;
    holdings_[slot].contexts = 1;
  }
  [[nodiscard]] DeviceTables tables() const {
    return {.engines = engines_, .processes = processes_, .holdings = holdings_};
  }
  [[nodiscard]] DeviceSnapshot at(Duration now) const {
    return make_snapshot(7, facts_, tables(), alive_, TimePoint(now));
  }

  std::array<layout::EngineRecord, kEngineCount> engines_{};
  std::array<layout::ProcessRecord, kSlots> processes_{};
  std::array<layout::HoldingRecord, kSlots> holdings_{};
  DeviceFacts facts_;
  Slots alive_{0b111};
};

TEST_F(SnapshotTest, OnlyLivingProcessesHoldMemory) {
  hold(0, 300 * kKiB);
  hold(1, 200 * kKiB);
  hold(2, 100 * kKiB);
  EXPECT_EQ(memory_held(holdings_, alive_), 600 * kKiB);
  alive_.reset(1);
  EXPECT_EQ(memory_held(holdings_, alive_), 400 * kKiB);
  EXPECT_EQ(memory_held(holdings_, {}), 0U);
  EXPECT_EQ(at(0us).memory_used, 400 * kKiB);
}

TEST_F(SnapshotTest, DamageShowsNoMoreMemoryThanTheDeviceHas) {
  hold(0, ~Bytes{0});
  hold(1, ~Bytes{0});
  EXPECT_EQ(memory_held(holdings_, alive_), ~Bytes{0}) << "the sum does not overflow";
  EXPECT_EQ(at(0us).memory_used, kMiB);
  EXPECT_EQ(at(0us).processes[0].memory_held, kMiB);
}

TEST_F(SnapshotTest, AnEngineIsNeededUntilTheLastWorkOfTheGivenSlots) {
  queue(0, kCompute, 10us);
  queue(1, kCompute, 5us);
  queue(2, kCopy, 40us);
  const auto until = [&](const Slots& slots, Duration now, Duration latest) {
    return Duration(needed_until(holdings_, slots, kCompute, count(now), count(latest)));
  };
  EXPECT_EQ(until(0b111, 1us, 1h), 15us);
  EXPECT_EQ(until(0b101, 1us, 1h), 10us);
  EXPECT_EQ(until(0b100, 1us, 1h), 1us) << "it uses another engine";
  EXPECT_EQ(until(0b111, 20us, 1h), 20us);
  EXPECT_EQ(until(0b111, 1us, 14us), 10us) << "what is later is damage";
}

TEST_F(SnapshotTest, WorkOfTheDeadIsAtMostWhatTheyQueuedAndWhatTheEngineHas) {
  queue(0, kCompute, 10us);
  queue(1, kCompute, 5us);
  const auto dead_work = [&](Duration from, Duration to) {
    return Duration(work_of_dead(tables(), alive_, kCompute, count(from), count(to)));
  };
  EXPECT_EQ(dead_work(0us, 15us), 0us) << "all live";
  alive_.reset(1);
  EXPECT_EQ(dead_work(0us, 15us), 5us) << "what it queued";
  EXPECT_EQ(dead_work(12us, 15us), 3us) << "what the engine has";
  processes_[1].used = 0;
  EXPECT_EQ(dead_work(0us, 15us), 0us) << "it gave up its slot, and its work runs";
}

TEST_F(SnapshotTest, CountsTheWorkThatIsDone) {
  queue(0, kCompute, 10us);
  leave_gap(kCompute, 4us);
  queue(1, kCompute, 6us);
  queue(1, kCopy, 3us, 64);
  engines_[kCompute].ended.busy_ns = count(1us);
  engines_[kCompute].ended.operations = 5;
  const auto busy = [&](Duration now) { return at(now).engines[kCompute].busy; };
  EXPECT_EQ(busy(0us), 1us);
  EXPECT_EQ(busy(7us), 8us);
  EXPECT_EQ(busy(12us), 11us) << "in the gap";
  EXPECT_EQ(busy(15us), 12us);
  EXPECT_EQ(busy(1h), 17us);
  const DeviceSnapshot snapshot = at(0us);
  EXPECT_EQ(snapshot.engines[kCompute].operations, 7U);
  EXPECT_EQ(snapshot.engines[kCompute].idle_from, TimePoint(20us));
  EXPECT_EQ(snapshot.engines[kCopy].operations, 1U);
  EXPECT_EQ(snapshot.engines[kCopy].bytes, 64U);
  EXPECT_EQ(snapshot.index, 7);
  EXPECT_EQ(snapshot.gpu, "A");
}

TEST_F(SnapshotTest, DropsTheWorkOfTheDead) {
  queue(0, kCompute, 10us);
  queue(1, kCompute, 1h);
  EXPECT_EQ(at(4us).engines[kCompute].idle_from, TimePoint(1h + 10us));
  alive_.reset(1);
  EXPECT_EQ(at(4us).engines[kCompute].idle_from, TimePoint(10us));
  EXPECT_EQ(at(4us).engines[kCompute].busy, 4us);
  EXPECT_EQ(at(10us).engines[kCompute].busy, 10us);
}

TEST_F(SnapshotTest, ShowsTheLivingProcessesThatUseTheDevice) {
  hold(0, 300 * kKiB);
  hold(1, 200 * kKiB);
  queue(0, kCompute, 10us);
  alive_.reset(1);
  const DeviceSnapshot snapshot = at(4us);
  ASSERT_EQ(snapshot.processes.size(), 1U) << "the second is dead, the third has no context";
  EXPECT_EQ(snapshot.processes[0].pid, 100);
  EXPECT_EQ(snapshot.processes[0].memory_held, 300 * kKiB);
  EXPECT_EQ(snapshot.processes[0].busy[kCompute], 4us);
}

TEST_F(SnapshotTest, NumbersWithoutSenseDoNoHarm) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  for (const std::int64_t number : {kMost, kLeast, std::int64_t{-1}}) {
    for (layout::EngineRecord& engine : engines_) {
      engine.tail_ns = number;
      engine.ended.busy_ns = number;
      engine.gaps[0].start_ns = kLeast;
      engine.gaps[0].end_ns = number;
    }
    for (layout::HoldingRecord& holding : holdings_) {
      holding.contexts = 1;
      holding.engines[kCompute].tail_ns = number;
      holding.engines[kCompute].queued.busy_ns = number;
    }
    for (const Slots& alive : {Slots(0b111), Slots(0b010), Slots()}) {
      alive_ = alive;
      for (const EngineSnapshot& engine : at(5us).engines) {
        EXPECT_GE(engine.busy, 0us);
        EXPECT_GE(engine.idle_from, TimePoint());
      }
    }
  }
}

TEST_F(SnapshotTest, DescribesAProcessByPidAndName) {
  EXPECT_EQ(describe(process_of(processes_[0])), "process 100 (python)");
  processes_[0].pid_namespace = own_pid_namespace() + 1;
  EXPECT_EQ(describe(process_of(processes_[0])),
            fmt::format("process 100 of pid namespace {} (python)", own_pid_namespace() + 1));
}

TEST_F(SnapshotTest, TheNameOfAProcessIsPrintableWhateverItsRecordSays) {
  std::memset(processes_[0].name, '\x1b', sizeof processes_[0].name);
  const std::string name = process_of(processes_[0]).name;
  EXPECT_FALSE(name.empty());
  EXPECT_EQ(name.find('\x1b'), std::string::npos);
}

TEST(SlotsAlive, AreThoseWhoseLocksAreHeldAndTheOwn) {
  const FileDescriptor memory(::memfd_create("gpemu_snapshot_test", MFD_CLOEXEC));
  const auto open = [&memory] {
    const ForkHold hold;
    return std::make_unique<LockFile>(
        FileDescriptor(
            ::open(fmt::format("/proc/self/fd/{}", memory.get()).c_str(), O_RDWR | O_CLOEXEC)),
        hold);
  };
  const auto own = open();
  auto other = open();
  ASSERT_TRUE(own->lock(layout::kAliveLocks + 3));
  ASSERT_TRUE(other->lock(layout::kAliveLocks + 0));
  ASSERT_TRUE(other->lock(layout::kAliveLocks + layout::kProcessCapacity - 1));
  ASSERT_TRUE(other->lock(layout::kTakenLocks + 5)) << "the slot's records do not count yet";
  Slots expected;
  expected.set(0).set(3).set(layout::kProcessCapacity - 1);
  EXPECT_EQ(slots_alive(own->get(), 3), expected);
  EXPECT_EQ(slots_alive(own->get(), -1), expected.reset(3)) << "nobody sees their own locks";
  other.reset();
  EXPECT_EQ(slots_alive(own->get(), -1), Slots());
}

}  // namespace
}  // namespace gpemu::device
