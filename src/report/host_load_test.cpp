// SPDX-License-Identifier: Apache-2.0
#include "gpemu/report/host_load.hpp"

#include <optional>
#include <vector>

#include <gtest/gtest.h>

namespace gpemu::report {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): literals only.

TEST(HostLoad, BlamesOthersForNoMoreThanTheyTook) {
  // Threads of the run wait for each other, too: more workers than cores.
  const HostLoad load{.elapsed = 10s, .own_cpu = 19s, .others_cpu = 1s, .queued = 40s};
  EXPECT_DOUBLE_EQ(load.slowdown(2), 1.0 / 20);
}

TEST(HostLoad, BlamesOthersForNoMoreThanTheRunWaited) {
  const HostLoad load{.elapsed = 10s, .own_cpu = 9s, .others_cpu = 600s, .queued = 1s};
  EXPECT_DOUBLE_EQ(load.slowdown(64), 1.0 / 10);
}

TEST(HostLoad, ProgramsWaitForOthersOnlyWhereNoCoreIsFree) {
  const HostLoad full{.elapsed = 10s, .own_cpu = 10s, .others_cpu = 10s, .queued = {}};
  EXPECT_DOUBLE_EQ(full.slowdown(2), 0.5);
  EXPECT_TRUE(full.too_busy(2));
  EXPECT_EQ(full.slowdown(4), 0);
  EXPECT_FALSE(full.too_busy(4));
}

TEST(HostLoad, IsNotTooBusyByAFewTicksOfTheKernelsCount) {
  const HostLoad load{.elapsed = 100ms, .own_cpu = 100ms, .others_cpu = 40ms, .queued = 40ms};
  EXPECT_FALSE(load.too_busy(2));
}

TEST(HostLoad, AddsUpSpansAndForgetsTheQueueThatOneDoesNotKnow) {
  const HostLoad span{
      .elapsed = 1s, .own_cpu = 2s, .others_cpu = 3s, .queued = 4s, .preemptions = 5};
  HostLoad sum;
  sum += span;
  sum += span;
  EXPECT_EQ(sum.elapsed, 2s);
  EXPECT_EQ(sum.queued, 8s);
  EXPECT_EQ(sum.preemptions, 10);
  HostLoad unknown = span;
  unknown.queued.reset();
  sum += unknown;
  EXPECT_EQ(sum.own_cpu, 6s);
  EXPECT_FALSE(sum.queued);
}

TEST(BusyTime, CountsAllowedCoresWithoutIdleAndGuests) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  CPU_SET(1, &allowed);
  CPU_SET(12, &allowed);
  constexpr std::string_view kStat =
      "cpu  9 9 9 9 9 9 9 9 9 9\n"
      "cpu0 9 9 9 9 9 9 9 9 9 9\n"
      "cpu1 1 2 4 1000 1000 8 16 32 7 7\n"
      "cpu12 100 0 0 5 0 0 0 0 0 0\n"
      "intr 1 2 3\n";
  EXPECT_EQ(busy_time(kStat, allowed, 100), 1630ms);
}

TEST(HostLoadMeter, CountsWhatHappenedSinceItsConstruction) {
  HostSample host{
      .time = 100s, .own_cpu = 10s, .busy = 50s, .preemptions = 3, .queued = {{1, 4s}, {2, 1s}}};
  std::vector<LoadScope> scopes;
  const HostLoadMeter meter(LoadScope::kThisProcess, [&](LoadScope scope) {
    scopes.push_back(scope);
    return host;
  });
  // Thread 2 has ended, and thread 3 has started.
  host = {
      .time = 104s, .own_cpu = 13s, .busy = 58s, .preemptions = 7, .queued = {{1, 6s}, {3, 500ms}}};
  const HostLoad load = meter.read();
  EXPECT_EQ(load.elapsed, 4s);
  EXPECT_EQ(load.own_cpu, 3s);
  EXPECT_EQ(load.others_cpu, 5s);
  EXPECT_EQ(load.queued, 2500ms);
  EXPECT_EQ(load.preemptions, 4);
  EXPECT_EQ(scopes, (std::vector<LoadScope>{LoadScope::kThisProcess, LoadScope::kThisProcess}));
}

TEST(HostLoadMeter, BlamesOthersForNoNegativeTime) {
  HostSample host;
  const HostLoadMeter meter(LoadScope::kChildren, [&](LoadScope) { return host; });
  host = {.time = 1s, .own_cpu = 55ms, .busy = 50ms, .queued = {}};  // Counted in ticks.
  EXPECT_EQ(meter.read().others_cpu, 0s);
  EXPECT_EQ(meter.read().queued, std::nullopt);
}

TEST(SampleHost, CountsTheTimeOfThisProcess) {
  const HostSample start = sample_host(LoadScope::kThisProcess);
  HostSample sample = start;
  while (sample.own_cpu < start.own_cpu + 20ms) sample = sample_host(LoadScope::kThisProcess);
  EXPECT_GT(sample.time, start.time);
  EXPECT_GE(sample.busy, start.busy);
}

}  // namespace
}  // namespace gpemu::report
