// SPDX-License-Identifier: Apache-2.0
#include "gpemu/train/host_source.hpp"

#include <gtest/gtest.h>

namespace gpemu::train {
namespace {

/// A worker that takes a second for a sample, in batches of two, on four files.
pipeline::PipelineSetup plain_host() {
  pipeline::PipelineSetup setup;
  setup.cpu = {.model = "a processor", .cores = 4, .threads = 4};
  setup.loader = {.name = "a loader", .image_s = 1};
  setup.storage = {.name = "a disk", .access_s = 0.5, .bytes_per_s = 1e15};
  setup.file_bytes.assign(4, 4096);
  setup.batch = 2;
  return setup;
}

TEST(HostSource, WaitsUntilTheHostHasABatch) {
  pipeline::DescribedLoaders loaders(plain_host());
  sim::VirtualClock clock;
  HostSource source(loaders, clock, 2, std::nullopt);
  // Each batch is read and prepared in 3 s, beside a step of 1 s.
  for (int step = 0; step < 4; ++step) {
    const std::optional<SourceBatch> batch = source.next().value();
    ASSERT_TRUE(batch);
    EXPECT_EQ(batch->epoch, step / 2);
    EXPECT_EQ(batch->samples, 2);
    EXPECT_FALSE(batch->on_device);
    EXPECT_EQ(batch->work.fetch, from_seconds(1));
    EXPECT_EQ(batch->work.prep, from_seconds(2));
    EXPECT_EQ(batch->work.bytes_read, 8192U);
    // The second epoch begins after the last step of the first, at 7 s.
    const int ready_s = step < 2 ? 3 * (step + 1) : 7 + 3 * (step - 1);
    EXPECT_EQ(clock.now(), TimePoint(from_seconds(ready_s)));
    clock.wait_until(clock.now() + from_seconds(1));
  }
  EXPECT_FALSE(source.next().value());
}

TEST(HostSource, EndsAfterTheGivenSteps) {
  pipeline::DescribedLoaders loaders(plain_host());
  sim::VirtualClock clock;
  HostSource source(loaders, clock, 2, 3);
  for (int step = 0; step < 3; ++step) EXPECT_TRUE(source.next().value());
  EXPECT_FALSE(source.next().value());
}

}  // namespace
}  // namespace gpemu::train
