// SPDX-License-Identifier: Apache-2.0
#include "gpemu/train/trainer.hpp"

#include <deque>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/sim/clock.hpp"
#include "gpemu/sim/random.hpp"

namespace gpemu::train {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): literals only.

constexpr Bytes kCapacity = 1000 * kMiB;
const std::atomic<bool> kNoStop{false};

TimePoint at(Duration time) {
  return TimePoint(time);
}

/// What one batch of the fake source is like.
struct FakeBatch {
  Duration delay{};  ///< what the reader waits for it.
  Duration fetch{};
  Duration prep{};
  int epoch = 0;
  int corrupt = 0;
  bool on_device = false;
};

/// A source whose batches take a given time to come, on the virtual clock. It remembers when it was
/// asked and which buffers were still held then.
class FakeSource final : public BatchSource {
 public:
  FakeSource(sim::Clock& clock, std::vector<FakeBatch> batches)
      : clock_(clock), batches_(std::move(batches)) {}

  Result<std::optional<SourceBatch>> next() override {
    asked_at.push_back(clock_.now());
    held_when_asked.push_back(0);
    for (const auto& buffer : buffers_) held_when_asked.back() += buffer.expired() ? 0 : 1;
    if (taken_ == fail_at) return fail(ErrorCode::kIo, "cannot read the file");
    if (taken_ == batches_.size()) return std::nullopt;
    const FakeBatch& fake = batches_[taken_++];
    clock_.wait_until(clock_.now() + fake.delay);
    SourceBatch batch;
    batch.epoch = fake.epoch;
    batch.samples = 8;
    batch.on_device = fake.on_device;
    batch.work = {
        .fetch = fake.fetch, .prep = fake.prep, .bytes_read = 100, .corrupt = fake.corrupt};
    batch.buffer = std::make_shared<int>(0);
    buffers_.push_back(batch.buffer);
    if (taken_ == stop_at) stop = true;
    return batch;
  }

  std::vector<TimePoint> asked_at;
  std::vector<int> held_when_asked;
  std::size_t fail_at = SIZE_MAX;
  std::size_t stop_at = SIZE_MAX;  ///< raise the stop flag with this many batches taken.
  std::atomic<bool> stop{false};

 private:
  sim::Clock& clock_;
  std::vector<FakeBatch> batches_;
  std::size_t taken_ = 0;
  std::vector<std::weak_ptr<void>> buffers_;
};

/// GPUs in virtual time, and a plan of steps with 3 ms forward and 7 ms backward.
class TrainerTest : public testing::Test {
 protected:
  TrainerTest() {
    plan_.cost.forward.time = 3ms;
    plan_.cost.backward_optimizer = {.time = 7ms, .evidence = cost::Evidence::kInterpolated};
    plan_.cost.copy_pinned = {.time = 2ms, .evidence = cost::Evidence::kExtrapolated};
    plan_.cost.copy_pageable = {.time = 4ms};
    plan_.cost.memory = {.persistent = 100 * kMiB, .peak = 300 * kMiB, .reserved = 50 * kMiB};
    plan_.input_bytes = kMiB;
    add_gpus(1);
  }

  void add_gpus(int count, const char* faults = "") {
    plan_.gpus = count;
    plan_.gpus_per_node = count;
    device::NodeConfig config{.name = "test", .faults = faults};
    config.devices.resize(static_cast<std::size_t>(count),
                          {.gpu = "TEST-GPU", .memory_bytes = kCapacity});
    devices_.clear();
    pointers_.clear();
    node_ = device::Node::create_private(config).value();
    for (int i = 0; i < count; ++i) {
      devices_.push_back(device::Device::open(node_, i, clock_).value());
      pointers_.push_back(devices_.back().get());
    }
  }

  TrainResult run(BatchSource& source, const std::atomic<bool>& stop = kNoStop,
                  const Trainer::Observer& observer = {}) {
    set_parts();
    return Trainer::create(plan_, options_, pointers_)->run(source, stop, observer).value();
  }

  /// After the computation, the GPUs exchange their gradients.
  void set_parts() {
    if (has_own_parts_) return;
    plan_.parts = compute_parts(plan_.cost);
    if (plan_.gpus > 1) {
      plan_.parts.push_back({.name = "all-reduce", .exchange = true, .cost = all_reduce_});
    }
  }

