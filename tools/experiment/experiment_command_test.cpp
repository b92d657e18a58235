// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "gpemu/base/file.hpp"

#include "cli/test_world.hpp"

namespace gpemu::tools {
namespace {

/// A host whose worker prepares 100 images a second, and whose disk reads as many.
const std::string kSlowHost = slow_host(10, R"([[storage]]
name = "hdd"
access_ms = 10
mb_per_s = 1000000
source = "s"
)");

constexpr const char* kTinyDataset = R"(name = "tiny"
source = "made up"
files = 640
bytes = 640
percentiles = [[0, 1], [100, 1]]
)";

/// On batches of 64, the made-up GPU computes for 180 ms.
constexpr const char* kTinyExperiment = R"toml(name = "tiny"
title = "A tiny experiment"
paper = "Nobody, Nowhere 2026"
[run]
host = "slow"
dataset = "tiny"
gpu = "V100-PCIE-32GB"
model = "resnet50"
batch = 64
[variant.cold]
cache_share = 0
[variant.cached]
[[row]]
name = "one"
label = "one worker"
paper = 2
gpemu = 1.9
[[row]]
name = "two"
label = "two workers"
workers = 2
[[column]]
name = "ratio"
title = "cold / cached"
value = "cold.epoch_s / cached.epoch_s"
[[column]]
name = "gpu"
title = "GPU (s)"
value = "cached.step_s"
[[check]]
text = "reading takes time"
test = "ratio > 1.5"
)toml";

class ExperimentCommand : public testing::Test {
 protected:
  ExperimentCommand() {
    world_.write("hosts/slow.toml", kSlowHost);
    world_.write("experiments/datasets/tiny.toml", kTinyDataset);
    world_.write("experiments/tiny/experiment.toml", kTinyExperiment);
  }

  /// Returns the experiment's text with an addition, as a file.
  [[nodiscard]] std::string changed(const std::string& old, const std::string& text) const {
    std::string whole = kTinyExperiment;
    const std::size_t at = whole.find(old);
    EXPECT_NE(at, std::string::npos);
    whole.replace(at, old.size(), text);
    return world_.write("changed.toml", whole);
  }

  TestWorld world_;
};

TEST_F(ExperimentCommand, ListsExperiments) {
  const Outcome list = world_.run({"experiment", "list"});
  EXPECT_EQ(list.code, 0) << list;
  EXPECT_EQ(squeezed(list.output), "experiment result\ntiny A tiny experiment\n");
}

TEST_F(ExperimentCommand, ShowsItsNumbersBesideThoseOfOthers) {
  const Outcome run = world_.run({"experiment", "run", "tiny", "--quiet", "--json", "-"});
  ASSERT_EQ(run.code, 0) << run;
  const auto json = parsed(run.output);
  EXPECT_EQ(json["met"], 1);
  EXPECT_EQ(json["missed"], 0);
  const auto& rows = json["experiments"][0]["rows"];
  // One worker reads and decodes 640 images at 10 ms each; the last batch is computed for 180 ms.
  EXPECT_NEAR(rows[0]["runs"]["cold"]["epoch_s"].get<double>(), 12.8, 0.3);
  EXPECT_NEAR(rows[0]["runs"]["cached"]["epoch_s"].get<double>(), 6.4, 0.3);
  EXPECT_NEAR(rows[0]["values"][1].get<double>(), 1.8, 1e-9);
  EXPECT_EQ(rows[0]["paper"], 2);
  EXPECT_TRUE(rows[1]["paper"].is_null());

  const Outcome text = world_.run({"experiment", "run", "--all", "--quiet"});
  EXPECT_EQ(text.output, "");
  const Outcome table = world_.run({"experiment", "run", "tiny"});
  EXPECT_TRUE(squeezed(table.output).contains("cold / cached paper GPEmu GPU (s)\none worker "))
      << table;
  EXPECT_TRUE(table.output.contains("met: reading takes time (1.")) << table;
  EXPECT_TRUE(table.output.ends_with("1 check met\n")) << table;
}

TEST_F(ExperimentCommand, WritesAPage) {
  const std::string page = (world_.folder / "page.html").string();
  const Outcome run = world_.run({"experiment", "run", "tiny", "--quiet", "--report", page});
  ASSERT_EQ(run.code, 0) << run;
  const std::string html = read_file(page).value();
  EXPECT_TRUE(html.contains("A tiny experiment"));
  EXPECT_TRUE(html.contains("one worker: cold"));
}

TEST_F(ExperimentCommand, AMissedCheckFailsUnlessItHasAReason) {
  const Outcome met = world_.run({"experiment", "check", "--quiet"});
  EXPECT_EQ(met.code, 0) << met;
  const std::string missed = changed("ratio > 1.5", "ratio > 3");
  const Outcome fails = world_.run({"experiment", "check", missed, "--quiet"});
  EXPECT_EQ(fails.code, 1) << fails;
  EXPECT_TRUE(fails.output.ends_with("\n0 checks met, 1 missed\n")) << fails;
  const std::string explained =
      changed("test = \"ratio > 1.5\"", "test = \"ratio > 3\"\nreason = \"it is a toy\"");
  const Outcome passes = world_.run({"experiment", "check", explained, "--quiet"});
  EXPECT_EQ(passes.code, 0) << passes;
  EXPECT_TRUE(passes.output.contains("; it is a toy\n")) << passes;
}

TEST_F(ExperimentCommand, SaysWhatIsWrong) {
  const auto message = [this](const std::string& old, const std::string& text) {
    return world_.run({"experiment", "run", changed(old, text), "--quiet"}).errors;
  };
  EXPECT_EQ(
      world_.run({"experiment", "run"}).errors,
      "gpemu: which experiment? Name one, or use --all; `gpemu experiment list` lists them\n");
  EXPECT_EQ(world_.run({"experiment", "run", "tinny"}).errors,
            "gpemu: there is no experiment \"tinny\" (did you mean tiny?); there are: tiny\n");
  EXPECT_EQ(message("host = \"slow\"", "host = \"fast\""),
            "gpemu: experiment tiny, row one: there is no host \"fast\"; there are: slow. The path "
            "of a TOML file describes another one\n");
  EXPECT_EQ(
      message("gpu = \"V100-PCIE-32GB\"\n", ""),
      "gpemu: experiment tiny, row one: without gpu and model, it needs step_ms and copy_ms\n");
  EXPECT_EQ(message("cold.epoch_s", "hot.epoch_s"),
            "gpemu: experiment tiny, column ratio: 'hot.epoch_s' is not an earlier column or "
            "VARIANT.QUANTITY\n");
  EXPECT_EQ(
      message("batch = 64", "peers = \"partitioned\""),
      "gpemu: experiment tiny, row one: peers = \"partitioned\" needs a network, and the host "
      "slow has no table [network]\n");
}

}  // namespace
}  // namespace gpemu::tools
