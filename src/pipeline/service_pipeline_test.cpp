// SPDX-License-Identifier: Apache-2.0
#include "gpemu/pipeline/service_pipeline.hpp"

#include <algorithm>

#include <gtest/gtest.h>

#include "gpemu/sim/random.hpp"

namespace gpemu::pipeline {
namespace {

/// Ten steps of four samples, each of which takes a second of one processor.
ServiceSetup plain_service() {
  return {.steps = 10, .batch = 4, .step_s = 0.5, .cpus = 2, .image_s = 1};
}

TEST(SimulateService, LocalThreadsShareABatch) {
  // A batch takes 2 s on two processors; the last step follows.
  const EpochResult result = simulate_service(plain_service());
  EXPECT_NEAR(result.epoch_s, 10 * 2 + 0.5, 1e-9);
  EXPECT_NEAR(result.wait_s, 2 + 9 * 1.5, 1e-9);
  EXPECT_EQ(result.cache_reads, 40U);
  EXPECT_EQ(result.peer_reads, 0U);
}

TEST(SimulateService, RemoteWorkersPrepareAtTheSameTime) {
  ServiceSetup setup = plain_service();
  setup.local_share = 0;
  setup.remote_workers = 5;
  setup.remote_cpus = 4;
  setup.step_s = 0.001;
  // Each worker prepares two batches of a second; receiving takes no time.
  const EpochResult result = simulate_service(setup);
  EXPECT_NEAR(result.epoch_s, 2, 0.01);
  EXPECT_EQ(result.peer_reads, 40U);
  // The training host receives a batch in 4 x 0.5 / 2 = 1 s.
  setup.receive_s = 0.5;
  EXPECT_NEAR(simulate_service(setup).epoch_s, 1 + 10 * 1, 0.01);
}

TEST(SimulateService, ASplitIsPreparedByBoth) {
  ServiceSetup setup = plain_service();
  setup.remote_workers = 1;
  setup.remote_cpus = 2;
  setup.local_share = 0.5;
  setup.step_s = 0.001;
  EXPECT_NEAR(simulate_service(setup).epoch_s, 10, 0.01);
}

TEST(SimulateService, IsNeverFasterThanItsSlowestPart) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    sim::Rng random(seed);
    ServiceSetup setup;
    setup.steps = 1 + random.below(300);
    setup.batch = 1 + static_cast<int>(random.below(64));
    setup.step_s = random.uniform(0, 0.05);
    setup.cpus = 1 + static_cast<int>(random.below(8));
    setup.remote_workers = static_cast<int>(random.below(6));
    setup.remote_cpus = 1 + static_cast<int>(random.below(8));
    setup.image_s = random.uniform(0, 0.003);
    setup.send_s = random.uniform(0, 0.0005);
    setup.receive_s = random.uniform(0, 0.001);
    setup.prefetch = 1 + static_cast<int>(random.below(4));
    setup.local_share = setup.remote_workers == 0 ? 1 : random.uniform();
    const EpochResult result = simulate_service(setup);
    EXPECT_EQ(result.samples, setup.steps * static_cast<unsigned>(setup.batch));
    EXPECT_EQ(result.cache_reads + result.peer_reads, result.samples);
    EXPECT_NEAR(result.wait_s + result.step_s, result.epoch_s, 1e-6) << seed;
    const double host_s = (static_cast<double>(result.cache_reads) * setup.image_s +
                           static_cast<double>(result.peer_reads) * setup.receive_s) /
                          setup.cpus;
    const double remote_s = static_cast<double>(result.peer_reads) *
                            (setup.image_s + setup.send_s) / setup.remote_cpus /
                            std::max(1, setup.remote_workers);
    EXPECT_GE(result.epoch_s, std::max({host_s, remote_s, result.step_s}) * (1 - 1e-9)) << seed;
  }
}

}  // namespace
}  // namespace gpemu::pipeline
