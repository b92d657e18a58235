// SPDX-License-Identifier: Apache-2.0
#include "gpemu/train/step_log.hpp"

#include <algorithm>
#include <cstdlib>

#include <gtest/gtest.h>

#include "gpemu/sim/random.hpp"

namespace gpemu::train {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): literals only.

TimePoint after(Duration time) {
  return TimePoint(time);
}

TEST(StepLog, LeavesOutTheFirstStep) {
  const StepLog log = {{.end = after(50ms), .observed_end = after(51ms)},
                       {.end = after(60ms), .observed_end = after(60ms)},
                       {.end = after(70ms), .observed_end = after(70ms)},
                       {.end = after(100ms), .observed_end = after(101ms)}};
  const StepStatistics statistics = log.statistics({}, StepEnd::kTimeline);
  EXPECT_EQ(statistics.mean, 16'666'666ns);
  EXPECT_EQ(statistics.p50, 10ms);
  EXPECT_EQ(statistics.p99, 30ms);
  EXPECT_EQ(log.statistics({}, StepEnd::kObserved).p99, 31ms);
  EXPECT_EQ(log.percentile_error(), 0);
}

TEST(StepLog, CountsFromTheStartWhereThereIsOneStep) {
  const StepLog log = {{.end = after(50ms), .observed_end = after(51ms)}};
  EXPECT_EQ(log.statistics(after(10ms), StepEnd::kObserved).p50, 41ms);
  EXPECT_EQ(StepLog().statistics({}, StepEnd::kObserved).p99, 0ms);
}

TEST(StepLog, KeepsSumsExtremesAndOrderOfALongRun) {
  constexpr auto kSteps = static_cast<std::int64_t>(2 * StepLog::kMostSpans + 17);
  StepLog log;
  sim::Rng rng(1);
  std::vector<Duration> durations;
  TimePoint end;
  Duration fetch{};
  for (std::int64_t i = 0; i < kSteps; ++i) {
    const Duration step = Duration(1 + rng.below(1'000'000'000));
    end += step;
    if (i > 0) durations.push_back(step);
    log.add({.end = end, .observed_end = end + 1us, .fetch_wait = step / 2});
    fetch += step / 2;
  }
  EXPECT_EQ(log.size(), kSteps);
  EXPECT_LE(log.spans().size(), StepLog::kMostSpans);
  EXPECT_EQ(log.spans().front().steps, 1);
  EXPECT_EQ(log.spans().back().end, end);
  std::int64_t steps = 0;
  Duration fetched{};
  DurationRange range = log.spans()[1].observed_step;
  for (const StepSpan& span : log.spans()) {
    steps += span.steps;
    fetched += span.fetch_wait;
    if (steps > 1) range.include(span.observed_step);
  }
  EXPECT_EQ(steps, kSteps);
  EXPECT_EQ(fetched, fetch);
  EXPECT_EQ(range.least, *std::ranges::min_element(durations));
  EXPECT_EQ(range.most, *std::ranges::max_element(durations));
  std::ranges::sort(durations);
  for (const StepEnd which : {StepEnd::kTimeline, StepEnd::kObserved}) {
    const StepStatistics statistics = log.statistics({}, which);
    EXPECT_EQ(statistics.mean, (end - log.spans().front().end) / (kSteps - 1));
    const double exact = to_seconds(durations[(durations.size() * 99 + 99) / 100 - 1]);
    EXPECT_NEAR(to_seconds(statistics.p99), exact, exact * log.percentile_error());
    const double middle = to_seconds(durations[(durations.size() * 50 + 99) / 100 - 1]);
    EXPECT_NEAR(to_seconds(statistics.p50), middle, middle * log.percentile_error());
  }
  EXPECT_GT(log.percentile_error(), 0);
}

TEST(DurationSketch, HoldsAnyDurationWithinItsError) {
  sim::Rng rng(2);
  for (int i = 0; i < 500; ++i) {
    const auto ns = static_cast<std::int64_t>(rng.bits() >> (1 + rng.below(63)));
    DurationSketch sketch;
    sketch.add(Duration(ns));
    sketch.add(Duration(0));
    sketch.add(Duration::max());  // Else the range would make the result exact.
    const double error = std::abs(static_cast<double>(sketch.percentile(66).count() - ns));
    EXPECT_LE(error, static_cast<double>(ns) * DurationSketch::kRelativeError) << ns;
  }
  DurationSketch sketch;
  sketch.add(206'273'601ns);
  sketch.add(206'273'601ns);
  EXPECT_EQ(sketch.percentile(99), 206'273'601ns) << "all are alike";
  sketch.add(-5ns);
  EXPECT_EQ(sketch.percentile(1), 0ns) << "the host's clock may be read in another order";
}

}  // namespace
}  // namespace gpemu::train
