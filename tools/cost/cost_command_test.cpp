// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "gpemu/kernels/described_operation.hpp"
#include "gpemu/report/terminal.hpp"
#include "gpemu/step/recording.hpp"

#include "cli/test_world.hpp"

namespace gpemu::tools {
namespace {

using nlohmann::json;

class CostCommandTest : public testing::Test {
 protected:
  /// Returns the outcome of `gpemu cost --gpu V100-PCIE-32GB --model resnet50 --batch BATCHES`.
  [[nodiscard]] Outcome cost(const std::string& batches, std::vector<std::string> more = {}) const {
    more.insert(more.begin(),
                {"cost", "--gpu", "V100-PCIE-32GB", "--model", "resnet50", "--batch", batches});
    return made_up_.run(more);
  }

  /// Writes a recording: one addition of 1000 numbers per sample, forward and backward, in 100 MiB
  /// and 90 MiB per sample. Returns its folder.
  [[nodiscard]] std::string recordings(const std::string& model = "resnet50") const {
    step::RecordedOperation add{.kind = GPEMU_OPERATION_ELEMENTWISE,
                                .name = "add",
                                .operation_class = kernels::OperationClass::kElementwise,
                                .type = GPEMU_TYPE_FP32,
                                .compute_type = GPEMU_TYPE_FP32};
    add.shape[0] = {.constant = 0, .slope = 1000};
    const step::TensorGroup tensor{.count = 1, .bytes = {.constant = 100 << 20, .slope = 90 << 20}};
    const step::Recording recording{
        .model = model,
        .gpu = "V100-PCIE-32GB",
        .batches = {1, 2, 3},
        .operations = {add},
        .phases = {{"forward", {0}}, {"backward", {0, 0}}},
        .memory = step::RecordedMemory{.fullest = {{tensor}}, .after = {tensor}}};
    made_up_.write("recordings/" + model + ".json", step::write_recording(recording));
    return (made_up_.folder / "recordings").string();
  }

