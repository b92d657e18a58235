// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "gpemu/step/rank_slowdown.hpp"
#include "gpemu/train/step_plan.hpp"

namespace gpemu::train {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): literals only.

TEST(DdpBuckets, FillUpToTheirSizeOrMore) {
  const std::vector<step::Gradient> gradients = {
      {.bytes = kMiB - 1, .ready = 1ms},  {.bytes = 3, .ready = 2ms},
      {.bytes = 24 * kMiB, .ready = 3ms}, {.bytes = 100 * kMiB, .ready = 4ms},
      {.bytes = 25 * kMiB, .ready = 5ms}, {.bytes = 7, .ready = 6ms}};
  const std::vector<Bucket> buckets = ddp_buckets(gradients);
  ASSERT_EQ(buckets.size(), 4U);
  EXPECT_EQ(buckets[0].bytes, kMiB + 2);
  EXPECT_EQ(buckets[0].ready, 2ms);
  EXPECT_EQ(buckets[1].bytes, 124 * kMiB);
  EXPECT_EQ(buckets[1].ready, 4ms);
  EXPECT_EQ(buckets[2].bytes, 25 * kMiB);
  EXPECT_EQ(buckets[3].bytes, 7U);
  EXPECT_TRUE(ddp_buckets({}).empty());
}

constexpr topology::Fabric kFabric = {.ranks = 8,
                                      .inside = topology::LinkClass::kPciePeer,
                                      .line_rate = 15.75e9,
                                      .searched_rate = 12e9,
                                      .channels = 2};

/// A GPU that copies a MiB in a microsecond.
profile::GpuSpec gpu_for_test() {
  profile::GpuSpec gpu;
  gpu.memory_bandwidth_bytes_per_s = 2e6 * static_cast<double>(kMiB);
  return gpu;
}

TEST(DdpParts, StartEachAllReduceWhenItsLastGradientIsThere) {
  const step::StepCost cost{.forward = {.time = 40ms}, .backward_optimizer = {.time = 100ms}};
  const step::StepParts step{
      .gradients = {{.bytes = 2 * kMiB, .ready = 10ms}, {.bytes = 4 * kMiB, .ready = 90ms}},
      .optimizer = 10ms};
  const std::vector<StepPart> parts = ddp_parts(cost, step, gpu_for_test(), kFabric);
  ASSERT_EQ(parts.size(), 6U);
  EXPECT_EQ(parts[1].cost.time, 90ms + 6us) << "with the copies to the buckets";
  EXPECT_EQ(parts[2].before_end, 80ms + 4us);
  EXPECT_EQ(parts[2].cost.time,
            topology::time_of(kFabric, topology::Collective::kAllReduce, 2 * kMiB).time);
  EXPECT_EQ(parts[3].before_end, 0ms);
  EXPECT_EQ(parts[4].cost.time, 6us) << "the copies back";
  EXPECT_EQ(parts[5].name, "optimizer");
  EXPECT_EQ(parts[5].cost.time, 10ms);
  const StepPlan plan{.gpus = 8, .parts = parts};
  const StepTime time = time_of(plan);
  EXPECT_EQ(time.exposed, parts[3].cost.time) << "only the last bucket's";
  EXPECT_EQ(time.hidden, parts[2].cost.time);
  EXPECT_EQ(time.total, 140ms + 12us + time.exposed);
  EXPECT_EQ(plan.distinct_gpus(), 1);
}

TEST(DdpParts, WaitForTheLinksIfTheyAreSlow) {
  const step::StepCost cost{.forward = {.time = 1ms}, .backward_optimizer = {.time = 2ms}};
  step::StepParts step{.optimizer = 1ms};
  for (int i = 1; i <= 10; ++i) step.gradients.push_back({.bytes = 25 * kMiB, .ready = i * 100us});
  const StepPlan plan{.gpus = 8, .parts = ddp_parts(cost, step, gpu_for_test(), kFabric)};
  Duration links{};
  for (const StepPart& part : plan.parts) links += part.exchange ? part.cost.time : 0ms;
  // From the first bucket to the copies back, the links never rest.
  EXPECT_EQ(time_of(plan).total, 1ms + 125us + links + 250us + 1ms);
}

TEST(WithSlowRanks, WaitsForTheSlowestAndSlowsWhatRunsBesideExchanges) {
  const std::vector<StepPart> parts = {
      {.name = "forward", .cost = {.time = 40ms}},
      {.name = "backward", .cost = {.time = 100ms}},
      {.name = "all-reduce", .exchange = true, .cost = {.time = 10ms}, .before_end = 50ms},
      {.name = "all-reduce", .exchange = true, .cost = {.time = 10ms}}};
  const std::vector<StepPart> slow = with_slow_ranks(parts, 8);
  const double factor = 1 + step::slowest_of(8);
  EXPECT_NEAR(to_milliseconds(slow[0].cost.time), 40 * factor, 1e-5);
  EXPECT_NEAR(to_milliseconds(slow[1].cost.time), 100 * factor + 10 * step::kSlowedBeside, 1e-5);
  EXPECT_NEAR(to_milliseconds(slow[2].before_end), 50 * factor, 1e-5);
  EXPECT_EQ(slow[2].cost.time, 10ms) << "the links are the same";
  EXPECT_NEAR(to_milliseconds(time_of({.parts = slow}).total),
              140 * factor + 10 * step::kSlowedBeside + 10, 1e-5);
  EXPECT_EQ(with_slow_ranks(parts, 1)[0].cost.time, 40ms);
}

}  // namespace
}  // namespace gpemu::train
