// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "gpemu/base/file.hpp"

#include "cli/test_world.hpp"
#include "sweep/cell_runner.hpp"
#include "sweep/cell_store.hpp"

namespace gpemu::tools {
namespace {

using Words = std::vector<std::string>;

constexpr const char* kTinySweep = R"toml(name = "tiny"
command = ["train", "--gpu", "{gpu}", "--batch", "{batch}"]
[factor]
gpu = ["T4", "V100"]
batch = [1, 2, 4]
[[column]]
name = "speed"
title = "speed (images/s)"
value = "step.speed * batch"
[[column]]
name = "by"
value = "verdict"
[[plot]]
x = "batch"
y = "speed"
series = "gpu"
[[plot]]
x = "gpu"
y = "speed"
)toml";

class SweepCommand : public testing::Test {
 protected:
  SweepCommand() : file_(world_.write("tiny.toml", kTinySweep)) {
    world_.printing = [this](const Words& words) {
      const std::scoped_lock lock(mutex_);
      started_.push_back(words);
      return answer_ ? answer_(words) : trained(words);
    };
  }

  /// What a made-up `gpemu train` prints: the V100 is twice as fast.
  static run::PrintedRun trained(const Words& words) {
    const bool fast = std::ranges::find(words, "V100") != words.end();
    return {.code = 0,
            .output = fast ? R"({"step": {"speed": 2.5}, "verdict": "GPU, \"copy\""})"
                           : R"({"step": {"speed": 1.25}, "verdict": "GPU"})",
            .errors = {}};
  }

  [[nodiscard]] Outcome sweep(Words words = {}) {
    words.insert(words.begin(), {"sweep", file_});
    return world_.run(std::move(words));
  }
  [[nodiscard]] std::string file(const std::string& name) const {
    return read_file(world_.folder / "tiny.sweep" / name).value_or("no such file");
  }

  TestWorld world_;
  std::string file_;
  std::mutex mutex_;
  std::vector<Words> started_;
  std::function<Result<run::PrintedRun>(const Words& words)> answer_;
};

constexpr const char* kWholeTable =
    "cell,exit_status,gpu,batch,speed,by\n"
    "1,0,T4,1,1.25,GPU\n2,0,T4,2,2.5,GPU\n3,0,T4,4,5,GPU\n"
    "4,0,V100,1,2.5,\"GPU, \"\"copy\"\"\"\n5,0,V100,2,5,\"GPU, \"\"copy\"\"\"\n"
    "6,0,V100,4,10,\"GPU, \"\"copy\"\"\"\n";

TEST_F(SweepCommand, RunsEachCellOnce) {
  const Outcome first = sweep();
  EXPECT_EQ(first.code, 0) << first.errors;
  EXPECT_EQ(started_.size(), 6U);
  EXPECT_NE(first.output.find("6 cells: 6 done\n"), std::string::npos) << first.output;
  EXPECT_EQ(file("table.csv"), kWholeTable);
  EXPECT_EQ(sweep().code, 0);
  EXPECT_EQ(started_.size(), 6U);
}

TEST_F(SweepCommand, StartsGpemu) {
  EXPECT_EQ(sweep({"--cells", "5"}).code, 0);
  ASSERT_EQ(started_.size(), 1U);
  EXPECT_EQ(started_[0], (Words{world_.world.executable.string(), "train", "--gpu", "V100",
                                "--batch", "2", "--json", "-"}));
}

TEST(PrintingWords, StandBeforeTheProgram) {
  EXPECT_EQ(printing_words({"run", "--", "x", "--json"}),
            (Words{"run", "--json", "-", "--", "x", "--json"}));
  EXPECT_EQ(printing_words({"cost", "--json"}), (Words{"cost", "--json"}));
}

TEST_F(SweepCommand, RunsOnlyWhatIsNew) {
  EXPECT_EQ(sweep().code, 0);
  std::string text = kTinySweep;
  text.replace(text.find("[1, 2, 4]"), 9, "[1, 2, 3, 4]");
  world_.write("tiny.toml", text);
  EXPECT_EQ(sweep().code, 0);
  EXPECT_EQ(started_.size(), 8U);
  EXPECT_NE(file("table.csv").find("3,0,T4,3,3.75,GPU\n"), std::string::npos);
}

TEST_F(SweepCommand, PartsMakeTheSameTable) {
  EXPECT_EQ(sweep({"--part", "1/4", "--jobs", "1"}).code, 0);
  EXPECT_EQ(started_.size(), 2U);
  EXPECT_EQ(file("table.csv"), "no such file");
  for (const char* part : {"3/4", "0/4", "2/4"}) EXPECT_EQ(sweep({"--part", part}).code, 0);
  const Outcome collected = sweep({"--collect"});
  EXPECT_EQ(collected.code, 0);
  EXPECT_EQ(started_.size(), 6U);
  EXPECT_EQ(file("table.csv"), kWholeTable);
}

