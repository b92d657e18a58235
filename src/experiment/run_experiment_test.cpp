// SPDX-License-Identifier: Apache-2.0
#include "gpemu/experiment/run_experiment.hpp"

#include <cmath>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "gpemu/base/file.hpp"
#include "gpemu/base/temporary_folder.hpp"
#include "gpemu/profile/database_writer.hpp"

namespace gpemu::experiment {
namespace {

class RunExperiment : public testing::Test {
 protected:
  RunExperiment()
      : database_(profile::Database::from_image(image_).value()),
        runner_({.hosts = GPEMU_HOSTS_FOLDER,
                 .storage = GPEMU_STORAGE_FOLDER,
                 .datasets = GPEMU_EXPERIMENTS_FOLDER "/datasets"},
                database_) {}

  /// Returns a run that needs no GPU.
  static profile::ExperimentRun plain_run() {
    return {.host = "chameleon-p100",
            .dataset = "imagenette-87k",
            .workers = 24,
            .step_ms = 20,
            .copy_ms = 2};
  }

  [[nodiscard]] std::string fault(const profile::ExperimentRun& run) {
    const auto setup = runner_.setup(run);
    return setup ? "no fault" : setup.error().message;
  }

  std::string image_ = profile::build_database_image({}, {}).value();
  profile::Database database_;
  ExperimentRunner runner_;
};

TEST_F(RunExperiment, TakesTheSetupFromTheHostAndTheFile) {
  profile::ExperimentRun run = plain_run();
  run.loader = "pytorch-ladcache";
  run.storage = "chameleon-nfs";
  run.cache = "minio";
  run.peers = "locality";
  run.cache_share = 0.25;
  run.nodes = 3;
  const pipeline::PipelineSetup setup = runner_.setup(run).value();
  EXPECT_EQ(setup.file_bytes.size(), 87'473U);
  EXPECT_EQ(setup.loader.name, "pytorch-ladcache");
  EXPECT_TRUE(setup.storage.shared);
  EXPECT_EQ(setup.nodes, 3);
  EXPECT_EQ(setup.workers, 24);
  EXPECT_DOUBLE_EQ(setup.step_s, 0.02);
  EXPECT_DOUBLE_EQ(setup.copy_s, 0.002);
  EXPECT_EQ(setup.cache.policy, pipeline::CachePolicy::kMinio);
  EXPECT_EQ(setup.cache.peers, pipeline::Peers::kLocality);
  EXPECT_NEAR(static_cast<double>(setup.cache.capacity), 0.25 * 10731847680, 1e5);
}

TEST_F(RunExperiment, APageCacheOfAllFilesHoldsTheirPages) {
  const pipeline::PipelineSetup setup = runner_.setup(plain_run()).value();
  Bytes pages = 0;
  for (const std::uint32_t size : setup.file_bytes) pages += pipeline::page_bytes(size);
  EXPECT_EQ(setup.cache.capacity, pages);
}

TEST_F(RunExperiment, GroupsTheFiles) {
  profile::ExperimentRun run = plain_run();
  run.group = 64;
  const pipeline::PipelineSetup setup = runner_.setup(run).value();
  EXPECT_EQ(setup.file_bytes.size(), 1367U);
  EXPECT_EQ(setup.samples_per_file, 64);
}

TEST_F(RunExperiment, FastFlowDecidesTheLocalShare) {
  profile::ExperimentRun run = plain_run();
  run.host = "chameleon-tf";
  run.loader = "tf-gan";
  run.dataset = "caltech-birds-x10";
  run.batch = 128;
  run.step_ms = 64.1;
  run.copy_ms = 0;
  run.cpus = 3;
  run.remote_workers = 1;
  run.remote_cpus = 3;
  run.offload = "fastflow";
  const pipeline::ServiceSetup setup = runner_.service_setup(run).value();
  EXPECT_EQ(setup.steps, 468U);
  // The GPU's 15.6 steps/s less the local 9.03, by 1 - 0.62 / 2.594, are 8.63 offloaded.
  EXPECT_NEAR(setup.local_share, 1 - 8.63 / 15.6, 0.001);
  run.offload = "all";
  EXPECT_EQ(runner_.service_setup(run).value().local_share, 0);
  run.remote_workers = 0;
  EXPECT_EQ(runner_.service_setup(run).error().message, "offload = \"all\" needs remote_workers");
}

TEST_F(RunExperiment, SaysWhatIsMissing) {
  profile::ExperimentRun run = plain_run();
  run.step_ms = 0;
  EXPECT_EQ(fault(run), "without gpu and model, it needs step_ms and copy_ms");
  run = plain_run();
  run.loader = "dali";
  EXPECT_TRUE(fault(run).starts_with("the host chameleon-p100 has no loader 'dali'; it has: "));
  run = plain_run();
  run.dataset = "imagenette";
  EXPECT_TRUE(fault(run).starts_with("there is no data set \"imagenette\"")) << fault(run);
}

TEST_F(RunExperiment, RunsThatRowsShareAreRunOnce) {
  profile::ExperimentSpec spec{.name = "toy", .title = "", .paper = "", .variants = {"run"}};
  profile::ExperimentRun run = plain_run();
  run.host = "chameleon-tf";
  run.dataset = "ljspeech";
  run.cpus = 4;
  spec.rows = {{.name = "a", .label = "", .paper = 2, .gpemu = NAN, .runs = {run}},
               {.name = "b", .label = "", .paper = 3, .gpemu = NAN, .runs = {run}}};
  spec.columns = {{.name = "epoch", .title = "", .value = "run.epoch_s"},
                  {.name = "twice", .title = "", .value = "2 * epoch"}};
  spec.checks = {{.text = "", .test = "epoch.a <= epoch.b <= epoch.a", .reason = ""},
                 {.text = "", .test = "paper > 2", .reason = ""}};
  std::size_t runs = 0;
  const std::atomic<bool> stop{false};
  const ExperimentResult result =
      runner_.run(spec, stop, [&runs](std::size_t done) { runs = done; }).value();
  EXPECT_EQ(runs, 2U);
  EXPECT_EQ(result.rows[0].columns, result.rows[1].columns);
  EXPECT_DOUBLE_EQ(result.rows[0].columns[1], 2 * result.rows[0].columns[0]);
  EXPECT_TRUE(result.checks[0].met);
  EXPECT_FALSE(result.checks[1].met);
  EXPECT_EQ(result.checks[1].sides, "2 to 3 > 2");
}

TEST_F(RunExperiment, StopsWhenItIsTold) {
  profile::ExperimentSpec spec{.name = "toy", .title = "", .paper = "", .variants = {"run"}};
  spec.rows = {{.name = "a", .label = "", .runs = {plain_run()}}};
  const std::atomic<bool> stop{true};
  EXPECT_EQ(runner_.run(spec, stop, [](std::size_t) {}).error().code, ErrorCode::kInterrupted);
}

/// Jobs that need both GPUs of a server.
profile::ExperimentSpec filling(const std::filesystem::path& folder) {
  EXPECT_TRUE(write_file_atomically(folder / "servers.csv", "server,gpus\ns,2\n"));
  EXPECT_TRUE(write_file_atomically(folder / "pods.csv",
                                    "name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1,1,2,1000\n"));
  profile::ExperimentSpec spec{.name = "toy", .title = "", .paper = "", .variants = {"run"}};
  profile::ExperimentRun run;
  run.fleet = folder / "servers.csv";
  run.jobs = folder / "pods.csv";
  run.placement = "best-fit";
  run.load = 2;
  run.seeds = 2;
  spec.rows = {{.name = "a", .label = "", .runs = {run}}};
  spec.columns = {{"used", "", "run.allocated_percent"},
                  {"lost", "", "run.fragmented_percent"},
                  {"left", "", "run.left_out_percent"}};
  return spec;
}

/// Two jobs arrive, and each asks for both GPUs.
TEST_F(RunExperiment, FillsAFleet) {
  const TemporaryFolder folder =
      TemporaryFolder::create(testing::TempDir(), "gpemu-experiment-").value();
  const std::atomic<bool> stop{false};
  const ExperimentResult result =
      runner_.run(filling(folder.path()), stop, [](std::size_t) {}).value();
  EXPECT_EQ(result.rows[0].columns, (std::vector<double>{100, 0, 50}));
}

/// Two jobs of 10 s, one after the other.
TEST_F(RunExperiment, SchedulesJobs) {
  const TemporaryFolder folder =
      TemporaryFolder::create(testing::TempDir(), "gpemu-experiment-").value();
  const std::filesystem::path jobs = folder.path() / "jobs.csv";
  EXPECT_TRUE(write_file_atomically(jobs, "job,arrival_s,gpus,duration_s\na,0,2,10\nb,0,1,10\n"));
  profile::ExperimentRun run;
  run.jobs = jobs;
  run.gpus = 2;
  run.policy = "fifo";
  run.restart_s = 1;
  profile::ExperimentSpec spec{.name = "toy", .title = "", .paper = "", .variants = {"run"}};
  spec.rows = {{.name = "a", .label = "", .runs = {run}}};
  spec.columns = {{"jct", "", "run.average_jct_s"}, {"wait", "", "run.average_wait_s"}};
  const std::atomic<bool> stop{false};
  const ExperimentResult result = runner_.run(spec, stop, [](std::size_t) {}).value();
  EXPECT_EQ(result.rows[0].columns, (std::vector<double>{16.5, 5.5}));
}

TEST(Experiments, TablesAreThoseOfTheEvidence) {
  for (const std::string name :
       {"fgd/default.csv.gz", "fgd/servers.csv.gz", "muri/trace3.csv.gz", "muri/restarts.csv"}) {
    const std::filesystem::path here(GPEMU_EXPERIMENTS_FOLDER);
    const std::filesystem::path there(GPEMU_SCHEDULERS_FOLDER);
    EXPECT_EQ(read_file(here / name, kMiB).value(), read_file(there / name, kMiB).value()) << name;
  }
}

TEST(Quantities, HaveNamesOfTheirOwn) {
  std::set<std::string_view> names;
  for (const Quantity& quantity : quantities()) {
    EXPECT_TRUE(names.insert(quantity.name).second) << quantity.name;
  }
}

}  // namespace
}  // namespace gpemu::experiment
