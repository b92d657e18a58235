// SPDX-License-Identifier: Apache-2.0
#include "gpemu/pipeline/input_pipeline.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <string>
#include <unistd.h>

#include <gtest/gtest.h>

#include "gpemu/data/convert_dataset.hpp"
#include "gpemu/data/make_dataset.hpp"
#include "gpemu/sim/random.hpp"

namespace gpemu::pipeline {
namespace {

/// One node with one worker that takes a second for a sample; reading takes no time.
PipelineSetup plain_setup(std::size_t files) {
  PipelineSetup setup;
  setup.cpu = {.model = "a processor", .cores = 4, .threads = 4};
  setup.loader = {.name = "a loader", .image_s = 1};
  setup.storage = {.name = "a disk", .access_s = 0, .bytes_per_s = 1e15};
  setup.network = {.bytes_per_s = 1e15, .request_s = 0};
  setup.file_bytes.assign(files, 4096);
  setup.batch = 2;
  setup.epochs = 1;
  setup.step_s = 0.5;
  return setup;
}

TEST(Simulate, AddsUpWhatOneWorkerDoes) {
  // Batches are ready at 2 and 4 s, and each is computed for 0.5 s.
  const EpochResult result = simulate(plain_setup(4)).back();
  EXPECT_NEAR(result.epoch_s, 4.5, 1e-9);
  EXPECT_NEAR(result.wait_s, 3.5, 1e-9);
  EXPECT_NEAR(result.first_wait_s, 2, 1e-9);
  EXPECT_NEAR(result.step_s, 1, 1e-9);
  EXPECT_EQ(result.samples, 4U);
  EXPECT_EQ(result.storage_reads, 4U);
  EXPECT_EQ(result.storage_bytes, 4U * 4096);
}

TEST(Simulate, CountsTheStartOfWorkersAndTheCopy) {
  PipelineSetup setup = plain_setup(4);
  setup.workers = 2;
  setup.loader.start_s = 0.25;
  setup.copy_s = 0.125;
  // Both workers begin at 0.5 s, and have their batches at 2.5 s.
  const EpochResult result = simulate(setup).back();
  EXPECT_NEAR(result.first_wait_s, 2.5, 1e-9);
  EXPECT_NEAR(result.wait_s, 2.5, 1e-9);
  EXPECT_NEAR(result.copy_s, 0.25, 1e-9);
  EXPECT_NEAR(result.epoch_s, 2.5 + 2 * 0.625, 1e-9);
}

TEST(Simulate, PinsOneBatchAfterTheOther) {
  PipelineSetup setup = plain_setup(8);
  setup.workers = 4;
  setup.loader.batch_s = 3;
  setup.loader.batch_of = 2;
  setup.step_s = 0.001;
  // Four batches are prepared at 2 s, and pinned at 5, 8, 11 and 14 s.
  EXPECT_NEAR(simulate(setup).back().epoch_s, 14.001, 1e-9);
}

TEST(Simulate, WorkersPrepareOnlyAsFarAheadAsTheyMay) {
  // Both batches of the prefetch are ready at 2 s. The third is asked for when the first is taken,
  // at 1 s, so each of the other steps waits for nothing but the GPU.
  PipelineSetup setup = plain_setup(10);
  setup.batch = 1;
  setup.step_s = 10;
  EXPECT_NEAR(simulate(setup).back().epoch_s, 1 + 10 * 10, 1e-9);
  // With one batch ahead, the next one is begun when the one before is taken, which is early
  // enough.
  setup.prefetch_batches = 1;
  setup.step_s = 1;
  setup.loader.image_s = 1.5;
  EXPECT_NEAR(simulate(setup).back().epoch_s, 10 * 1.5 + 1, 1e-9);
}

TEST(Simulate, BusyWorkersShareThreadsOfTheProcessor) {
  PipelineSetup setup = plain_setup(16);
  setup.workers = 8;  // On four threads.
  setup.cpu.speed_by_busy = {{{1, 1}, {4, 0.5}}};
  // Eight batches of two seconds of work, at four times half a second each second.
  EXPECT_NEAR(simulate(setup).back().first_wait_s, 8.0 * 2 / 2, 1e-9);
}

TEST(Simulate, ThreadsShareTheirBatches) {
  PipelineSetup setup = plain_setup(8);
  setup.loader.shared_batches = true;
  setup.workers = 2;
  setup.step_s = 0.25;
  // Two samples a second: a batch of two each second, whose step is shorter.
  const EpochResult two = simulate(setup).back();
  EXPECT_NEAR(two.first_wait_s, 1, 1e-9);
  EXPECT_NEAR(two.epoch_s, 4.25, 1e-9);
  // Two batches at a time may be begun, whoever works on them, so eight threads have work for four.
  setup.workers = 8;
  setup.cpu.threads = 8;
  EXPECT_NEAR(simulate(setup).back().epoch_s, 1 + 0 + 1 + 0.25 + 0.25, 1e-9);
}

TEST(Simulate, SharedMemoryBoundsWhatIsPreparedWithoutPinning) {
  PipelineSetup setup = plain_setup(40);
  setup.workers = 2;
  setup.step_s = 2;
  setup.loader.batch_s = 0.01;
  setup.loader.batch_of = 2;
  // Both workers keep up with the GPU: two batches each two seconds.
  const double free_s = simulate(setup).back().epoch_s;
  EXPECT_NEAR(free_s, 2.01 + 20 * 2, 0.05);
  setup.shared_memory_batches = 1;
  EXPECT_NEAR(simulate(setup).back().epoch_s, free_s, 0.25) << "a pinned batch makes room";
  setup.pin = false;
  // Each batch is prepared after the step of the one before has ended.
  EXPECT_NEAR(simulate(setup).back().epoch_s, 20 * (2 + 2), 1e-9);
}

TEST(Simulate, ReadsWaitForAccessAndForBytes) {
  PipelineSetup setup = plain_setup(4);
  setup.loader.image_s = 0.001;
  setup.step_s = 0.001;
  setup.storage.access_s = 1;
  setup.storage.bytes_per_s = 4096;
  // One reader: a second to access a file, and one for its bytes.
  EXPECT_NEAR(simulate(setup).back().epoch_s, 4 * 2.001 + 0.001, 1e-9);
  // Two readers: the disk orders the accesses, which take half of the time then.
  setup.workers = 2;
  setup.storage.access_by_depth = {{{1, 1}, {2, 0.5}}};
  const double two = simulate(setup).back().epoch_s;
  EXPECT_GT(two, 4 * 1.5);
  EXPECT_LT(two, 4 * 1.5 + 1.01);  // The first and the last read may be alone.
  // A device that serves two at the same time.
  setup.storage.access_by_depth = {};
  setup.storage.requests_at_once = 2;
  EXPECT_NEAR(simulate(setup).back().epoch_s, 2 * 2.001 + 2 * 0.001, 1e-9);
}

TEST(Simulate, ASecondEpochFindsFilesInTheCache) {
  PipelineSetup setup = plain_setup(1000);
  setup.epochs = 3;
  setup.cache = {.policy = CachePolicy::kMinio, .capacity = 400 * 4096};
  const std::vector<EpochResult> results = simulate(setup);
  EXPECT_EQ(results[0].cache_reads, 0U);
  for (int epoch : {1, 2}) {
    EXPECT_EQ(results[static_cast<std::size_t>(epoch)].cache_reads, 400U);
    EXPECT_EQ(results[static_cast<std::size_t>(epoch)].storage_reads, 600U);
  }
}

TEST(Simulate, SharedStorageServesAllNodes) {
  PipelineSetup setup = plain_setup(400);
  setup.nodes = 4;
  setup.loader.image_s = 1e-6;
  setup.step_s = 1e-6;
  setup.storage.bytes_per_s = 4096;
  EXPECT_NEAR(simulate(setup).back().epoch_s, 100, 1);
  setup.storage.shared = true;
  EXPECT_NEAR(simulate(setup).back().epoch_s, 400, 1);
}

TEST(Simulate, NodesComputeStepsTogether) {
  // Node 0 reads from a server that the others do not slow down, but every step waits for all.
  PipelineSetup setup = plain_setup(64);
  setup.nodes = 4;
  const EpochResult result = simulate(setup).back();
  EXPECT_NEAR(result.wait_s + result.copy_s + result.step_s + result.others_s, result.epoch_s,
              1e-9);
  EXPECT_NEAR(result.step_s, 8 * 0.5, 1e-9);
  EXPECT_EQ(result.samples, 64U);
}

TEST(Simulate, LocalNodesReadNothingFromPeersOnceAllIsCached) {
  PipelineSetup setup = plain_setup(1024);
  setup.nodes = 4;
  setup.batch = 4;
  setup.epochs = 2;
  setup.cache = {.policy = CachePolicy::kMinio, .capacity = 300 * 4096};
  setup.cache.peers = Peers::kPartitioned;
  const EpochResult partitioned = simulate(setup).back();
  EXPECT_EQ(partitioned.storage_reads, 0U);
  // Three of four files are with a peer.
  EXPECT_NEAR(static_cast<double>(partitioned.peer_reads), 768, 60);
  setup.cache.peers = Peers::kLocality;
  const EpochResult local = simulate(setup).back();
  EXPECT_EQ(local.storage_reads, 0U);
  // Only the surplus of each global batch of 16 comes from peers.
  EXPECT_LT(local.peer_reads, 250U);
  EXPECT_EQ(local.samples, 1024U);
}

TEST(Simulate, ASuperbatchIsReadWhileTheOneBeforeIsDecoded) {
  PipelineSetup setup = plain_setup(12);
  setup.superbatch = 2;
  setup.step_s = 0.001;
  setup.storage.access_s = 2;
  // Superbatches of four files: read in 8 s, decoded in 4 s. Three of them.
  const double alone = simulate(setup).back().epoch_s;
  EXPECT_NEAR(alone, 3 * 8 + 4 + 0.001, 0.01);
  // Four reads at the same time cost half each.
  setup.storage.access_by_depth = {{{1, 1}, {4, 0.5}}};
  EXPECT_NEAR(simulate(setup).back().epoch_s, 3 * 4 + 4 + 0.001, 0.01);
}

TEST(Simulate, GroupsAreReadAsOneFile) {
  PipelineSetup setup = plain_setup(4);
  setup.samples_per_file = 8;
  setup.batch = 16;
  const EpochResult result = simulate(setup).back();
  EXPECT_EQ(result.samples, 32U);
  EXPECT_EQ(result.storage_reads, 4U);
  EXPECT_NEAR(result.epoch_s, 32 + 0.5, 1e-9);
}

PipelineSetup random_setup(std::uint64_t seed) {
  sim::Rng random(seed);
  PipelineSetup setup = plain_setup(1 + random.below(3000));
  for (std::uint32_t& bytes : setup.file_bytes) {
    bytes = 1 + static_cast<std::uint32_t>(random.below(200'000));
  }
  setup.nodes = 1 + static_cast<int>(random.below(5));
  setup.workers = 1 + static_cast<int>(random.below(9));
  setup.batch = 1 + static_cast<int>(random.below(70));
  setup.prefetch_batches = 1 + static_cast<int>(random.below(3));
  setup.loader.image_s = random.uniform(0, 0.01);
  setup.loader.start_s = random.uniform(0, 0.1);
  setup.storage.access_s = random.uniform(0, 0.01);
  setup.storage.bytes_per_s = random.uniform(1e7, 1e9);
  setup.storage.requests_at_once = 1 + static_cast<int>(random.below(4));
  setup.storage.shared = random.below(2) == 0;
  setup.network = {.bytes_per_s = 1e9, .request_s = 1e-4};
  setup.step_s = random.uniform(0, 0.1);
  setup.copy_s = random.uniform(0, 0.01);
  setup.epochs = 2;
  setup.seed = seed;
  setup.superbatch = random.below(2) == 0 ? static_cast<int>(random.below(4)) : 0;
  setup.cache = {.policy = static_cast<CachePolicy>(random.below(4)),
                 .capacity = random.below(300'000'000),
                 .peers = static_cast<Peers>(random.below(3))};
  setup.loader.shared_batches = setup.superbatch == 0 && random.below(2) == 0;
  setup.pin = random.below(2) == 0;
  setup.shared_memory_batches = static_cast<int>(random.below(4));
  return setup;
}

TEST(Simulate, AccountsForAllTimeAndAllFilesOfAnySetup) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    const PipelineSetup setup = random_setup(seed);
    const auto nodes = static_cast<std::uint64_t>(setup.nodes);
    for (const EpochResult& result : simulate(setup)) {
      EXPECT_NEAR(result.wait_s + result.copy_s + result.step_s + result.others_s, result.epoch_s,
                  1e-6 * result.epoch_s + 1e-9)
          << seed;
      EXPECT_EQ(result.cache_reads + result.peer_reads + result.storage_reads, result.samples);
      EXPECT_GE(result.samples, setup.file_bytes.size()) << seed;
      EXPECT_LT(result.samples, setup.file_bytes.size() + nodes) << seed;
      if (setup.cache.peers == Peers::kLocality) {
        EXPECT_EQ(result.samples, setup.file_bytes.size()) << seed;
      }
      const auto steps = std::round(result.step_s / setup.step_s);
      const auto each = static_cast<double>((setup.file_bytes.size() + nodes - 1) / nodes);
      EXPECT_EQ(steps, std::ceil(each / setup.batch)) << seed;
      // Nothing is faster than its slowest part.
      const double cpu_s = static_cast<double>(result.samples) * setup.loader.image_s /
                           static_cast<double>(nodes) / setup.cpu.threads;
      const double storage_s = static_cast<double>(result.storage_bytes) /
                               setup.storage.bytes_per_s / (setup.storage.shared ? 1 : setup.nodes);
      EXPECT_GE(result.epoch_s, std::max(cpu_s, storage_s) * (1 - 1e-9)) << seed;
    }
  }
}

/// Real data sets of 24 images, whose sizes and orders count.
class SimulateRealDataset : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(data::make_dataset(root_ / "folder",
                                   {.images = 24, .classes = 2, .sizes = {{50, 20}, {90, 30}}}));
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  [[nodiscard]] std::shared_ptr<const data::Dataset> open(const char* name) const {
    return std::make_shared<const data::Dataset>(data::Dataset::open(root_ / name).value());
  }
  /// One thread that takes a millisecond for an image, and a disk whose access takes a second.
  static PipelineSetup one_thread(std::shared_ptr<const data::Dataset> dataset) {
    PipelineSetup setup = plain_setup(1);
    setup.loader = {.name = "gpemu", .shared_batches = true, .image_s = 0.001};
    setup.storage.access_s = 1;
    setup.batch = 5;
    setup.step_s = 0;
    use_dataset(setup, std::move(dataset));
    return setup;
  }