  TrainResult run_fake(std::vector<FakeBatch> batches) {
    FakeSource source(clock_, std::move(batches));
    return run(source);
  }

  sim::VirtualClock clock_;
  std::shared_ptr<device::Node> node_;
  std::vector<std::unique_ptr<device::Device>> devices_;
  std::vector<device::Device*> pointers_;
  StepPlan plan_;
  bool has_own_parts_ = false;
  cost::Estimate all_reduce_;
  TrainOptions options_;
};

TEST_F(TrainerTest, RunsSyntheticStepsBackToBack) {
  SyntheticSource source(8, 5);
  const TrainResult result = run(source);
  EXPECT_EQ(result.elapsed, 50ms);
  ASSERT_EQ(result.steps.size(), 5);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(result.steps.spans()[static_cast<std::size_t>(i)].end, at(10ms * (i + 1)));
    EXPECT_EQ(result.steps.spans()[static_cast<std::size_t>(i)].observed_end, at(10ms * (i + 1)));
  }
  EXPECT_EQ(result.samples, 40);
  EXPECT_EQ(result.gpus.front(), (TimeBreakdown{.compute = 50ms}));
  EXPECT_FALSE(result.stopped);
}

TEST_F(TrainerTest, OrdersAPinnedCopyWithComputeOfTheSameStream) {
  const TrainResult result = run_fake({{}, {}, {}});
  EXPECT_EQ(result.elapsed, 36ms);
  EXPECT_EQ(result.gpus.front(), (TimeBreakdown{.compute = 30ms, .copy = 6ms}));
}

TEST_F(TrainerTest, HidesACopyThatOverlapsWithCompute) {
  options_.overlap_copy = true;
  const TrainResult result = run_fake({{}, {}, {}});
  EXPECT_EQ(result.elapsed, 32ms);
  EXPECT_EQ(result.gpus.front(), (TimeBreakdown{.compute = 30ms, .copy = 2ms}));
}

TEST_F(TrainerTest, IsBoundByAnOverlappingCopyThatIsLongerThanCompute) {
  options_.overlap_copy = true;
  plan_.cost.copy_pinned.time = 15ms;
  const TrainResult result = run_fake({{}, {}, {}});
  EXPECT_EQ(result.elapsed, 55ms);
  EXPECT_EQ(result.gpus.front(), (TimeBreakdown{.compute = 30ms, .copy = 25ms}));
}

TEST_F(TrainerTest, BlocksTheHostDuringAPageableCopy) {
  options_.pinned = false;
  FakeSource source(clock_, {{}, {}, {}});
  const TrainResult result = run(source);
  EXPECT_EQ(result.elapsed, 42ms);
  EXPECT_EQ(result.gpus.front(), (TimeBreakdown{.compute = 30ms, .copy = 12ms}));
  EXPECT_EQ(source.asked_at, (std::vector{at(0ms), at(4ms), at(18ms), at(32ms)}))
      << "the next batch is asked for once the copy has ended";
}

TEST_F(TrainerTest, RunsAheadByTwoSteps) {
  FakeSource source(clock_, {{}, {}, {}, {}});
  plan_.cost.copy_pinned.time = 0ms;
  static_cast<void>(run(source));
  EXPECT_EQ(source.asked_at, (std::vector{at(0ms), at(0ms), at(10ms), at(20ms), at(30ms)}));
}

TEST_F(TrainerTest, RunsFurtherAheadWhileBatchesAreOnTheDevice) {
  options_.queued_time = 35ms;
  FakeSource source(clock_, std::vector<FakeBatch>(6, {.on_device = true}));
  EXPECT_EQ(run(source).elapsed, 60ms);
  EXPECT_EQ(source.asked_at,
            (std::vector{at(0ms), at(0ms), at(0ms), at(0ms), at(10ms), at(20ms), at(30ms)}));
}

TEST_F(TrainerTest, HidesTheLoaderBehindComputeWhileItIsFaster) {
  plan_.cost.copy_pinned.time = 0ms;
  const TrainResult result =
      run_fake({{}, {.delay = 9ms, .prep = 1ms}, {.delay = 9ms, .prep = 1ms}});
  EXPECT_EQ(result.gpus.front(), (TimeBreakdown{.compute = 30ms}));
}

