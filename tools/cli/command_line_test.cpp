// SPDX-License-Identifier: Apache-2.0
#include "cli/command_line.hpp"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "cli/similar_word.hpp"
#include "cli/test_world.hpp"

namespace gpemu::tools {
namespace {

Outcome run(std::vector<std::string> words) {
  sim::RealClock clock;
  return run_command(std::move(words), real_world(clock));
}

void expect_refused(const std::vector<std::string>& words, const std::string& errors) {
  const Outcome outcome = run(words);
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.output, "");
  EXPECT_EQ(outcome.errors, errors);
}

TEST(CommandLine, NamesTheCommandThatWasMeant) {
  expect_refused({"trian"},
                 "gpemu: there is no command 'gpemu trian'; did you mean 'train'?; `gpemu --help` "
                 "lists them\n");
  expect_refused(
      {"node", "crate", "n0"},
      "gpemu: there is no command 'gpemu node crate'; did you mean 'create'?; `gpemu node "
      "--help` lists them\n");
  expect_refused({"frobnicate"},
                 "gpemu: there is no command 'gpemu frobnicate'; `gpemu --help` lists them\n");
}

TEST(CommandLine, NamesTheOptionThatWasMeant) {
  expect_refused({"train", "synthetic", "--modle", "resnet50"},
                 "gpemu: there is no option '--modle'; did you mean '--model'?; see `gpemu train "
                 "synthetic --help`\n");
  expect_refused({"train", "synthetic", "--xyz=3"},
                 "gpemu: there is no option '--xyz'; see `gpemu train synthetic --help`\n");
}

TEST(CommandLine, NamesTheFormsThatHaveAnOption) {
  const auto refused = [](std::vector<std::string> words, const std::string& text) {
    words.insert(words.begin(), "train");
    expect_refused(words, "gpemu: " + text + "\n");
  };
  refused({"synthetic", "--cold"},
          "`gpemu train synthetic` has no option '--cold'; that is for `gpemu train files`");
  refused({"service", "here:1", "--workers=8"},
          "`gpemu train service` has no option '--workers'; that is for `gpemu train files`, "
          "`gpemu train host`");
  refused({"files", "photos", "--clock", "virtual"},
          "`gpemu train files` has no option '--clock'; that is for `gpemu train synthetic`");
  refused({"files", "photos", "--data-service", "here:1"},
          "`gpemu train files` has no option '--data-service'; that is for `gpemu train service`");
  refused({"files", "--data", "photos"},
          "there is no option '--data': write its value alone; see `gpemu train files --help`");
  refused({"--job", "both"},
          "`gpemu train` has no option '--job'; that is for `gpemu train service`");
}

TEST(CommandLine, SaysWhichValuesAnOptionTakes) {
  const std::vector<std::string> train = {"train", "synthetic", "--model", "resnet18"};
  const auto refused = [&](const std::string& option, const std::string& value,
                           const std::string& text) {
    std::vector<std::string> words = train;
    words.insert(words.end(), {option, value});
    expect_refused(words, "gpemu: " + text + "; see `gpemu train synthetic --help`\n");
  };
  refused("--batch", "abc", "--batch 'abc': give a whole number, 1 to 1048576");
  refused("--batch", "0", "--batch '0': give a whole number, 1 to 1048576");
  refused("--steps", "-1", "--steps '-1': give a whole number, greater than 0");
  refused("--steps", "1e3", "--steps '1e3': give a whole number, greater than 0");
  refused("--clock", "fast", "--clock 'fast': give real or virtual");
  refused("--json", "", "--json: its value is empty");
  expect_refused({"train", "synthetic", "--model"},
                 "gpemu: --model: its value is missing; see `gpemu train synthetic --help`\n");
  expect_refused({"profile", "import", "x", "--tolerance", "nan"},
                 "gpemu: --tolerance 'nan': give a number, 0 to 50; see `gpemu profile import "
                 "--help`\n");
  expect_refused({"smi", "--loop", "NaN"},
                 "gpemu: --loop 'NaN': give a number, greater than 0; see `gpemu smi --help`\n");
}

TEST(CommandLine, NamesTheFaultRatherThanWhatFollowsFromIt) {
  expect_refused(
      {"cost", "--gpu", "T4", "--model", "resnet50", "--batch", "1,x"},
      "gpemu: --batch 'x': give a whole number, 1 to 1048576; see `gpemu cost --help`\n");
  expect_refused({"run", "--gpu", "T4", "--"},
                 "gpemu: program is required; see `gpemu run --help`\n");
}

TEST(CommandLine, OptionsOfCostAreNoneOfItsSubcommands) {
  expect_refused({"cost", "--gpu", "T4", "eval", "folder"},
                 "gpemu: eval excludes --gpu; see `gpemu cost eval --help`\n");
  expect_refused({"cost", "--json", "fit", "folder"},
                 "gpemu: fit excludes --json; see `gpemu cost fit --help`\n");
}

TEST(CommandLine, AsksForACommand) {
  expect_refused({}, "gpemu: which command? `gpemu --help` lists them\n");
  expect_refused({"data"}, "gpemu: which command? `gpemu data --help` lists them\n");
}

TEST(CommandLine, ShowsControlCharactersOfArguments) {
  expect_refused(
      {"tr\x1b[2J\nain"},
      "gpemu: there is no command 'gpemu tr\\x1b[2J\\nain'; `gpemu --help` lists them\n");
  const Outcome outcome = run({"data", "show", "/none/\x1b[31m\ngpemu: fine"});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_TRUE(
      outcome.errors.starts_with("gpemu: there is no data set /none/\\x1b[31m\\ngpemu: fine; "))
      << outcome.errors;
}

TEST(CommandLine, TakesADashAfterJsonEverywhere) {
  const Outcome flag = run({"profile", "list", "--json"});
  ASSERT_EQ(flag.code, 0) << flag.errors;
  EXPECT_EQ(run({"profile", "list", "--json", "-"}).output, flag.output);
  const Outcome file = run({"train", "synthetic", "--gpu", "V100-PCIE-32GB", "--model", "resnet18",
                            "--clock", "virtual", "--json", "-"});
  ASSERT_EQ(file.code, 0) << file.errors;
  EXPECT_TRUE(file.output.starts_with("{\n  \"format\": \"gpemu-train-1\"")) << file.output;
  expect_refused({"data", "show", "none", "more"},
                 "gpemu: unexpected argument 'more'; see `gpemu data show --help`\n");
}

TEST(SimilarWord, AllowsAChangeForEachThreeLetters) {
  const std::vector<std::string> known = {"train", "trace", "node", "data"};
  EXPECT_EQ(similar_word("trian", known), "train");
  EXPECT_EQ(similar_word("trains", known), "train");
  EXPECT_EQ(similar_word("nod", known), "node");
  EXPECT_EQ(similar_word("no", known), "");
  EXPECT_EQ(similar_word("xy", known), "");
  EXPECT_EQ(similar_word("", known), "");
  EXPECT_EQ(similar_word(std::string(100000, 'a'), known), "");
}

}  // namespace
}  // namespace gpemu::tools
