// SPDX-License-Identifier: Apache-2.0
#include "gpemu/profile/experiment_spec.hpp"

#include <cmath>
#include <string>

#include <gtest/gtest.h>

namespace gpemu::profile {
namespace {

const std::string kToyExperiment = R"(name = "toy"
title = "A toy"
paper = "Nobody, Nowhere 2026"

[run]
host = "h"
dataset = "d"
workers = 4
step_ms = 10

[variant.slow]
cache_share = 0.5

[variant.fast]

[[row]]
name = "one"
label = "one worker"
paper = 3
workers = 1

[[row]]
name = "four"
label = "four workers"
gpemu = 2.5

[[column]]
name = "gain"
title = "gain"
value = "slow.epoch_s / fast.epoch_s"

[[check]]
text = "it is faster"
test = "gain >= 1"
reason = "it is a toy"
)";

std::string experiment_fault(const std::string& old, const std::string& changed) {
  std::string text = kToyExperiment;
  const std::size_t at = text.find(old);
  EXPECT_NE(at, std::string::npos) << old;
  text.replace(at, old.size(), changed);
  const auto spec = parse_experiment_spec(text, "toy.toml");
  return spec ? "no fault" : spec.error().message;
}

TEST(ParseExperimentSpec, RowsChangeTheRunAndVariantsChangeRows) {
  const ExperimentSpec spec = parse_experiment_spec(kToyExperiment, "toy.toml").value();
  EXPECT_EQ(spec.variants, (std::vector<std::string>{"slow", "fast"}));
  ASSERT_EQ(spec.rows.size(), 2U);
  ASSERT_EQ(spec.rows[0].runs.size(), 2U);
  EXPECT_EQ(spec.rows[0].runs[0].workers, 1);
  EXPECT_EQ(spec.rows[0].runs[0].cache_share, 0.5);
  EXPECT_EQ(spec.rows[0].runs[1].cache_share, 1);
  EXPECT_EQ(spec.rows[1].runs[1].workers, 4);
  EXPECT_EQ(spec.rows[1].runs[1].host, "h");
  EXPECT_EQ(spec.rows[0].paper, 3);
  EXPECT_TRUE(std::isnan(spec.rows[0].gpemu));
  EXPECT_EQ(spec.rows[1].gpemu, 2.5);
  EXPECT_EQ(spec.columns[0].value, "slow.epoch_s / fast.epoch_s");
  EXPECT_EQ(spec.checks[0].reason, "it is a toy");
}

TEST(ParseExperimentSpec, NamesTheLineAndTheKey) {
  EXPECT_EQ(experiment_fault("workers = 4", "workers = 0"),
            "toy.toml:8: run: workers: expected a whole number from 1 to 4096");
  EXPECT_EQ(experiment_fault("workers = 4", "threads = 4"),
            "toy.toml:8: run: unknown key 'threads'");
  EXPECT_EQ(experiment_fault("workers = 1", "workers = \"1\""),
            "toy.toml:20: row one: workers: expected a whole number from 1 to 4096");
  EXPECT_EQ(experiment_fault("cache_share = 0.5", "cache = \"lru\""),
            "toy.toml:12: variant slow: cache: expected \"page\" or \"random\" or \"minio\" or "
            "\"small-first\"");
  EXPECT_EQ(experiment_fault("host = \"h\"\n", ""),
            "toy.toml:15: row one: no host or no dataset, here and in [run]");
  EXPECT_EQ(experiment_fault("name = \"four\"", "name = \"one\""),
            "toy.toml:22: row: there is another one named one");
  EXPECT_EQ(experiment_fault("name = \"four\"", "name = \"a-b\""),
            "toy.toml:22: row: name: expected a-z, 0-9 and _, a letter first");
  EXPECT_EQ(experiment_fault("paper = 3", "paper = \"3\""),
            "toy.toml:19: row one: paper: expected a number");
  EXPECT_EQ(experiment_fault("test = \"gain >= 1\"\n", ""),
            "toy.toml:32: check: test: missing; expected a string");
  EXPECT_EQ(experiment_fault("[run]", "[rum]"), "toy.toml:5: the file: unknown key 'rum'");
}

TEST(ParseExperimentSpec, RunsWithJobsHaveAPolicyOrAPlacement) {
  const std::string old = "host = \"h\"\ndataset = \"d\"\n";
  EXPECT_EQ(experiment_fault(old, "jobs = \"j\"\nplacement = \"fgd\"\nfleet = \"f\"\n"),
            "no fault");
  EXPECT_EQ(experiment_fault(old, "jobs = \"j\"\nplacement = \"fgd\"\n"),
            "toy.toml:16: row one: no fleet or no jobs, here and in [run]");
  EXPECT_EQ(experiment_fault(old, "jobs = \"j\"\nfleet = \"f\"\n"),
            "toy.toml:16: row one: no policy and no placement, here and in [run]");
  EXPECT_EQ(experiment_fault(old, "jobs = \"j\"\npolicy = \"fifo\"\nplacement = \"fgd\"\n"),
            "toy.toml:16: row one: a run has a policy or a placement");
}

const std::string kToyDataset = R"(name = "d"
source = "made up"
files = 10
bytes = 1000
percentiles = [[0, 50], [100, 150]]
)";

TEST(ParseDatasetSpec, ReadsFilesAndPercentiles) {
  const DatasetSpec spec = parse_dataset_spec(kToyDataset, "d.toml").value();
  EXPECT_EQ(spec.files, 10U);
  EXPECT_EQ(spec.bytes, 1000U);
  EXPECT_EQ(spec.percentiles, (std::vector<std::pair<double, double>>{{0, 50}, {100, 150}}));
}

TEST(ParseDatasetSpec, PercentilesAscendFrom0To100) {
  for (const char* wrong : {"[]", "1", "[[0, 50]]", "[[1, 5], [100, 9]]", "[[0, 5], [100, 4]]",
                            "[[0, 5], [100, 6], [101, 7]]", "[[0, nan], [100, 6]]"}) {
    std::string text = kToyDataset;
    text.replace(text.find("[[0"), std::string("[[0, 50], [100, 150]]").size(), wrong);
    const auto spec = parse_dataset_spec(text, "d.toml");
    ASSERT_FALSE(spec) << wrong;
    EXPECT_EQ(spec.error().message,
              "d.toml:5: percentiles: expected [per cent, bytes] pairs that ascend in both from 0 "
              "to 100 per cent");
  }
}

TEST(Experiments, AreValidAndNamedAsTheirFolders) {
  const std::vector<std::string> names = experiment_names(GPEMU_EXPERIMENTS_FOLDER);
  EXPECT_GE(names.size(), 5U);
  for (const std::string& name : names) {
    const auto spec = find_experiment(GPEMU_EXPERIMENTS_FOLDER, name);
    ASSERT_TRUE(spec) << spec.error().message;
    EXPECT_EQ(spec->name, name);
  }
  const auto missing = find_experiment(GPEMU_EXPERIMENTS_FOLDER, "coordle");
  ASSERT_FALSE(missing);
  EXPECT_TRUE(missing.error().message.starts_with(
      "there is no experiment \"coordle\" (did you mean coordl?); there are: "))
      << missing.error().message;
}

}  // namespace
}  // namespace gpemu::profile