TEST_F(TrainerTest, AttributesWaitingToFetchAndPrep) {
  plan_.cost.copy_pinned.time = 0ms;
  const FakeBatch slow{.delay = 30ms, .fetch = 10ms, .prep = 20ms};
  const TrainResult result = run_fake({slow, slow, slow});
  // The GPU waits 30 ms for the first batch and, after 10 ms of compute, 20 ms for the others.
  EXPECT_EQ(result.elapsed, 100ms);
  const TimeBreakdown& time = result.gpus.front();
  EXPECT_EQ(time.compute, 30ms);
  EXPECT_EQ(time.fetch_wait, 10ms + 2 * 6666667ns);
  EXPECT_EQ(time.fetch_wait + time.prep_wait, 70ms);
  EXPECT_EQ(result.steps.spans()[1].fetch_wait + result.steps.spans()[1].prep_wait, 20ms);
  EXPECT_EQ(result.steady_time().total(), 60ms);
  EXPECT_DOUBLE_EQ(result.steady_samples_per_s(), 16 / 0.06);
  EXPECT_EQ(result.work.prep, 60ms);
  EXPECT_EQ(result.work.bytes_read, 300U);
}

TEST_F(TrainerTest, ExchangesGradientsOnceTheSlowestGpuIsDone) {
  add_gpus(2);
  all_reduce_ = {.time = 4ms, .evidence = cost::Evidence::kAnalytic};
  devices_[1]->create_stream()->launch(5ms);  // Somebody else's work on the second GPU.
  SyntheticSource source(8, 2);
  const TrainResult result = run(source);
  EXPECT_EQ(result.elapsed, 33ms);
  EXPECT_EQ(result.steps.spans()[0].end, at(19ms));
  EXPECT_EQ(result.gpus[0], (TimeBreakdown{.compute = 20ms, .communication = 8ms, .other = 5ms}));
  EXPECT_EQ(result.gpus[1], result.gpus[0]);
}

TEST_F(TrainerTest, ExchangesBucketsBesideTheBackwardPass) {
  add_gpus(2);
  has_own_parts_ = true;
  plan_.parts = {{.name = "forward", .cost = {.time = 3ms}},
                 {.name = "backward", .cost = {.time = 6ms}},
                 {.name = "all-reduce", .exchange = true, .cost = {.time = 2ms}, .before_end = 5ms},
                 {.name = "all-reduce", .exchange = true, .cost = {.time = 4ms}, .before_end = 2ms},
                 {.name = "optimizer", .cost = {.time = 1ms}}};
  SyntheticSource source(8, 3);
  std::vector<std::vector<device::Interval>> exchanges;
  const TrainResult result =
      run(source, kNoStop, [&](const ObservedStep& step) { exchanges.push_back(step.exchanges); });
  // The second bucket is there at 7 ms and exchanged from 7 to 11 ms; the backward pass ends at 9.
  EXPECT_EQ(result.elapsed, 36ms);
  EXPECT_EQ(result.gpus[0],
            (TimeBreakdown{.compute = 30ms, .communication = 6ms, .hidden_communication = 12ms}));
  EXPECT_EQ(result.gpus[1], result.gpus[0]);
  EXPECT_EQ(exchanges[0][0].start, at(4ms));
  EXPECT_EQ(exchanges[0][1].start, at(7ms));
  EXPECT_EQ(exchanges[0][1].end, at(11ms));
}

TEST_F(TrainerTest, LetsOthersWaitForTheFirstGpu) {
  add_gpus(3);
  has_own_parts_ = true;
  plan_.parts = {{.name = "replicate", .exchange = true, .cost = {.time = 1ms}},
                 {.name = "forward", .cost = {.time = 3ms}},
                 {.name = "optimizer", .first_gpu_only = true, .cost = {.time = 2ms}}};
  SyntheticSource source(9, 2);
  const TrainResult result = run(source);
  EXPECT_EQ(result.elapsed, 12ms);
  EXPECT_EQ(result.gpus[0], (TimeBreakdown{.compute = 10ms, .communication = 2ms}));
  EXPECT_EQ(result.gpus[1], (TimeBreakdown{.compute = 6ms, .communication = 2ms, .other = 4ms}));
}

