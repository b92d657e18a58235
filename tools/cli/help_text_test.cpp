// SPDX-License-Identifier: Apache-2.0
#include "cli/help_text.hpp"

#include <cstdlib>
#include <sstream>

#include <gtest/gtest.h>

#include "cli/app_of.hpp"
#include "cli/command_line.hpp"
#include "cli/command_tree.hpp"
#include "cli/completion.hpp"
#include "cli/parser_text.hpp"

namespace gpemu::tools {
namespace {

/// A command like ours.
class HelpTextTest : public testing::Test {
 protected:
  HelpTextTest() {
    Command run = root_.subcommand("run", "Run a program");
    run.option("--gpu", gpu_, "Kind of GPU").required();
    run.option("--batch", batch_, "Samples per step").range(1, 1024).show_default();
    run.option("--clock", clock_, "How time passes").one_of({"real", "virtual"});
    run.option("--kind", kind_, "Kind of time")
        .one_of({"forward", "backward_optimizer", "all_reduce"});
    run.option("--json", gpu_, "Write the result");
    run.option("--to", to_, "Where to write").placeholder("FOLDER");
    run.flag("-q,--quiet", quiet_, "No table").excludes("--json");
    run.option("folder", gpu_, "Folder to read");
    run.notes("Example:\n  gpemu run .x\\n");
  }

  /// Returns CLI11's object of "run".
  [[nodiscard]] const CLI::App& run() const { return *app_of(root_).get_subcommand("run"); }

  CommandTree commands_{"Emulates", "gpemu"};
  Command root_ = commands_.root();
  std::string gpu_, clock_, kind_, to_;
  int batch_ = 64;
  bool quiet_ = false;
};

TEST_F(HelpTextTest, NamesValuesByWhatTheyAre) {
  const CLI::App& run = this->run();
  EXPECT_EQ(option_usage(*run.get_option("--gpu")), "--gpu GPU");
  EXPECT_EQ(option_usage(*run.get_option("--batch")), "--batch NUMBER");
  EXPECT_EQ(option_usage(*run.get_option("--clock")), "--clock real|virtual");
  EXPECT_EQ(option_usage(*run.get_option("--json")), "--json FILE");
  EXPECT_EQ(option_usage(*run.get_option("--kind")), "--kind KIND");
  EXPECT_EQ(option_meaning(*run.get_option("--kind")),
            "Kind of time (one of forward, backward_optimizer, all_reduce)");
  EXPECT_EQ(option_usage(*run.get_option("--to")), "--to FOLDER");
  EXPECT_EQ(option_usage(*run.get_option("--quiet")), "-q,--quiet");
  EXPECT_EQ(option_usage(*run.get_option("folder")), "folder");
}

TEST_F(HelpTextTest, SaysRangesDefaultsAndConditions) {
  const CLI::App& run = this->run();
  EXPECT_EQ(option_meaning(*run.get_option("--gpu")), "Kind of GPU (required)");
  EXPECT_EQ(option_meaning(*run.get_option("--batch")),
            "Samples per step (1 to 1024; default: 64)");
  EXPECT_EQ(option_meaning(*run.get_option("--quiet")), "No table (not with --json)");
}

TEST_F(HelpTextTest, IsAPageOfTheManual) {
  const std::vector<ManPage> pages = man_pages(root_, "gpemu");
  ASSERT_EQ(pages.size(), 2U);
  EXPECT_EQ(pages[0].file, "gpemu.1");
  EXPECT_EQ(pages[1].file, "gpemu-run.1");
  const std::string& page = pages[1].text;
  EXPECT_NE(page.find(".TH gpemu\\-run 1"), std::string::npos) << page;
  EXPECT_NE(page.find(".SH NAME\ngpemu\\-run \\- Run a program\n"), std::string::npos) << page;
  EXPECT_NE(page.find(".TP\n.B \\-\\-batch NUMBER\nSamples per step (1 to 1024; default: 64)\n"),
            std::string::npos)
      << page;
  EXPECT_NE(page.find("Example:\n  gpemu run .x\\en\n"), std::string::npos) << page;
  EXPECT_NE(pages[0].text.find(".TP\n.BR gpemu\\-run (1)\nRun a program\n"), std::string::npos);
}

TEST_F(HelpTextTest, CompletesWhatComesNext) {
  const auto of_nothing = [](std::string_view) { return std::vector<std::string>(); };
  const auto of_gpus = [](std::string_view name) {
    return name == "--gpu" ? std::vector<std::string>{"A100", "V100", "V40"}
                           : std::vector<std::string>();
  };
  using Candidates = std::vector<Candidate>;
  EXPECT_EQ(candidates(root_, {"r"}, of_nothing), (Candidates{{"run", "Run a program"}}));
  EXPECT_EQ(candidates(root_, {"run", "--g"}, of_nothing), (Candidates{{"--gpu", "Kind of GPU"}}));
  EXPECT_EQ(candidates(root_, {"run", "--gpu", "V"}, of_gpus),
            (Candidates{{"V100", ""}, {"V40", ""}}));
  EXPECT_EQ(candidates(root_, {"run", "--clock", ""}, of_nothing),
            (Candidates{{"real", ""}, {"virtual", ""}}));
  // A value is no command, and a flag has no value.
  EXPECT_EQ(candidates(root_, {"run", "--gpu", "run", "--c"}, of_gpus).front().word, "--clock");
  EXPECT_EQ(candidates(root_, {"run", "--quiet", "--c"}, of_gpus).front().word, "--clock");
  EXPECT_EQ(candidates(root_, {"run", "--gpu=V", "--c"}, of_gpus).front().word, "--clock");
  // Files and programs are for the shell.
  EXPECT_EQ(candidates(root_, {"run", "--json", ""}, of_gpus), Candidates{});
  EXPECT_EQ(candidates(root_, {"run", "--", "--g"}, of_gpus), Candidates{});
  EXPECT_EQ(candidates(root_, {}, of_gpus), Candidates{});
}

/// Calls `check` with each command and its full name.
void for_each_command(const CLI::App& command, const std::string& name, const auto& check) {
  check(command, name);
  for (const CLI::App* sub : command.get_subcommands({})) {
    if (!sub->get_group().empty()) for_each_command(*sub, name + " " + sub->get_name(), check);
  }
}

TEST(Help, HasAnExampleOfEachCommand) {
  CommandTree commands("gpemu", "gpemu");
  sim::VirtualClock clock;
  const World world = real_world(clock);
  add_commands(commands.root(), world);
  for_each_command(app_of(commands.root()), "gpemu",
                   [](const CLI::App& command, const std::string& name) {
                     EXPECT_NE(command.get_footer().find("Example"), std::string::npos) << name;
                     EXPECT_NE(command.get_footer().find("\n  "), std::string::npos) << name;
                     EXPECT_FALSE(command.get_description().empty()) << name;
                   });
}

TEST(Help, FitsATerminal) {
  CommandTree commands("gpemu", "gpemu", 80);
  sim::VirtualClock clock;
  const World world = real_world(clock);
  add_commands(commands.root(), world);
  for_each_command(
      app_of(commands.root()), "gpemu", [](const CLI::App& command, const std::string& name) {
        std::string help =
            command.get_formatter()->make_help(&command, name, CLI::AppFormatMode::Normal);
        help.resize(help.size() - command.get_footer().size());  // Commands to copy.
        std::istringstream lines(help);
        for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
      });
}

}  // namespace
}  // namespace gpemu::tools