TEST_F(SweepCommand, NamesCellsThatFail) {
  answer_ = [](const Words& words) -> Result<run::PrintedRun> {
    if (std::ranges::find(words, "4") == words.end()) return trained(words);
    return run::PrintedRun{.code = 4, .output = "{}", .errors = "one\ntwo\nthree\nfour\n"};
  };
  const Outcome failed = sweep({"--jobs", "2"});
  EXPECT_EQ(failed.code, 1);
  EXPECT_NE(failed.output.find("cell 3 failed (exit status 4): gpu T4, batch 4\n"
                               "  two\n  three\n  four\n"),
            std::string::npos)
      << failed.output;
  EXPECT_NE(failed.output.find("run them again: gpemu sweep " + file_ + " --retry --cells 3,6\n"),
            std::string::npos)
      << failed.output;
  EXPECT_NE(file("table.csv").find("\n3,4,T4,4,,\n"), std::string::npos) << file("table.csv");
  EXPECT_NE(file("page.html").find("Cells that failed"), std::string::npos);
  // A failure is a result: it is not run again by itself.
  EXPECT_EQ(sweep().code, 1);
  EXPECT_EQ(started_.size(), 6U);
  answer_ = nullptr;
  EXPECT_EQ(sweep({"--retry", "--cells", "3"}).code, 1);
  EXPECT_EQ(started_.size(), 7U);
  EXPECT_EQ(sweep({"--retry"}).code, 0);
  EXPECT_EQ(started_.size(), 8U);
  EXPECT_EQ(file("table.csv"), kWholeTable);
}

