// SPDX-License-Identifier: Apache-2.0
#include "gpemu/profile/sweep_spec.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/profile/sweep_cells.hpp"

namespace gpemu::profile {
namespace {

constexpr const char* kSweep = R"toml(name = "s"
command = ["train", "--gpu", "{gpu}", "--batch={batch}", "{flags}", "{{batch}}"]
[factor]
gpu = ["T4", "V100"]
batch = { from = 8, to = 24, step = 8 }
flags = [[], ["--a", "b"]]
[[column]]
name = "speed"
title = "speed (images/s)"
value = "images_per_s / batch"
[[plot]]
x = "batch"
y = "speed"
series = "gpu"
)toml";

/// Returns the text with an addition in place of a part.
std::string changed_sweep(std::string_view part, std::string_view addition) {
  std::string text = kSweep;
  const std::size_t at = text.find(part);
  EXPECT_NE(at, std::string::npos) << part;
  return text.replace(at, part.size(), addition);
}

std::string sweep_fault(const std::string& text) {
  const auto spec = parse_sweep_spec(text, "s.toml");
  return spec ? "no fault" : spec.error().message;
}

std::vector<SweepCell> cells_in(const std::string& text) {
  return sweep_cells(parse_sweep_spec(text, "s.toml").value()).value();
}

TEST(SweepSpec, HasFactorsInTheOrderOfTheFile) {
  const SweepSpec spec = parse_sweep_spec(kSweep, "folder/s.toml").value();
  ASSERT_EQ(spec.factors.size(), 3U);
  EXPECT_EQ(spec.factors[0].name, "gpu");
  EXPECT_EQ(spec.factors[1].name, "batch");
  ASSERT_EQ(spec.factors[1].values.size(), 3U);
  EXPECT_EQ(spec.factors[1].values[2].text, "24");
  EXPECT_EQ(spec.factors[1].values[2].number, 24);
  EXPECT_EQ(spec.factors[2].values[1].text, "--a b");
  EXPECT_EQ(spec.title, "s");
  EXPECT_EQ(spec.folder, "folder");
  EXPECT_EQ(spec.columns[0].line, 10);
  EXPECT_EQ(spec.plots[0].title, "speed (images/s)");
}

TEST(SweepCells, AreAllCombinations) {
  const std::vector<SweepCell> cells = cells_in(kSweep);
  ASSERT_EQ(cells.size(), 12U);
  using Words = std::vector<std::string>;
  EXPECT_EQ(cells[0].words, (Words{"train", "--gpu", "T4", "--batch=8", "{batch}"}));
  EXPECT_EQ(cells[11].words,
            (Words{"train", "--gpu", "V100", "--batch=24", "--a", "b", "{batch}"}));
  EXPECT_EQ(cells[11].number, 12U);
}

TEST(SweepCells, HaveTheSameKeyInAnySweep) {
  const std::vector<SweepCell> before = cells_in(kSweep);
  const std::vector<SweepCell> after = cells_in(changed_sweep("\"T4\", ", "\"K80\", \"T4\", "));
  EXPECT_EQ(before[0].key, after[6].key);
  EXPECT_EQ(after[6].number, 7U);
  const std::vector<SweepCell> repeated =
      cells_in(changed_sweep("[factor]", "repeat = 2\n[factor]"));
  ASSERT_EQ(repeated.size(), 24U);
  EXPECT_EQ(repeated[2].key, before[1].key);
  EXPECT_NE(repeated[3].key, before[1].key);
}

TEST(SweepCells, FollowRules) {
  const std::string rules = std::string(kSweep) +
                            "[[only]]\ngpu = \"T4\"\n[[only]]\nbatch = [8, 16]\n"
                            "[[exclude]]\nbatch = 8\nflags = [[\"--a\", \"b\"]]\n";
  // T4 with three batches and V100 with two, each with two sets of flags; less one for batch 8.
  EXPECT_EQ(cells_in(rules).size(), 3U * 2 + 2 * 2 - 2);
  const SweepSpec none =
      parse_sweep_spec(std::string(kSweep) + "[[exclude]]\ngpu = [\"T4\", \"V100\"]\n", "s")
          .value();
  EXPECT_EQ(sweep_cells(none).error().message, "the rules of s leave no cell");
}

TEST(SweepCells, AreNotTheSameRunTwice) {
  const SweepSpec spec =
      parse_sweep_spec(changed_sweep("[[], [\"--a\", \"b\"]]", "[[], [\"{batch}\"]]"), "s").value();
  EXPECT_TRUE(sweep_cells(spec).has_value());
  const SweepSpec same =
      parse_sweep_spec(
          "name = \"s\"\ncommand = [\"x\", \"{a}{b}\"]\n[factor]\na = [1, 11]\nb = [11, 1]\n"
          "[[column]]\nname = \"c\"\nvalue = \"c\"\n",
          "s")
          .value();
  EXPECT_EQ(sweep_cells(same).error().message, "cells 1 and 4 are the same: gpemu x 111");
}

TEST(SweepSpec, FaultsSayWhereAndWhat) {
  EXPECT_EQ(sweep_fault(changed_sweep("{flags}", "{flag}")),
            "s.toml:2: command: there is no factor 'flag'; write {{flag}} for the text {flag}");
  EXPECT_EQ(sweep_fault(changed_sweep("\"{flags}\", ", "")),
            "s.toml:6: factor.flags: the command has no {flags}; for runs of the same command, "
            "write `repeat = N`");
  EXPECT_EQ(sweep_fault(changed_sweep("\"T4\", \"V100\"", "\"T4\", \"T4\"")),
            "s.toml:4: factor.gpu: 'T4' is there twice");
  EXPECT_EQ(sweep_fault(changed_sweep("\"T4\", \"V100\"", "")),
            "s.toml:4: factor.gpu: expected values in [ ], or { from = 1, to = 10 }");
  EXPECT_EQ(sweep_fault(changed_sweep("to = 24", "to = 4")),
            "s.toml:5: factor.batch: expected whole numbers: from, to, which is not less, and a "
            "step above 0");
  EXPECT_EQ(sweep_fault(changed_sweep("to = 24", "too = 24")),
            "s.toml:5: factor.batch: unknown key 'too' (did you mean to?)");
  EXPECT_EQ(sweep_fault(changed_sweep("y = \"speed\"", "y = \"sped\"")),
            "s.toml:13: plot: y: there is no column 'sped'");
  EXPECT_EQ(sweep_fault(changed_sweep("series = \"gpu\"", "series = \"speed\"")),
            "s.toml:14: plot: series: there is no factor 'speed'; there are: gpu, batch, flags");
  EXPECT_EQ(sweep_fault(changed_sweep("name = \"speed\"", "name = \"batch\"")),
            "s.toml:7: column batch: there is another factor or column of this name");
  EXPECT_EQ(sweep_fault(changed_sweep("name = \"speed\"", "name = \"cell\"")),
            "s.toml:7: column cell: the table has a column 'cell' already");
  EXPECT_EQ(sweep_fault(std::string(kSweep) + "[[exclude]]\nbatch = 9\n"),
            "s.toml:16: exclude: batch has no value '9'");
  EXPECT_EQ(sweep_fault(changed_sweep("\"train\"", "\"sweep\"")),
            "s.toml:2: command: a sweep does not start sweeps");
  EXPECT_EQ(sweep_fault(changed_sweep("[factor]", "repeat = 0\n[factor]")),
            "s.toml:3: repeat: expected a whole number from 1 to 100000");
}

TEST(SweepSpec, KnowsEngines) {
  const SweepSpec spec =
      parse_sweep_spec(std::string(kSweep) +
                           "[slurm]\noptions = [\"--time=5\"]\n[kubernetes]\nimage = \"i\"\n"
                           "volume = { hostPath = { path = \"/s\" } }\n",
                       "s.toml")
          .value();
  EXPECT_EQ(spec.slurm_options, std::vector<std::string>{"--time=5"});
  EXPECT_EQ(spec.image, "i");
  EXPECT_NE(spec.volume.find("\"path\" : \"/s\""), std::string::npos) << spec.volume;
  EXPECT_EQ(sweep_fault(std::string(kSweep) + "[kubernetes]\nimage = \"i\"\n"),
            "s.toml:15: kubernetes.volume: expected the source of a volume that holds this file's "
            "folder, such as { nfs = { server = \"...\", path = \"...\" } }");
  EXPECT_EQ(sweep_fault(std::string(kSweep) + "[slurm]\noptions = [\"x\"]\n"),
            "s.toml:16: slurm.options: 'x' is no option; expected such as \"--time=10:00\"");
}

}  // namespace
}  // namespace gpemu::profile
