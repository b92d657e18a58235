// SPDX-License-Identifier: Apache-2.0
#include "gpemu/experiment/host_speeds.hpp"

#include <cmath>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "gpemu/profile/database_writer.hpp"

namespace gpemu::experiment {
namespace {

class HostSpeeds : public testing::Test {
 protected:
  HostSpeeds()
      : database_(profile::Database::from_image(image_).value()),
        runner_({.hosts = GPEMU_HOSTS_FOLDER,
                 .storage = GPEMU_STORAGE_FOLDER,
                 .datasets = GPEMU_EXPERIMENTS_FOLDER "/datasets"},
                database_) {}

  /// Returns an experiment of one row.
  static profile::ExperimentSpec experiment_of(profile::ExperimentRun run) {
    profile::ExperimentSpec spec{.name = "toy", .title = "", .paper = "", .variants = {"run"}};
    spec.rows = {{.name = "a", .label = "", .paper = NAN, .gpemu = NAN, .runs = {std::move(run)}}};
    return spec;
  }
  /// A step of 100 ms of 256 images, each of which takes 8.05 ms of a worker.
  static profile::ExperimentRun plain_run() {
    return {.host = "chameleon-p100",
            .loader = "pytorch-pil",
            .dataset = "imagenette-87k",
            .files = 20'000,
            .cache = "minio",
            .step_ms = 100,
            .copy_ms = 0};
  }

  [[nodiscard]] Result<std::vector<HostSpeed>> speeds(const profile::ExperimentRun& run,
                                                      const HostGrid& grid) {
    const std::atomic<bool> stop{false};
    return host_speeds(runner_, experiment_of(run), grid, stop, [](std::size_t) {});
  }

  std::string image_ = profile::build_database_image({}, {}).value();
  profile::Database database_;
  ExperimentRunner runner_;
};

TEST_F(HostSpeeds, RiseWithCoresUpToTheGpu) {
  const std::vector<HostSpeed> found =
      speeds(plain_run(), {.gpus = {}, .cores = {1, 4, 24}, .memory_gib = {}}).value();
  ASSERT_EQ(found.size(), 3U);
  EXPECT_NEAR(found[0].samples_per_s, 1000 / 8.05, 5);
  EXPECT_NEAR(found[1].samples_per_s, 4000 / 8.05, 20);
  // 24 are 0.82 as fast, 2,445 images per second; the GPU's 2,560 are close.
  EXPECT_LT(found[2].samples_per_s, 2445);
  EXPECT_GT(found[2].samples_per_s, 2100);
  EXPECT_EQ(found[0].evidence, "stated step; host chameleon-p100");
}

TEST_F(HostSpeeds, RiseWithTheMemoryThatCachesFiles) {
  // The data set has 10 GiB, on a hard disk.
  const std::vector<HostSpeed> found =
      speeds(plain_run(), {.gpus = {}, .cores = {24}, .memory_gib = {1, 5, 10, 64}}).value();
  ASSERT_EQ(found.size(), 4U);
  EXPECT_LT(found[0].samples_per_s * 1.5, found[1].samples_per_s);
  EXPECT_LT(found[1].samples_per_s * 1.5, found[2].samples_per_s);
  EXPECT_EQ(found[2].samples_per_s, found[3].samples_per_s);
}

TEST_F(HostSpeeds, FilesStandForTheWholeDataSet) {
  profile::ExperimentRun run = plain_run();
  run.cache_share = 0.5;
  const HostGrid grid{.gpus = {}, .cores = {4}, .memory_gib = {}};
  const double part = speeds(run, grid).value()[0].samples_per_s;
  run.files = 0;
  EXPECT_NEAR(part, speeds(run, grid).value()[0].samples_per_s, 0.05 * part);
}

TEST_F(HostSpeeds, AreRelativeToTheBaseInTheTable) {
  const std::vector<HostSpeed> found = {{.model = "a",
                                         .gpu = "X",
                                         .cores = 1,
                                         .memory_gib = 0.5,
                                         .samples_per_s = 10,
                                         .evidence = "e"},
                                        {.model = "a",
                                         .gpu = "X",
                                         .cores = 2,
                                         .memory_gib = 0.5,
                                         .samples_per_s = 15,
                                         .evidence = "e"},
                                        {.model = "a",
                                         .gpu = "Y",
                                         .cores = 1,
                                         .memory_gib = 0.5,
                                         .samples_per_s = 5,
                                         .evidence = "e"}};
  EXPECT_EQ(speed_table(found, 1, 0.5),
            "model,gpu,cores,memory_gib,speed,evidence\n"
            "a,X,1,0.5,1.0000,e\n"
            "a,X,2,0.5,1.5000,e\n"
            "a,Y,1,0.5,0.5000,e\n");
}

TEST_F(HostSpeeds, NameTheRowAtFault) {
  const auto fault = [&](const profile::ExperimentRun& run, std::vector<std::string> gpus) {
    return speeds(run, {.gpus = std::move(gpus), .cores = {1}, .memory_gib = {}}).error().message;
  };
  EXPECT_EQ(fault(plain_run(), {"V100-PCIE-32GB"}),
            "toy, row a: its step_ms is that of one GPU; with several GPUs, it needs a model");
  profile::ExperimentRun run = plain_run();
  run.cpus = 4;
  EXPECT_EQ(fault(run, {}), "toy, row a: it does not train with the workers of a described host");
  run = plain_run();
  run.host = "nowhere";
  EXPECT_TRUE(fault(run, {}).starts_with("toy, row a: there is no host \"nowhere\""))
      << fault(run, {});
}

}  // namespace
}  // namespace gpemu::experiment