  TestWorld made_up_;
};

TEST_F(CostCommandTest, ShowsEachBatchAndWhetherItFits) {
  const Outcome outcome = cost("32,64,512");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(squeezed(outcome.output),
            fmt::format("resnet50 on V100-PCIE-32GB at fp32: fits up to batch 256\n\n"
                        "batch forward ms backward+optimizer ms {} pinned copy ms pageable copy ms "
                        "peak MiB fits times are memory is\n"
                        "32 34.603 69.206 2.0% 1.606 6.159 3206 yes interpolated interpolated\n"
                        "64 60.000 120.000 0.6% 3.211 12.000 6000 yes measured measured\n"
                        "512 - - - - - - no - -\n",
                        "+-"));
}

TEST_F(CostCommandTest, FailsIfNoBatchFits) {
  const Outcome outcome = cost("512,1024");
  EXPECT_EQ(outcome.code, 4);
  EXPECT_EQ(outcome.errors,
            "gpemu: resnet50 with batch 512 does not fit in V100-PCIE-32GB: it needs about 48000 "
            "MiB, and 24047 of 32510 MiB can be used; the largest batch that fits is 256\n");
}

TEST_F(CostCommandTest, PrintsJson) {
  const Outcome outcome = cost("64,512", {"--json"});
  EXPECT_EQ(outcome.code, 0);
  const json document = parsed(outcome.output);
  EXPECT_EQ(document["format"], "gpemu-cost-1");
  EXPECT_EQ(document["date"], "1970-01-01T00:00:00Z");
  EXPECT_EQ(document["largest_batch"], 256);
  const json& fits = document["costs"][0];
  EXPECT_EQ(fits["forward"],
            (json{{"ms", 60.0}, {"evidence", "measured"}, {"relative_error", 0.006}}));
  EXPECT_EQ(fits["memory"]["peak_mib"], 6000);
  EXPECT_EQ(document["costs"][1]["fits"], false);
}

TEST_F(CostCommandTest, NeedsGpuModelAndBatch) {
  EXPECT_EQ(made_up_.run({"cost"}), (Outcome{2, "", "gpemu: --gpu is required\n"}));
  EXPECT_EQ(made_up_.run({"cost", "--gpu", "T4"}),
            (Outcome{2, "", "gpemu: --model is required\n"}));
  EXPECT_EQ(made_up_.run({"cost", "--gpu", "T4", "--model", "resnet50"}),
            (Outcome{2, "", "gpemu: --batch is required\n"}));
}

TEST_F(CostCommandTest, AnotherHostIsThatOfAGpuWithLaunchTimes) {
  EXPECT_EQ(cost("64", {"--host-of", "V200"}).code, 3);
  const Outcome outcome = cost("64", {"--host-of", "T4"});
  EXPECT_EQ(outcome,
            (Outcome{2, "",
                     "gpemu: the launch times in the host of T4 are not known: its file has no "
                     "table calibration (docs/reference/gpu-file.md); like = \"GPU\" in it "
                     "takes those of a measured GPU\n"}));
}

TEST_F(CostCommandTest, EvalComparesMemory) {
  const Outcome outcome = made_up_.run({"cost", "eval", recordings(), "--memory"});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  // At batch 1, 190 of 500 MiB.
  EXPECT_EQ(squeezed(outcome.output),
            "peak memory\ngpu steps mean % median worst which is bias\n"
            "V100-PCIE-32GB 12 18.46 7.06 -62.00 resnet50 at 1 -18.46\n");
  const Outcome as_json = made_up_.run({"cost", "eval", recordings(), "--memory", "--json"});
  const json rows = parsed(as_json.output);
  ASSERT_EQ(rows.size(), 12U) << rows;
  EXPECT_EQ(rows[7]["batch"], 64);
  EXPECT_EQ(rows[7]["measured_mib"], 6000);
  EXPECT_EQ(rows[7]["predicted_mib"], 100 + 64 * 90);
}

TEST_F(CostCommandTest, EvalNeedsRecordingsThatWereMeasured) {
  EXPECT_EQ(made_up_.run({"cost", "eval", recordings("alexnet"), "--memory"}),
            (Outcome{3, "", "gpemu: no recording has memory that is both known and measured\n"}));
  EXPECT_EQ(made_up_.run({"cost", "eval", recordings("alexnet")}),
            (Outcome{3, "", "gpemu: none of the recorded models was measured on any GPU\n"}));
  const std::string empty = (made_up_.folder / "own").string();
  std::filesystem::create_directories(empty);
  EXPECT_EQ(made_up_.run({"cost", "eval", empty}),
            (Outcome{3, "", fmt::format("gpemu: {} has no recordings (*.json)\n", empty)}));
}

TEST_F(CostCommandTest, FilesBesideRecordingsHaveSingleOperations) {
  const std::filesystem::path folder = recordings();
  made_up_.write((folder.lexically_relative(made_up_.folder) / "more.jsonl").string(),
                 R"({"format":"gpemu-published-operations-1","source":"x","precision":"fp32",)"
                 R"("layout":"","phase":"training","calls":[{"op":"set","class":"set",)"
                 R"("type":"fp32","compute_type":"fp32"}]})"
                 "\n"
                 R"({"model":"m","batch":1,"size":1,"ms":{"V100-PCIE-32GB":1},)"
                 R"("operations":[[0,1,0,8]]})"
                 "\n");
  for (const char* command : {"fit", "eval"}) {
    EXPECT_EQ(made_up_.run({"cost", command, folder.string()}),
              (Outcome{2, "",
                       fmt::format("gpemu: {}: its files *.jsonl have steps; beside recordings, "
                                   "only single operations are read\n",
                                   folder.string())}))
        << command;
  }
}

TEST_F(CostCommandTest, FitAndEvalNeedTheFolderInWhichTheyWrite) {
  for (const char* command : {"fit", "eval"}) {
    EXPECT_EQ(made_up_.run({"cost", command, recordings(), "--write", "/none"}),
              (Outcome{3, "", "gpemu: --write: there is no folder /none\n"}))
        << command;
  }
}

class CostCollectivesTest : public CostCommandTest {
 protected:
  /// Two V100 below one PCIe switch.
  CostCollectivesTest() {
    made_up_.write("topologies/box.toml",
                   "name = \"box\"\n"
                   "title = \"A box\"\n"
                   "gpu = \"V100-PCIE-32GB\"\n"
                   "sockets = [\"A processor\"]\n"
                   "[[bridge]]\n"
                   "name = \"cpu0\"\n"
                   "socket = 0\n"
                   "numa_node = 0\n"
                   "source = \"us\"\n"
                   "[[switch]]\n"
                   "name = \"plx0\"\n"
                   "below = \"cpu0\"\n"
                   "generation = 3\n"
                   "lanes = 16\n"
                   "gpus = [0, 1]\n"
                   "source = \"us\"\n"
                   "[sources]\n"
                   "us = \"made up\"\n");
  }
};

TEST_F(CostCollectivesTest, TakeWhatTheMachineAllows) {
  const Outcome outcome = made_up_.run(
      {"cost", "collectives", "--topology", "box", "--bytes", "4096,1073741824", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const json times = parsed(outcome.output)["times"];
  ASSERT_EQ(times.size(), 2U) << times;
  EXPECT_EQ(times[0]["protocol"], "LL");
  EXPECT_EQ(times[1]["protocol"], "Simple");
  EXPECT_NEAR(times[1]["bus_gb_per_s"], 0.8 * 15.75, 0.2) << "four fifths of the link's rate";
  const Outcome table = made_up_.run(
      {"cost", "collectives", "--topology", "box", "--bytes", "4096", "--collective", "broadcast"});
  EXPECT_TRUE(table.output.starts_with("broadcast on A box\n")) << table.output;
}

TEST_F(CostCollectivesTest, NeedAMachineOrMeasurements) {
  EXPECT_EQ(made_up_.run({"cost", "collectives"}),
            (Outcome{2, "",
                     "gpemu: cost collectives needs either --topology, for times on a machine, or "
                     "--eval, to compare with measurements\n"}));
  EXPECT_EQ(
      made_up_.run({"cost", "collectives", "--topology", "box", "--bytes", "1k"}),
      (Outcome{2, "", "gpemu: --bytes 1k: a whole number of bytes from 1 to 2^50 was expected\n"}));
  EXPECT_EQ(made_up_.run({"cost", "collectives", "--topology", "box", "--gpus", "3"}),
            (Outcome{2, "", "gpemu: box has 2 GPUs, so a group has 2 to 2, not 3\n"}));
  EXPECT_EQ(made_up_.run({"cost", "collectives", "--eval", "/none"}).code, 3);
}

TEST_F(CostCollectivesTest, OfATransformerAreAPartOfItsIteration) {
  const std::vector<std::string> words = {"cost",     "transformer", "--topology", "box",
                                          "--layers", "4",           "--hidden",   "256",
                                          "--heads",  "4",           "--sequence", "128"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = words;
    all.insert(all.end(), more.begin(), more.end());
    return made_up_.run(all);
  };
  const Outcome outcome = with({"--tensor-parallel", "2", "--global-batch", "8", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const json step = parsed(outcome.output);
  EXPECT_EQ(step["gpus"], 2);
  double sum = 0;
  for (const char* part : {"compute_ms", "tensor_parallel_ms", "pipeline_ms", "data_parallel_ms",
                           "optimizer_ms", "slowest_ms"}) {
    sum += step[part].get<double>();
  }
  EXPECT_NEAR(step["iteration_ms"], sum, 1e-4);
  EXPECT_NEAR(step["tokens_per_s"], 8 * 128 / (sum / 1e3), 1);
  EXPECT_TRUE(with({}).output.contains("where an iteration's time goes"));
  EXPECT_EQ(with({"--micro-batch", "3", "--global-batch", "8"}).errors,
            "gpemu: --global-batch 8 is no multiple of --micro-batch 3 x --data-parallel 1\n");
  EXPECT_EQ(with({"--data-parallel", "3"}).errors,
            "gpemu: 3 GPUs, of which 1 share products, do not fill machines of 2: choose other "
            "--tensor-parallel, --pipeline-parallel or --data-parallel\n");
  EXPECT_TRUE(with({"--gpu", "T4"}).errors.contains("box has V100-PCIE-32GB"));
}

TEST_F(CostCollectivesTest, OfManyTransformersAreThoseOfEach) {
  const std::vector<std::string> words = {"cost",     "transformer", "--topology", "box",
                                          "--layers", "4",           "--hidden",   "256"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = words;
    all.insert(all.end(), more.begin(), more.end());
    return made_up_.run(all);
  };
  const std::string file = made_up_.write("jobs",
                                          "--heads 4 --sequence 128 --layers 8\n"
                                          "--heads 8  --sequence 64\n");
  const Outcome outcome = with({"--jobs", file});
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const std::size_t first = outcome.output.find('\n');
  ASSERT_EQ(outcome.output.find('\n', first + 1), outcome.output.size() - 1) << outcome.output;
  EXPECT_EQ(parsed(outcome.output.substr(first)),
            parsed(with({"--heads", "8", "--sequence", "64", "--json"}).output));
  EXPECT_EQ(parsed(outcome.output.substr(0, first))["parameters"],
            parsed(made_up_
                       .run({"cost", "transformer", "--gpu", "V100-PCIE-32GB", "--layers", "8",
                             "--hidden", "256", "--heads", "4", "--sequence", "128", "--json"})
                       .output)["parameters"]);
  const auto fault = [&](const std::string& second) {
    made_up_.write("jobs", "--heads 4 --sequence 128\n" + second);
    return with({"--jobs", file}).errors;
  };
  EXPECT_EQ(fault("--heads 8"), fmt::format("gpemu: {}:2: --sequence is required\n", file));
  EXPECT_EQ(fault("--heads 8 --jobs x"),
            fmt::format("gpemu: {}:2: there is no option '--jobs'; see `gpemu cost transformer "
                        "--help`\n",
                        file));
  EXPECT_EQ(fault("--help").find(fmt::format("gpemu: {}:2: a job has no --help", file)), 0U);
}

class CostPairsTest : public CostCommandTest {
 protected:
  /// Pairs of a model "one" with a model "two" on a G, all with the same speeds, and another pair.
  CostPairsTest() {
    std::string table = "gpu,model_a,batch_a,speed_a,model_b,batch_b,speed_b\n";
    for (int one = 1; one <= 4; ++one) {
      for (int two = 1; two <= 4; ++two) {
        if (one != 2 || two != 3) table += fmt::format("G,one,{},0.5,two,{},0.8\n", one, two);
      }
    }
    made_up_.write("pairs.csv", table + "G,three,,0.25,one,1,0.9\n");
  }
  [[nodiscard]] Outcome pairs(std::vector<std::string> words) const {
    words.insert(words.begin(), {"cost", "pairs"});
    return made_up_.run(std::move(words));
  }
};

TEST_F(CostPairsTest, TellTheBestEvidence) {
  const Outcome known = pairs({"--gpu", "G", "three", "one:1", "--json"});
  ASSERT_EQ(known.code, 0) << known.errors;
  const json jobs = parsed(known.output)["jobs"];
  EXPECT_EQ(jobs[0]["evidence"], "measured");
  EXPECT_EQ(jobs[0]["speed"], 0.25);
  EXPECT_EQ(jobs[1]["speed"], 0.9);
  const json fitted = parsed(pairs({"--gpu", "G", "one:2", "two:3", "--json"}).output)["jobs"];
  EXPECT_EQ(fitted[0]["evidence"], "calibrated");
  EXPECT_NEAR(fitted[0]["speed"], 0.5, 0.03);
  EXPECT_NEAR(fitted[1]["speed"], 0.8, 0.03);
  EXPECT_EQ(squeezed(pairs({"80/80", "50/50", "0"}).output),
            "Speeds beside the others, divided by those alone.\n\n"
            "job speed +- evidence\n"
            "80/80 0.787 52% analytic\n50/50 0.787 52% analytic\n0 1.000 52% analytic\n");
  EXPECT_NEAR(
      parsed(
          pairs({"100/100", "100/100", "--sharing", "mps", "--json"}).output)["jobs"][0]["speed"],
      0.5, 1e-9);
}

TEST_F(CostPairsTest, CompareWithMeasurements) {
  made_up_.write("others.csv",
                 "gpu,model_a,batch_a,speed_a,util_a,memutil_a,model_b,batch_b,speed_b,util_b,"
                 "memutil_b\n"
                 "H,x,1,0.5,100,100,y,1,0.4,100,100\n"
                 "H,x,1,0.5,,,y,1,0.4,100,100\n");
  const std::string file = (made_up_.folder / "others.csv").string();
  const Outcome outcome = pairs({"--pairs", file, "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const json errors = parsed(outcome.output)["errors"];
  ASSERT_EQ(errors.size(), 1U) << errors;
  EXPECT_EQ(errors[0]["speeds"], 2);
  EXPECT_NEAR(errors[0]["mean_error"], 0.125, 1e-9) << "none of 0.5, a quarter of 0.4";
  EXPECT_EQ(errors[0]["within_bar"], 0.5);
  EXPECT_TRUE(
      outcome.errors.starts_with("gpemu: 2 speeds have no prediction, e.g. x:1 beside y:1: no "))
      << outcome.errors;
  made_up_.write("empty.csv", "gpu,model_a,batch_a,speed_a,model_b,batch_b,speed_b\n");
  const std::string empty = (made_up_.folder / "empty.csv").string();
  EXPECT_EQ(pairs({"--eval", "--table", empty}).code, 3);
  EXPECT_EQ(pairs({"--pairs", empty}).code, 3);
  const Outcome left_out = pairs({"--eval"});
  EXPECT_TRUE(left_out.output.contains("a third of the pairs")) << left_out.output;
  EXPECT_NE(left_out.output, pairs({"--eval", "--seed", "2"}).output) << "other thirds";
}

TEST_F(CostPairsTest, RefuseWhatMeansNothing) {
  const auto refused = [&](std::vector<std::string> words) {
    const Outcome outcome = pairs(std::move(words));
    return fmt::format("{} {}", outcome.code, outcome.errors);
  };
  EXPECT_EQ(refused({}),
            "2 gpemu: cost pairs needs 2 to 8 jobs, --eval, or --pairs with measured ones\n");
  EXPECT_EQ(refused({"one:1", "two:1"}), "2 gpemu: job one:1: --gpu is required for it\n");
  EXPECT_EQ(refused({"--eval", "90"}), "2 gpemu: job 90: --eval and --pairs take no jobs\n");
  for (const char* job : {"101/5", "90/x", "90/-1", "one:0", "one:x", ":5", "nan", "90/"}) {
    EXPECT_TRUE(
        refused({job, "90", "--gpu", "G"}).starts_with(fmt::format("2 gpemu: job {}: ", job)))
        << refused({job, "90", "--gpu", "G"});
  }
  EXPECT_TRUE(refused({"--gpu", "G", "one:1", "four:1"})
                  .starts_with("3 gpemu: four:1 was not measured on G beside another job, "));
  EXPECT_TRUE(refused({"--gpu", "H", "one:1", "two:1"}).contains("is on H, but on G, "));
  EXPECT_TRUE(refused({"--gpu", "G", "one:1", "two:1", "90"}).starts_with("10 gpemu: 3 jobs: "));
  EXPECT_EQ(refused({"--pairs", "/none.csv"}).front(), '3');
}

TEST_F(CostCommandTest, RecordedPricesOperationsOnEachGpu) {
  const Outcome outcome = made_up_.run(
      {"cost", "recorded", recordings(), "--gpu", "V100-PCIE-32GB", "--batch", "32,64", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const json rows = parsed(outcome.output);
  ASSERT_EQ(rows.size(), 2U) << rows;
  EXPECT_EQ(rows[1]["batch"], 64);
  const double forward = rows[1]["forward"]["device_ms"];
  EXPECT_GT(forward, 0);
  EXPECT_DOUBLE_EQ(rows[1]["backward"]["device_ms"], 2 * forward) << "twice the operation";
  EXPECT_GT(rows[1]["forward"]["with_host_ms"], forward);
  EXPECT_EQ(made_up_.run({"cost", "recorded", recordings(), "--gpu", "T4", "--batch", "1"}),
            (Outcome{10, "", "gpemu: the GPU file of T4 has no calibration\n"}));
}

}  // namespace
}  // namespace gpemu::tools