/// On three GPUs, 10 ms of computation and an all-reduce of 4 ms, which takes 8 at half the rate.
class FaultyTrainerTest : public TrainerTest {
 protected:
  TrainResult run_with(const char* faults, int steps) {
    add_gpus(3, faults);
    plan_.link = profile::GpuLink::kNvlink;
    has_own_parts_ = true;
    plan_.parts = {{.name = "compute", .cost = {.time = 10ms}},
                   {.name = "all-reduce",
                    .exchange = true,
                    .cost = {.time = 4ms},
                    .at_link_share = [](double share) { return from_milliseconds(4 / share); }}};
    SyntheticSource source(9, steps);
    return run(source);
  }
};

TEST_F(FaultyTrainerTest, NamesTheGpuThatIsSlow) {
  const TrainResult result =
      run_with("[[fault]]\nkind = \"slow\"\ngpu = 1\nclock = 0.5\nat_s = 0\n", 2);
  EXPECT_EQ(result.elapsed, 48ms);
  EXPECT_EQ(result.gpus[1], (TimeBreakdown{.compute = 40ms, .communication = 8ms}));
  EXPECT_EQ(result.gpus[2], (TimeBreakdown{.compute = 20ms, .communication = 8ms, .other = 20ms}));
  EXPECT_EQ(result.waited_for, (std::vector<Duration>{0ms, 20ms, 0ms}));
  EXPECT_FALSE(result.failure);
}

TEST_F(FaultyTrainerTest, AGpuIsSlowOnlyWhileTheFaultLasts) {
  const TrainResult result = run_with(
      "[[fault]]\nkind = \"slow\"\ngpu = 1\nclock = 0.5\nat_s = 0.019\nfor_s = 0.002\n", 3);
  EXPECT_EQ(result.elapsed, 43ms);
  EXPECT_EQ(result.waited_for[1], 1ms);
}

TEST_F(FaultyTrainerTest, ExchangesTakeLongerOverASlowLink) {
  const TrainResult result = run_with(
      "[[fault]]\nkind = \"slow-link\"\ngpu = 0\nlink = \"nvlink\"\nrate = 0.5\nat_s = 0.02\n", 2);
  EXPECT_EQ(result.elapsed, 14ms + 18ms);
}

TEST_F(FaultyTrainerTest, LinksThatTheRunDoesNotUseMakeNoDifference) {
  const TrainResult result = run_with(
      "[[fault]]\nkind = \"slow-link\"\ngpu = 0\nlink = \"pcie\"\nrate = 0.5\nat_s = 0\n", 1);
  EXPECT_EQ(result.elapsed, 14ms);
}

TEST_F(FaultyTrainerTest, EndsWhenARankIsKilled) {
  const TrainResult result = run_with("[[fault]]\nkind = \"kill\"\ngpu = 2\nat_s = 0.035\n", 9);
  ASSERT_TRUE(result.failure);
  EXPECT_EQ(result.failure->kind, profile::FaultKind::kKill);
  EXPECT_EQ(result.failure->gpu, 2);
  EXPECT_EQ(result.failure->time, at(35ms));
  EXPECT_EQ(result.steps.size(), 2) << "the third would have ended at 42 ms";
  EXPECT_EQ(result.elapsed, 28ms);
  EXPECT_EQ(clock_.now(), at(35ms));
}

TEST_F(FaultyTrainerTest, EndsWhenAGpuIsLostAtACollective) {
  const TrainResult result =
      run_with("[[fault]]\nkind = \"lost\"\ngpu = 0\nat_collective = 3\n", 9);
  ASSERT_TRUE(result.failure);
  EXPECT_EQ(result.failure->kind, profile::FaultKind::kLost);
  EXPECT_EQ(result.failure->time, at(38ms)) << "when the third exchange would begin";
  EXPECT_EQ(result.steps.size(), 2);
}

TEST_F(FaultyTrainerTest, EndsAtTheFirstExchangeOverABrokenLink) {
  const TrainResult result = run_with(
      "[[fault]]\nkind = \"broken-link\"\ngpu = 1\nlink = \"nvlink\"\npeer = 2\nat_s = 0.012\n", 9);
  ASSERT_TRUE(result.failure);
  EXPECT_EQ(result.failure->kind, profile::FaultKind::kBrokenLink);
  EXPECT_EQ(result.failure->time, at(24ms)) << "the exchange from 10 to 14 ms had begun";
  EXPECT_EQ(result.steps.size(), 1);
}

