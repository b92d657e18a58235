// SPDX-License-Identifier: Apache-2.0
#include "gpemu/train/step_plan.hpp"

#include <gtest/gtest.h>

#include "gpemu/device/device.hpp"
#include "gpemu/sim/clock.hpp"
#include "gpemu/sim/random.hpp"
#include "gpemu/train/trainer.hpp"

namespace gpemu::train {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): literals only.

TEST(TimeOf, IsWhatTheTrainerTakes) {
  sim::Rng rng(5);
  for (int variant = 0; variant < 50; ++variant) {
    StepPlan plan{.gpus = 4};
    Duration before{};
    for (int i = 0; i < 9; ++i) {
      StepPart part{.name = "part", .exchange = i % 9 > 2 && rng.below(2) == 0};
      part.cost.time = Duration(rng.below(9'000'000));
      if (part.exchange) part.before_end = Duration(rng.below(before.count() + 1));
      if (!part.exchange) before = part.cost.time;
      plan.parts.push_back(part);
    }
    sim::VirtualClock clock;
    const auto node = device::Node::create_private(
                          {.name = "test", .devices = {{.gpu = "GPU", .memory_bytes = kGiB}}})
                          .value();
    const auto device = device::Device::open(node, 0, clock).value();
    device::Device* const devices[] = {device.get()};
    SyntheticSource source(8, 1);
    const std::atomic<bool> stop{false};
    const TrainResult result = Trainer::create(plan, {}, devices)->run(source, stop).value();
    const StepTime time = time_of(plan);
    EXPECT_EQ(result.elapsed, time.total);
    EXPECT_EQ(result.gpus[0].communication, time.exposed);
    EXPECT_EQ(result.gpus[0].hidden_communication, time.hidden);
  }
}

TEST(TimeOf, AStepOfOneGpuIsItsComputation) {
  StepPlan plan;
  plan.parts = compute_parts({.forward = {.time = 3ms}, .backward_optimizer = {.time = 7ms}});
  EXPECT_EQ(time_of(plan).total, 10ms);
  EXPECT_EQ(time_of(plan).exposed, 0ms);
  EXPECT_EQ(plan.distinct_gpus(), 1);
}

}  // namespace
}  // namespace gpemu::train
