// SPDX-License-Identifier: Apache-2.0
#include "gpemu/pipeline/fastflow.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <gtest/gtest.h>

#include "gpemu/pipeline/service_pipeline.hpp"

namespace gpemu::pipeline {
namespace {

TEST(DecideOffloading, StaysLocalIfTheGpuIsHardlyFaster) {
  const std::array<CutPoint, 1> cuts = {{{.remote_steps_per_s = 100, .receive_share = 0}}};
  EXPECT_EQ(decide_offloading({13, 10, cuts}), FastFlowDecision{});
  EXPECT_TRUE(decide_offloading({13.1, 10, cuts}).offloads);
  EXPECT_EQ(decide_offloading({100, 10, {}}), FastFlowDecision{});
}

TEST(DecideOffloading, DividesByRatesIfBothAreTooSlow) {
  const std::array<CutPoint, 1> cuts = {{{.remote_steps_per_s = 30, .receive_share = 0.5}}};
  EXPECT_EQ(decide_offloading({100, 10, cuts}), (FastFlowDecision{true, 0, 0.25}));
}

TEST(DecideOffloading, OffloadsOnlyWhatTheGpuNeeds) {
  // 20 of 40 steps are missing; receiving one takes a quarter of the work of preparing it, so 80/3
  // steps are offloaded: 40/3 x 1 + 80/3 x 1/4 = 20.
  const std::array<CutPoint, 1> cuts = {{{.remote_steps_per_s = 50, .receive_share = 0.25}}};
  const FastFlowDecision decision = decide_offloading({40, 20, cuts});
  EXPECT_NEAR(decision.local_share, 1.0 / 3, 1e-12);
}

TEST(DecideOffloading, TakesTheCutThatLeavesTheMost) {
  const std::array<CutPoint, 3> cuts = {{{.remote_steps_per_s = 30, .receive_share = 0.9},
                                         {.remote_steps_per_s = 25, .receive_share = 0.1},
                                         {.remote_steps_per_s = 33, .receive_share = 1}}};
  // 31 + 1, 25 + 9 and 33 + 0.
  EXPECT_EQ(decide_offloading({1000, 10, cuts}).cut, 1U);
}

struct SixCases {
  double step_s, image_s, send_s, receive_s;
  int batch;
  std::uint64_t steps;
};

/// For each ratio of local to remote processors that the paper and GPEmu have, FastFlow's split is
/// at most 3 % slower than the best of all splits in steps of 1 %.
TEST(DecideOffloading, IsNearTheBestSplitInTheSixCases) {
  const std::array<SixCases, 2> apps = {
      {{0.0641, 0.0026, 0.00007, 0.0006, 128, 468}, {0.155, 0.0115, 0.0004, 0.0006, 64, 203}}};
  for (const SixCases& app : apps) {
    for (const auto& [local, remote] : {std::pair{3, 3}, {3, 6}, {6, 3}}) {
      ServiceSetup setup{.steps = app.steps,
                         .batch = app.batch,
                         .step_s = app.step_s,
                         .cpus = local,
                         .remote_workers = 1,
                         .remote_cpus = remote,
                         .image_s = app.image_s,
                         .send_s = app.send_s,
                         .receive_s = app.receive_s};
      const double work = app.batch * app.image_s;
      const std::array<CutPoint, 1> cuts = {
          {{.remote_steps_per_s = remote / (work + app.batch * app.send_s),
            .receive_share = app.receive_s / app.image_s}}};
      const FastFlowDecision decision = decide_offloading({1 / app.step_s, local / work, cuts});
      setup.local_share = decision.local_share;
      const double decided = simulate_service(setup).epoch_s;
      double best = decided;
      for (int percent = 0; percent <= 100; ++percent) {
        setup.local_share = percent / 100.0;
        best = std::min(best, simulate_service(setup).epoch_s);
      }
      EXPECT_LE(decided, 1.03 * best) << local << ":" << remote;
    }
  }
}

}  // namespace
}  // namespace gpemu::pipeline