TEST_F(FaultyTrainerTest, ASlowGpuHasItsDataLater) {
  add_gpus(2, "[[fault]]\nkind = \"slow\"\ngpu = 1\nclock = 0.5\nat_s = 0\n");
  has_own_parts_ = true;
  plan_.parts = {
      {.name = "backward", .cost = {.time = 10ms}},
      {.name = "all-reduce", .exchange = true, .cost = {.time = 1ms}, .before_end = 4ms}};
  std::vector<device::Interval> exchanges;
  SyntheticSource source(8, 1);
  const TrainResult result =
      run(source, kNoStop, [&](const ObservedStep& step) { exchanges = step.exchanges; });
  EXPECT_EQ(exchanges.at(0).start, at(12ms)) << "at three fifths of 20 ms";
  EXPECT_EQ(result.waited_for[1], 2ms) << "the other one computes until 10 ms";
}

/// A plan with random parts, of which some may be the first GPU's alone.
std::vector<StepPart> random_parts(sim::Rng& rng, bool may_differ) {
  const auto random_time = [&rng] { return Duration(rng.below(20'000'000)); };
  std::vector<StepPart> parts;
  Duration before{};
  for (int i = 0; i < 8; ++i) {
    StepPart part{.name = "part", .exchange = rng.below(2) == 0, .cost = {.time = random_time()}};
    if (part.exchange) {
      part.before_end = Duration(rng.below(before.count() + 1));
    } else {
      part.first_gpu_only = may_differ && rng.below(3) == 0;
      before = part.cost.time;
    }
    parts.push_back(part);
  }
  return parts;
}

void expect_same(const TrainResult& one, const TrainResult& other) {
  EXPECT_EQ(one.elapsed, other.elapsed);
  EXPECT_EQ(one.gpus, other.gpus);
  EXPECT_EQ(one.first_step, other.first_step);
  EXPECT_EQ(one.evidence, other.evidence);
  ASSERT_EQ(one.steps.size(), other.steps.size());
  for (std::size_t i = 0; i < one.steps.spans().size(); ++i) {
    EXPECT_EQ(one.steps.spans()[i].end - one.start, other.steps.spans()[i].end - other.start);
    EXPECT_EQ(one.steps.spans()[i].observed_end - one.start,
              other.steps.spans()[i].observed_end - other.start);
    EXPECT_EQ(one.steps.spans()[i].fetch_wait, other.steps.spans()[i].fetch_wait);
  }
}