TEST_F(SweepCommand, ACommandWithoutJsonFails) {
  answer_ = [](const Words&) { return run::PrintedRun{.code = 0, .output = "hm\n", .errors = {}}; };
  const Outcome outcome = sweep({"--cells", "1"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.output.find("  hm\n  gpemu sweep: the command printed no JSON\n"),
            std::string::npos)
      << outcome.output;
}

TEST_F(SweepCommand, AStoppedCommandHasNoResult) {
  answer_ = [](const Words& words) -> Result<run::PrintedRun> {
    return run::PrintedRun{.code = 130, .output = trained(words).output, .errors = {}};
  };
  const Outcome outcome = sweep({"--jobs", "1"});
  EXPECT_EQ(outcome.code, 130);
  EXPECT_EQ(outcome.errors,
            "gpemu: stopped with 0 of 6 cells run; the same command goes on from there\n");
}

TEST_F(SweepCommand, WaitsForCellsOfOtherWorkers) {
  const auto cells = profile::sweep_cells(profile::read_sweep_spec(file_).value()).value();
  const CellStore store = CellStore::open(world_.folder / "tiny.sweep").value();
  auto lock = store.lock(cells[0]).value();
  ASSERT_TRUE(lock.has_value());
  EXPECT_FALSE(store.lock(cells[0]).value().has_value());
  EXPECT_TRUE(store.lock(cells[1]).value().has_value());
  // The other worker gives up its cell when this one has started the last of the others.
  answer_ = [&](const Words& words) -> Result<run::PrintedRun> {
    if (started_.size() == 5) lock.reset();
    return trained(words);
  };
  EXPECT_EQ(sweep({"--jobs", "1"}).code, 0);
  ASSERT_EQ(started_.size(), 6U);
  EXPECT_EQ(started_[5][3], "T4");
  EXPECT_EQ(file("table.csv"), kWholeTable);
}

TEST_F(SweepCommand, HasAPageWithErrorBars) {
  EXPECT_EQ(sweep().code, 0);
  const std::string page = file("page.html");
  EXPECT_NE(page.find("6 cells: 6 done"), std::string::npos);
  EXPECT_NE(page.find("speed (images/s)"), std::string::npos);
  EXPECT_NE(page.find("How the cells were run"), std::string::npos);
  EXPECT_NE(page.find("<figure>"), std::string::npos);
}

TEST_F(SweepCommand, PrintsWhatItWouldRun) {
  const Outcome outcome = sweep({"--print", "--cells", "2-3,6"});
  EXPECT_EQ(
      outcome.output,
      "2: gpemu train --gpu T4 --batch 2 --json -\n3: gpemu train --gpu T4 --batch 4 --json -\n"
      "6: gpemu train --gpu V100 --batch 4 --json -\n");
  EXPECT_FALSE(std::filesystem::exists(world_.folder / "tiny.sweep"));
}

TEST_F(SweepCommand, FaultsSayWhatToDo) {
  EXPECT_EQ(sweep({"--cells", "7"}).errors,
            "gpemu: --cells 7: expected numbers from 1 to 6, such as 3,7-9\n");
  EXPECT_EQ(sweep({"--part", "4/4"}).errors,
            "gpemu: --part 4/4: expected I/N, with I from 0 to N - 1, such as 0/16\n");
  std::string text = kTinySweep;
  text.replace(text.find("step.speed"), 10, "step.sped");
  world_.write("tiny.toml", text);
  EXPECT_EQ(sweep().errors, "gpemu: " + file_ +
                                ":9: column speed: the result has no 'step.sped'; 'step' has "
                                "speed\n");
  text.replace(text.find("step.sped *"), 11, "step.sped +*");
  world_.write("tiny.toml", text);
  EXPECT_EQ(sweep().errors, "gpemu: " + file_ +
                                ":9: column speed: 'step.sped +* batch', character 12: expected a "
                                "number, a name or a bracket\n");
}

TEST_F(SweepCommand, ACellFileThatIsDamagedIsNamed) {
  EXPECT_EQ(sweep().code, 0);
  const auto files = list_folder(world_.folder / "tiny.sweep" / "cells").value();
  ASSERT_EQ(files.size(), 6U);
  ASSERT_TRUE(write_file_atomically(files[0], "{").has_value());
  const Outcome outcome = sweep();
  EXPECT_EQ(outcome.code, 6);
  EXPECT_NE(outcome.errors.find(files[0].string() +
                                ": not a cell of a sweep; remove the file to run cell "),
            std::string::npos)
      << outcome.errors;
}

/// Answers like Slurm: the job's tasks run at once, in this process.
class SweepOnSlurm : public SweepCommand {
 protected:
  SweepOnSlurm() {
    answer_ = [this](const Words& words) -> Result<run::PrintedRun> {
      if (words[0] == "sbatch") {
        submitted_ = words.back();
        return run::PrintedRun{.code = 0, .output = "42;here\n", .errors = {}};
      }
      if (words[0] == "squeue") return run::PrintedRun{.code = 0, .output = queue_, .errors = {}};
      return trained(words);
    };
  }

  std::string submitted_, queue_;
};

TEST_F(SweepOnSlurm, SubmitsAnArrayOfParts) {
  EXPECT_EQ(sweep({"--part", "1/3"}).code, 0);
  const Outcome outcome = sweep({"--on", "slurm", "--tasks", "3", "--jobs", "2", "--detach"});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(outcome.output,
            "submitted 42; `gpemu sweep " + file_ + " --collect` collects its cells\n");
  const std::string folder = (world_.folder / "tiny.sweep").string();
  EXPECT_EQ(submitted_, folder + "/slurm.sh");
  EXPECT_EQ(file("slurm.sh"),
            "#!/bin/sh\n#SBATCH --job-name=tiny\n#SBATCH --array=0,2\n#SBATCH --cpus-per-task=2\n"
            "#SBATCH --output=" +
                folder + "/slurm-%A_%a.out\nexec " + world_.world.executable.string() + " sweep " +
                file_ + " --folder " + folder +
                " --part \"$SLURM_ARRAY_TASK_ID/3\" --jobs 2 --quiet\n");
}

TEST_F(SweepOnSlurm, SaysIfTheJobEndsTooEarly) {
  const Outcome outcome = sweep({"--on", "slurm", "--quiet"});
  EXPECT_EQ(outcome.code, 9);
  EXPECT_EQ(outcome.errors, "gpemu: 42 has ended with 0 of 6 cells run; see " +
                                (world_.folder / "tiny.sweep" / "slurm-42_*.out").string() +
                                ". The same command goes on from there\n");
}

TEST_F(SweepCommand, AsKubernetesForAnIndexedJob) {
  EXPECT_EQ(sweep({"--on", "kubernetes"}).errors,
            "gpemu: " + file_ +
                ": --on kubernetes needs a table [kubernetes] with the image of the containers and "
                "a volume\n");
  world_.write("tiny.toml", std::string(kTinySweep) +
                                "[kubernetes]\nimage = \"gpemu:1\"\n"
                                "volume = { hostPath = { path = \"/srv\" } }\n");
  const Outcome outcome = sweep({"--on", "kubernetes", "--tasks", "2", "--print"});
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const nlohmann::json job = parsed(outcome.output);
  EXPECT_EQ(job["metadata"]["generateName"], "sweep-tiny-");
  EXPECT_EQ(job["spec"]["completions"], 2);
  EXPECT_EQ(job["spec"]["completionMode"], "Indexed");
  const auto& pod = job["spec"]["template"]["spec"];
  EXPECT_EQ(pod["volumes"][0]["hostPath"]["path"], "/srv");
  EXPECT_EQ(pod["containers"][0]["volumeMounts"][0]["mountPath"], world_.folder.string());
  EXPECT_EQ(pod["containers"][0]["command"],
            (Words{"gpemu", "sweep", file_, "--folder", (world_.folder / "tiny.sweep").string(),
                   "--part", "$(JOB_COMPLETION_INDEX)/2", "--jobs", "1", "--quiet"}));
}

}  // namespace
}  // namespace gpemu::tools
