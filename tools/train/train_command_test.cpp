// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "gpemu/base/file.hpp"

#include "cli/test_world.hpp"

namespace gpemu::tools {
namespace {

using nlohmann::json;

class TrainCommandTest : public testing::Test {
 protected:
  /// Returns the outcome of `gpemu train FORM OPTIONS --model resnet50 --batch 64`, where options
  /// that are given again count.
  [[nodiscard]] Outcome train(const std::vector<std::string>& form_and_options) const {
    std::vector<std::string> words = {"train"};
    words.insert(words.end(), form_and_options.begin(), form_and_options.end());
    const auto options =
        std::ranges::find_if(words, [](const std::string& word) { return word.starts_with("--"); });
    words.insert(options, {"--model", "resnet50", "--batch", "64"});
    return made_up_.run(std::move(words));
  }

  TestWorld made_up_;
};

TEST_F(TrainCommandTest, RunsInRealOrVirtualTime) {
  for (const char* clock : {"real", "virtual"}) {
    const Outcome outcome =
        train({"synthetic", "--gpu", "V100", "--steps", "10", "--clock", clock, "--json", "-"});
    ASSERT_EQ(outcome.code, 0) << outcome.errors;
    const json result = parsed(outcome.output);
    EXPECT_EQ(result["steps"], 10);
    EXPECT_DOUBLE_EQ(result["timeline_step_ms"]["mean"], 180) << clock;
    EXPECT_DOUBLE_EQ(result["elapsed_s"], 1.8) << clock;
  }
}

TEST_F(TrainCommandTest, ReportsTheHostsTimeAndProgress) {
  const Outcome outcome = train({"synthetic", "--gpu", "V100", "--steps", "60", "--json", "-"});
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const json result = parsed(outcome.output);
  EXPECT_DOUBLE_EQ(result["host"]["loop_cpu_s"], 0.5 * 60 * 0.18);
  EXPECT_DOUBLE_EQ(result["host"]["load"]["own_cpu_s"], 0.5 * 60 * 0.18) << result["host"]["load"];
  EXPECT_EQ(outcome.errors, "training: 56/60 steps, 355.6 images/s, 1 s left\n");
}

TEST_F(TrainCommandTest, WritesWhatWasAskedFor) {
  const std::string trace = (made_up_.folder / "trace.json").string();
  const std::string page = (made_up_.folder / "page.html").string();
  EXPECT_EQ(train({"synthetic", "--gpu", "V100", "--steps", "3", "--quiet", "--trace", trace,
                   "--report", page}),
            (Outcome{0, "", ""}));
  EXPECT_TRUE(parsed(read_file(trace).value()).contains("traceEvents"));
  EXPECT_TRUE(read_file(page).value().starts_with("<!"));
}

TEST_F(TrainCommandTest, LoadsOnADescribedHost) {
  made_up_.write("hosts/slow.toml", slow_host(10, R"([[storage]]
name = "hdd"
access_ms = 5
mb_per_s = 1000000
source = "s"
)"));
  made_up_.write("experiments/datasets/tiny.toml", R"toml(name = "tiny"
source = "made up"
files = 640
bytes = 640
percentiles = [[0, 1], [100, 1]]
)toml");
  const std::vector<std::string> words = {"host",      "slow", "--gpu",     "V100",
                                          "--dataset", "tiny", "--workers", "1",
                                          "--epochs",  "2",    "--json",    "-"};
  const Outcome outcome = train(words);
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const json result = parsed(outcome.output);
  EXPECT_EQ(result["steps"], 20);
  EXPECT_EQ(result["images"], 1280);
  EXPECT_EQ(result["data"]["images"], 640);
  // The first epoch reads: 15 ms an image, 960 ms a batch. The second finds all in the page cache.
  EXPECT_NEAR(result["epochs"][0]["elapsed_s"].get<double>(), 9.6 + 0.18, 0.2);
  EXPECT_NEAR(result["epochs"][1]["elapsed_s"].get<double>(), 6.4 + 0.18, 0.2);
  EXPECT_EQ(result["options"]["host"]["name"], "slow");
  // Both epochs: 1280 images in 9.6 + 6.4 s of the worker.
  EXPECT_TRUE(result["verdict"].get<std::string>().contains(
      "a worker makes 80 images/s, so about 5 would keep the GPU busy, not 1; there are 4 cores"))
      << result["verdict"];
  EXPECT_EQ(train({"host", "quick", "--gpu", "V100"}).errors,
            "gpemu: there is no host \"quick\"; there are: slow. The path of a TOML file describes "
            "another one\n");
}

TEST_F(TrainCommandTest, PreprocessesOnTheGpuOfADescribedHost) {
  // 50 ms for a batch of 32, so 100 ms for one of 64, beside 180 ms of training.
  const std::string host = made_up_.write("dali.toml", R"toml(name = "dali"
title = "A host"
[cpu]
model = "A processor"
cores = 4
source = "s"
[memory]
gib = 1
source = "s"
[[loader]]
name = "dali"
image_ms = 1
gpu_ms = 50
batch_of = 32
source = "s"
[[storage]]
name = "hdd"
access_ms = 0
mb_per_s = 1000000
source = "s"
[sources]
s = "Nobody measured it"
)toml");
  made_up_.write("experiments/datasets/tiny.toml", R"toml(name = "tiny"
source = "made up"
files = 640
bytes = 640
percentiles = [[0, 1], [100, 1]]
)toml");
  const Outcome outcome =
      train({"host", host, "--gpu", "V100", "--dataset", "tiny", "--workers", "2", "--json", "-"});
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_NEAR(parsed(outcome.output)["time_s"]["compute"].get<double>(), 10 * 0.28, 1e-6);
}

TEST_F(TrainCommandTest, AsksForDataAndAGpu) {
  EXPECT_EQ(train({"files"}),
            (Outcome{2, "", "gpemu: data is required; see `gpemu train files --help`\n"}));
  EXPECT_EQ(train({"synthetic"}),
            (Outcome{2, "",
                     "gpemu: which GPU? Name one with --gpu, e.g. --gpu V100-PCIE-32GB; `gpemu "
                     "profile list` lists them\n"}));
}

TEST_F(TrainCommandTest, VirtualTimeNeedsANodeOfItsOwn) {
  EXPECT_EQ(
      train({"synthetic", "--node", "n", "--clock", "virtual"}),
      (Outcome{2, "", "gpemu: --node excludes --clock; see `gpemu train synthetic --help`\n"}));
}

TEST_F(TrainCommandTest, TakesTheGpusOfANode) {
  ASSERT_EQ(made_up_.run({"node", "create", "n", "--gpu", "T4", "--gpu", "V100:2"}).code, 0);
  EXPECT_EQ(train({"synthetic", "--node", "n", "--device", "1", "--gpus", "2", "--steps", "2",
                   "--quiet"}),
            (Outcome{0, "", ""}));
  EXPECT_EQ(train({"synthetic", "--node", "n", "--device", "2", "--gpus", "2"}),
            (Outcome{2, "",
                     "gpemu: --device 2 and --gpus 2 ask for device 3 of node 'n', whose last is "
                     "2\n"}));
  EXPECT_EQ(train({"synthetic", "--node", "n", "--gpu", "V100"}),
            (Outcome{2, "", "gpemu: device 0 of node 'n' is a T4, not a V100-PCIE-32GB\n"}));
}

TEST_F(TrainCommandTest, SharesABatchAmongManyGpus) {
  const Outcome outcome = train({"synthetic", "--gpu", "V100", "--steps", "3", "--clock", "virtual",
                                 "--batch", "4096", "--gpus", "64", "--json", "-"});
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const json result = parsed(outcome.output);
  EXPECT_EQ(result["gpu_time_s"].size(), 64U);
  EXPECT_EQ(result["gpu_time_s"][63], result["gpu_time_s"][0]);
  EXPECT_GT(result["time_s"]["communication"], 0);
  EXPECT_EQ(result["options"]["parallel"], "ddp");
}

TEST_F(TrainCommandTest, NamesTheStraggler) {
  const std::string file =
      made_up_.write("slow.toml", "[[fault]]\nkind = \"slow\"\ngpu = 2\nclock = 0.5\nat_s = 0\n");
  const std::vector<std::string> options = {"synthetic", "--gpu",    "V100", "--gpus",
                                            "4",         "--steps",  "5",    "--clock",
                                            "virtual",   "--faults", file};
  const Outcome outcome = train(options);
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_TRUE(outcome.output.contains("\nstraggler   the other GPUs wait for GPU 2: "))
      << outcome.output;
  EXPECT_TRUE(
      outcome.output.contains("\nfault       GPU 2 has 50 % of its clock from 0.000 s on\n"))
      << outcome.output;
  EXPECT_TRUE(outcome.output.contains("\nlimited by GPU 2: the others wait for it "))
      << outcome.output;
}

TEST_F(TrainCommandTest, EndsWhenAFaultEndsTheRun) {
  const std::string file =
      made_up_.write("kill.toml", "[[fault]]\nkind = \"kill\"\ngpu = 1\nat_s = 0.5\n");
  const Outcome outcome = train({"synthetic", "--gpu", "V100", "--gpus", "2", "--clock", "virtual",
                                 "--faults", file, "--json", "-"});
  EXPECT_EQ(outcome.code, 9);
  EXPECT_TRUE(outcome.errors.contains("of 100 steps: GPU 1 was killed at 0.500 s\n"))
      << outcome.errors;
  const json failure = parsed(outcome.output)["failure"];
  EXPECT_EQ(failure, (json{{"gpu", 1}, {"kind", "kill"}, {"time_s", 0.5}}));
  EXPECT_EQ(train({"synthetic", "--gpu", "V100", "--node", "n", "--faults", file}).code, 2);
  const std::string at_once =
      made_up_.write("at_once.toml", "[[fault]]\nkind = \"kill\"\ngpu = 0\nat_s = 0\n");
  const Outcome none = train(
      {"synthetic", "--gpu", "V100", "--clock", "virtual", "--faults", at_once, "--json", "-"});
  EXPECT_EQ(none.code, 9);
  EXPECT_EQ(parsed(none.output)["steps"], 0);
  const Outcome wrong = train({"synthetic", "--gpu", "V100", "--faults", file});
  EXPECT_EQ(wrong.code, 6) << "a run of one GPU has no GPU 1";
}

TEST_F(TrainCommandTest, RefusesMachinesThatDoNotHaveTheGpus) {
  const auto refused = [&](std::vector<std::string> options) {
    options.insert(options.begin(), "synthetic");
    options.insert(options.end(), {"--clock", "virtual"});
    const Outcome outcome = train(std::move(options));
    EXPECT_NE(outcome.code, 0);
    return outcome.errors;
  };
  EXPECT_EQ(refused({"--gpu", "V100", "--nodes", "2"}),
            "gpemu: --nodes requires --topology; see `gpemu train synthetic --help`\n");
  EXPECT_TRUE(refused({"--gpu", "V100", "--gpus", "4", "--topology", "nowhere"})
                  .contains("there is no topology \"nowhere\""));
  EXPECT_TRUE(refused({"--gpu", "V100", "--gpus", "4", "--parallel", "fsdp"})
                  .contains("give ddp or data-parallel"));
}

TEST_F(TrainCommandTest, FailsIfTheBatchDoesNotFit) {
  const Outcome outcome = train({"synthetic", "--gpu", "V100", "--batch", "512"});
  EXPECT_EQ(outcome.code, 4);
  EXPECT_TRUE(outcome.errors.contains("the largest batch that fits is 256")) << outcome.errors;
}

}  // namespace
}  // namespace gpemu::tools