TEST_F(TrainerTest, OneDeviceStandsForAllThatAreAlikeToTheNanosecond) {
  sim::Rng rng(11);
  has_own_parts_ = true;
  for (int variant = 0; variant < 40; ++variant) {
    const int gpus = 2 + variant % 7;
    options_.pinned = variant % 3 != 0;
    options_.overlap_copy = options_.pinned && variant % 2 == 0;
    plan_.cost.copy_pinned.time = Duration(rng.below(9'000'000));
    plan_.parts = random_parts(rng, variant % 4 < 2);
    std::vector<FakeBatch> batches(12);
    for (FakeBatch& batch : batches) {
      batch = {.delay = Duration(rng.below(20'000'000)),
               .fetch = Duration(rng.below(9'000)),
               .prep = Duration(rng.below(9'000)),
               .on_device = variant % 5 == 0};
    }
    add_gpus(gpus);
    const TrainResult each = run_fake(batches);
    add_gpus(plan_.distinct_gpus());
    plan_.gpus = gpus;
    expect_same(each, run_fake(batches));
  }
}

/// The virtual clock, which counts how often the time is read: once for each call of a stream.
class CountingClock final : public sim::Clock {
 public:
  [[nodiscard]] TimePoint now() const override {
    ++reads;
    return time_;
  }
  void wait_until(TimePoint deadline) override { time_ = std::max(time_, deadline); }
  void wait_for_change(const std::atomic<std::uint32_t>&, std::uint32_t, TimePoint) override {}
  [[nodiscard]] bool runs_by_itself() const override { return false; }

  mutable std::int64_t reads = 0;

 private:
  TimePoint time_{};
};

/// Returns how often a run of ten steps with buckets reads the time.
std::int64_t clock_reads(int gpus, int device_count) {
  CountingClock clock;
  device::NodeConfig config{.name = "count"};
  config.devices.resize(static_cast<std::size_t>(device_count),
                        {.gpu = "TEST-GPU", .memory_bytes = kCapacity});
  const auto node = device::Node::create_private(config).value();
  std::vector<std::unique_ptr<device::Device>> devices;
  std::vector<device::Device*> pointers;
  for (int i = 0; i < device_count; ++i) {
    devices.push_back(device::Device::open(node, i, clock).value());
    pointers.push_back(devices.back().get());
  }
  StepPlan plan{.gpus = gpus};
  plan.parts = {{.name = "backward", .cost = {.time = 6ms}},
                {.name = "all-reduce", .exchange = true, .cost = {.time = 2ms}, .before_end = 5ms},
                {.name = "all-reduce", .exchange = true, .cost = {.time = 4ms}, .before_end = 2ms},
                {.name = "optimizer", .cost = {.time = 1ms}}};
  SyntheticSource source(8, 10);
  auto trainer = Trainer::create(plan, {}, pointers).value();
  const std::int64_t before = clock.reads;
  EXPECT_EQ(trainer.run(source, kNoStop)->elapsed, 90ms);
  return clock.reads - before;
}

TEST(TrainerWork, IsTheSameForAnyNumberOfGpusThatAreAlike) {
  EXPECT_EQ(clock_reads(4096, 1), clock_reads(64, 1));
}

TEST(TrainerWork, IsLinearInTheDevicesThatOthersCanUse) {
  const std::int64_t more = clock_reads(128, 128) - clock_reads(64, 64);
  EXPECT_EQ(clock_reads(192, 192) - clock_reads(128, 128), more);
  EXPECT_EQ(clock_reads(256, 256) - clock_reads(192, 192), more);
}

TEST_F(TrainerTest, CopiesToEachGpuOnItsOwnEngine) {
  add_gpus(2);
  options_.pinned = false;
  const TrainResult result = run_fake({{}});
  EXPECT_EQ(result.elapsed, 14ms);
}

TEST_F(TrainerTest, AccountsForEveryNanosecond) {
  sim::Rng rng(7);
  for (int variant = 0; variant < 30; ++variant) {
    add_gpus(1 + variant % 3);
    options_.pinned = variant % 2 == 0;
    options_.overlap_copy = options_.pinned && variant % 4 == 0;
    options_.run_ahead = 1 + variant % 5;
    const auto random_time = [&rng] { return Duration(rng.below(20'000'000)); };
    plan_.cost.forward.time = random_time();
    plan_.cost.backward_optimizer.time = random_time();
    plan_.cost.copy_pinned.time = random_time();
    plan_.cost.copy_pageable.time = random_time();
    all_reduce_.time = random_time();
    std::vector<FakeBatch> batches(20);
    for (std::size_t i = 0; i < batches.size(); ++i) {
      batches[i] = {.delay = random_time(),
                    .fetch = random_time(),
                    .prep = random_time(),
                    .epoch = static_cast<int>(i / 7)};
    }
    const TrainResult result = run_fake(batches);
    EXPECT_EQ(result.steps.spans().back().end - result.start, result.elapsed);
    for (const TimeBreakdown& time : result.gpus) EXPECT_EQ(time.total(), result.elapsed);
    TimeBreakdown epochs;
    for (const EpochSummary& epoch : result.epochs) epochs += epoch.time;
    EXPECT_EQ(result.epochs.size(), 3U);
    EXPECT_EQ(epochs, result.gpus.front());
    EXPECT_EQ(result.gpus.front().compute, 20 * plan_.cost.compute());
  }
}

TEST_F(TrainerTest, KeepsABufferUntilItsCopyHasEnded) {
  FakeSource source(clock_, {{}, {}, {}});
  static_cast<void>(run(source));
  // The third batch is asked for at 12 ms: the first batch was copied until 2 ms, the second one is
  // copied from 12 to 14 ms.
  EXPECT_EQ(source.asked_at[2], at(12ms));
  EXPECT_EQ(source.held_when_asked, (std::vector{0, 1, 1, 1}));
}

TEST_F(TrainerTest, StopsAtTheNextStepAndStillReports) {
  FakeSource source(clock_, {{}, {}, {}, {}, {}});
  source.stop_at = 3;
  const TrainResult result = run(source, source.stop);
  EXPECT_TRUE(result.stopped);
  EXPECT_EQ(result.steps.size(), 3);
  EXPECT_EQ(result.gpus.front().total(), result.elapsed);
  EXPECT_EQ(clock_.now(), result.steps.spans().back().end) << "queued steps are waited for";
}

TEST_F(TrainerTest, PassesOnTheSourcesError) {
  FakeSource source(clock_, {{}, {}});
  source.fail_at = 1;
  set_parts();
  auto trainer = Trainer::create(plan_, options_, pointers_);
  const auto result = trainer->run(source, kNoStop);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().message, "cannot read the file");
}

TEST_F(TrainerTest, HoldsTheStepsMemoryWhileItLives) {
  {
    auto trainer = Trainer::create(plan_, options_, pointers_);
    ASSERT_TRUE(trainer.has_value());
    EXPECT_EQ(devices_[0]->memory_info().held, 350 * kMiB);
    SyntheticSource source(8, 1);
    const TrainResult result = trainer->run(source, kNoStop).value();
    EXPECT_EQ(result.memory_peak, 350 * kMiB);
    EXPECT_EQ(result.memory_capacity, kCapacity);
  }
  EXPECT_EQ(devices_[0]->memory_info().held, 0U);
}

TEST_F(TrainerTest, HoldsASecondInputWhereCopiesOverlap) {
  options_.overlap_copy = true;
  const auto trainer = Trainer::create(plan_, options_, pointers_);
  EXPECT_EQ(devices_[0]->memory_info().held, 351 * kMiB);
}

TEST_F(TrainerTest, RunsOutOfMemoryWhenAnotherHoldsIt) {
  const auto others = devices_[0]->allocate(700 * kMiB);
  const auto trainer = Trainer::create(plan_, options_, pointers_);
  ASSERT_FALSE(trainer.has_value());
  EXPECT_EQ(trainer.error().code, ErrorCode::kOutOfMemory);
  EXPECT_EQ(devices_[0]->memory_info().held, 700 * kMiB) << "what was taken is given back";
}

TEST_F(TrainerTest, RefusesOptionsThatExcludeEachOther) {
  options_.pinned = false;
  options_.overlap_copy = true;
  EXPECT_EQ(Trainer::create(plan_, options_, pointers_).error().code, ErrorCode::kInvalidArgument);
}

TEST_F(TrainerTest, TellsWhatTheEmulatedTimeRestsOn) {
  add_gpus(2);
  all_reduce_ = {.time = 4ms, .evidence = cost::Evidence::kAnalytic};
  const TrainResult result = run_fake({{}, {}});
  EXPECT_EQ(result.evidence,
            (std::array<Duration, cost::kEvidenceNames.size()>{6ms, 14ms, 4ms, {}, {}, {}, 8ms}));
}

TEST_F(TrainerTest, CountsCorruptImagesAndEpochs) {
  const TrainResult result = run_fake({{.corrupt = 2}, {.epoch = 1}, {.epoch = 1, .corrupt = 1}});
  EXPECT_EQ(result.work.corrupt, 3);
  ASSERT_EQ(result.epochs.size(), 2U);
  EXPECT_EQ(result.epochs[1].steps, 2);
  EXPECT_EQ(result.epochs[1].samples, 16);
}

TEST_F(TrainerTest, TellsObserversOfEachStepInOrder) {
  SyntheticSource source(8, 4, SyntheticSource::Place::kHostMemory);
  std::vector<TimePoint> ends;
  static_cast<void>(run(source, kNoStop, [&](const ObservedStep& step) {
    EXPECT_EQ(step.index, static_cast<std::int64_t>(ends.size()));
    EXPECT_TRUE(step.copied);
    ends.push_back(step.end);
  }));
  EXPECT_EQ(ends, (std::vector{at(12ms), at(24ms), at(36ms), at(48ms)}));
}

}  // namespace
}  // namespace gpemu::train
