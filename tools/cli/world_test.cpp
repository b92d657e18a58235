// SPDX-License-Identifier: Apache-2.0
#include "cli/world.hpp"

#include <algorithm>
#include <sstream>

#include <gtest/gtest.h>

#include "gpemu/device/device.hpp"
#include "gpemu/device/node.hpp"

#include "cli/test_world.hpp"

namespace gpemu::tools {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): literals only.

TEST(WorldTest, HasTheNodes) {
  const TestWorld made_up;
  EXPECT_EQ(made_up.run({"node", "list"}),
            (Outcome{0, fmt::format("no nodes in {}\n", made_up.world.nodes.string()), ""}));
}

TEST(WorldTest, NamesTheDefaultNode) {
  TestWorld made_up;
  made_up.variables["GPEMU_NODE"] = "n7";
  made_up.variables["PATH"] = "/bin";
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"smi"}, {"run", "--", "sh"}}) {
    const Outcome outcome = made_up.run(words);
    EXPECT_EQ(outcome.code, 3) << words.front();
    EXPECT_TRUE(outcome.errors.starts_with("gpemu: no node named 'n7'")) << outcome.errors;
  }
}

TEST(WorldTest, HasTheDatabases) {
  TestWorld made_up;
  made_up.world.profiles = {.installed = "/none/profiles.db", .user = {}};
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"profile", "list"},
        {"profile", "show", "--gpu", "T4"},
        {"cost", "--gpu", "T4", "--model", "resnet50", "--batch", "1"},
        {"node", "create", "n", "--gpu", "T4"},
        {"train", "synthetic", "--gpu", "T4", "--model", "resnet50"}}) {
    const Outcome outcome = made_up.run(words);
    EXPECT_EQ(outcome.code, 3) << words.front();
    EXPECT_TRUE(outcome.errors.contains("/none/profiles.db")) << outcome.errors;
  }
  EXPECT_EQ(made_up.run({"profile", "remove", "mine"}),
            (Outcome{2, "",
                     "gpemu: there is no place for your own profiles: set HOME or "
                     "XDG_DATA_HOME\n"}));
}

TEST(WorldTest, FindsVariablesByTheirWholeNames) {
  TestWorld made_up;
  made_up.variables = {{"A", "1=2"}, {"AB", ""}};
  EXPECT_EQ(made_up.world.variable("A"), "1=2");
  EXPECT_EQ(made_up.world.variable("AB"), "");
  EXPECT_EQ(made_up.world.variable("B"), std::nullopt);
  EXPECT_EQ(made_up.world.variable(""), std::nullopt);
}

TEST(WorldTest, HasTheSearchPathOfPrograms) {
  TestWorld made_up;
  made_up.variables["PATH"] = "/none";
  for (const char* command : {"run", "predict"}) {
    EXPECT_EQ(made_up.run({command, "--gpu", "T4", "--", "sh"}),
              (Outcome{3, "", "gpemu: cannot start 'sh': no such program in PATH\n"}));
  }
}

TEST(WorldTest, HasTheTerminal) {
  TestWorld made_up;
  const std::vector<std::string> words = {"cost",     "--gpu",   "V100", "--model",
                                          "resnet50", "--batch", "64"};
  EXPECT_TRUE(made_up.run(words).output.contains("  +-  ")) << "no UTF-8";
  made_up.terminal = {.columns = 70, .output_columns = 40, .utf8 = true};
  const std::string table = made_up.run(words).output;
  EXPECT_TRUE(table.contains("\nbatch     \u00b1  pinned copy ms\n")) << table;
  const std::string help = made_up.run({"run", "--help"}).output;
  const auto widest = [](const std::string& text) {
    std::size_t widest = 0;
    std::istringstream lines(text.substr(0, text.find("\nExamples")));
    for (std::string line; std::getline(lines, line);) widest = std::max(widest, line.size());
    return widest;
  };
  EXPECT_LE(widest(help), 70U) << help;
  made_up.terminal.columns = 110;
  EXPECT_GT(widest(made_up.run({"run", "--help"}).output), 70U);
}

TEST(WorldTest, HasTheFolderForTemporaryFiles) {
  TestWorld made_up;
  made_up.world.temporary = made_up.folder / "none";
  const Outcome outcome = made_up.run({"run", "--gpu", "T4", "--", "sh"});
  EXPECT_EQ(outcome.code, 7);
  EXPECT_TRUE(outcome.errors.contains("TMPDIR must name a folder for records")) << outcome.errors;
}

TEST(WorldTest, HasTheClockOfRuns) {
  const TestWorld made_up;
  const Outcome outcome = made_up.run({"train", "synthetic", "--gpu", "V100-PCIE-32GB", "--model",
                                       "resnet50", "--batch", "64", "--steps", "5", "--quiet"});
  EXPECT_EQ(outcome, (Outcome{0, "", ""}));
  EXPECT_EQ(made_up.clock.now(), TimePoint(5 * 180ms)) << "a step takes 60 and 120 ms";
}

TEST(WorldTest, HasTheClockOfWatchedNodes) {
  TestWorld made_up;
  ASSERT_EQ(made_up.run({"node", "create", "n", "--gpu", "T4"}).code, 0);
  const auto node = device::Node::open("n", made_up.world.nodes).value();
  const auto device = device::Device::open(node, 0, made_up.clock).value();
  device->default_stream().launch(25ms);
  EXPECT_EQ(made_up.run({"smi", "--query-gpu=utilization.gpu", "--format=csv", "--period-ms=100"}),
            (Outcome{0, "utilization.gpu [%]\n25 %\n", ""}));
  EXPECT_EQ(made_up.clock.now(), TimePoint(100ms));
}

}  // namespace
}  // namespace gpemu::tools
