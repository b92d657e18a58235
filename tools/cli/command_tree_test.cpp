// SPDX-License-Identifier: Apache-2.0
#include "cli/command_tree.hpp"

#include <gtest/gtest.h>

namespace gpemu::tools {
namespace {

/// A command "tool" with an option and the subcommand "count", which both note that they ran.
class CommandTreeTest : public testing::Test {
 protected:
  CommandTreeTest() {
    Command root = tree_.root();
    root.flag("--flag", flag_, "A flag");
    root.on_run([this]() -> Result<void> {
      ran_ += "root ";
      return {};
    });
    Command count = root.subcommand("count", "Count");
    count.option("number", number_, "A number").range(0, 9);
    count.on_run([this]() -> Result<int> {
      ran_ += "count ";
      if (number_ == 9) return fail(ErrorCode::kNotFound, "nine");
      return number_;
    });
    root.subcommand("nothing", "Do nothing");
  }

  bool flag_ = false;
  int number_ = 0;
  std::string ran_;
  CommandTree tree_{"A tool", "tool"};
};

TEST_F(CommandTreeTest, RunsTheCommandItselfWithoutASubcommand) {
  EXPECT_EQ(tree_.run({"--flag"}).value(), 0);
  EXPECT_TRUE(flag_);
  EXPECT_EQ(ran_, "root ");
}

TEST_F(CommandTreeTest, RunsOnlyTheInnermostCommandAndReturnsItsCode) {
  EXPECT_EQ(tree_.run({"count", "3"}).value(), 3);
  EXPECT_EQ(ran_, "count ");
}

TEST_F(CommandTreeTest, ReturnsTheErrorOfTheCommand) {
  const Result<int> code = tree_.run({"count", "9"});
  ASSERT_FALSE(code);
  EXPECT_EQ(code.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(code.error().message, "nine");
}

TEST_F(CommandTreeTest, ReturnsAnErrorOfTheWordsAndRunsNothing) {
  const Result<int> code = tree_.run({"count", "12"});
  ASSERT_FALSE(code);
  EXPECT_EQ(code.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(code.error().message,
            "number '12': give a whole number, 0 to 9; see `tool count --help`");
  EXPECT_EQ(ran_, "");
}

TEST_F(CommandTreeTest, ACommandWithoutAnActionDoesNothing) {
  EXPECT_EQ(tree_.run({"nothing"}).value(), 0);
  EXPECT_EQ(ran_, "");
}

TEST_F(CommandTreeTest, HelpIsPrintedInsteadOfRunning) {
  testing::internal::CaptureStdout();
  const Result<int> code = tree_.run({"count", "--help"});
  EXPECT_TRUE(testing::internal::GetCapturedStdout().contains("A number (0 to 9)"));
  EXPECT_EQ(code.value(), 0);
  EXPECT_EQ(ran_, "");
}

}  // namespace
}  // namespace gpemu::tools