  const std::filesystem::path root_ =
      std::filesystem::path(testing::TempDir()) / ("gpemu_simulate_" + std::to_string(::getpid()));
};

TEST_F(SimulateRealDataset, ReadsEachImageAndDropsTheLastBatch) {
  const auto folder = open("folder");
  const EpochResult result = simulate(one_thread(folder)).back();
  EXPECT_EQ(result.samples, 20U);
  EXPECT_EQ(result.storage_reads, 20U);
  EXPECT_NEAR(result.epoch_s, 20 * 1.001, 1e-9);
}

TEST_F(SimulateRealDataset, ReadsPartsAheadOneAfterTheOther) {
  const auto folder = open("folder");
  ASSERT_TRUE(data::convert_dataset(
      *folder, root_ / "shards",
      {.format = data::DataFormat::kWebDataset, .shard_bytes = 8 * folder->samples()[0].bytes}));
  const auto shards = open("shards");
  const std::size_t files = shards->files().size();
  ASSERT_GT(files, 1U);
  PipelineSetup setup = one_thread(shards);
  setup.batch = 24;
  const EpochResult result = simulate(setup).back();
  EXPECT_EQ(result.samples, 24U);
  EXPECT_EQ(result.storage_reads, shards->units().size());
  // Images of a part are prepared while the next one is read; those of the last part are left. An
  // access begins each file.
  EXPECT_GT(result.epoch_s, static_cast<double>(files) + 0.001);
  EXPECT_LT(result.epoch_s, static_cast<double>(files) + 0.025);
  // With a window of one part, at most two are ahead of those that are prepared.
  setup.window = 1;
  setup.loader.image_s = 1;
  EXPECT_NEAR(simulate(setup).back().epoch_s, 1 + 24, 1e-9);
}

TEST(Simulate, StopsWhenItIsTold) {
  const std::atomic<bool> stop{true};
  EXPECT_TRUE(simulate(plain_setup(4), &stop).empty());
}

TEST(DescribedLoaders, GiveBatchesWhenTheSimulatedLoopHasThem) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    PipelineSetup setup = random_setup(seed);
    setup.nodes = 1;
    const std::vector<EpochResult> simulated = simulate(setup);
    DescribedLoaders loaders(setup);
    double now_s = 0;
    for (const EpochResult& expected : simulated) {
      const double begin_s = now_s;
      double wait_s = 0, work_s = 0;
      std::uint64_t samples = 0, bytes = 0;
      loaders.start_epoch(static_cast<std::uint64_t>(&expected - simulated.data()), now_s);
      while (const std::optional<TakenBatch> batch = loaders.take(now_s)) {
        wait_s += batch->ready_s - now_s;
        now_s = batch->ready_s + setup.copy_s + setup.step_s;
        samples += batch->samples;
        bytes += batch->storage_bytes;
        work_s += batch->prepare_s;
      }
      EXPECT_NEAR(now_s - begin_s, expected.epoch_s, 1e-6) << seed;
      EXPECT_NEAR(wait_s, expected.wait_s, 1e-6) << seed;
      EXPECT_EQ(samples, expected.samples) << seed;
      // Files of a superbatch count for the batch that is decoded while they are read.
      if (setup.superbatch == 0) {
        EXPECT_EQ(bytes, expected.storage_bytes) << seed;
      }
      EXPECT_GE(work_s, static_cast<double>(samples) * setup.loader.image_s * (1 - 1e-9)) << seed;
    }
  }
}

TEST(Simulate, GivesTheSameForTheSameSetup) {
  const PipelineSetup setup = random_setup(5);
  EXPECT_EQ(simulate(setup).back().epoch_s, simulate(setup).back().epoch_s);
  PipelineSetup other = setup;
  other.seed = 6;
  EXPECT_NE(simulate(setup).back().epoch_s, simulate(other).back().epoch_s);
}

}  // namespace
}  // namespace gpemu::pipeline
