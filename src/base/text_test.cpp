// SPDX-License-Identifier: Apache-2.0
#include "gpemu/base/text.hpp"

#include <gtest/gtest.h>

namespace gpemu {
namespace {

TEST(Printable, LeavesTextAsItIs) {
  for (const char* text : {"", "resnet50", "a b~!\\n", "Bj\u00f6rk/\u6570\u636e/\U0001f600.jpg"}) {
    EXPECT_EQ(printable(text), text);
  }
}

TEST(Printable, EscapesWhatATerminalObeys) {
  EXPECT_EQ(printable("\x1b]0;title\x07"), "\\x1b]0;title\\x07");
  EXPECT_EQ(printable("a\nb\rc\td\x7f"), "a\\nb\\rc\\td\\u007f");
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable("\u009b31m"), "\\u009b31m");
  EXPECT_EQ(printable("gpj.\u202eexe"), "gpj.\\u202eexe");
  EXPECT_EQ(printable("\u2028\u2066\u200f\u061c"), "\\u2028\\u2066\\u200f\\u061c");
}

TEST(Printable, EscapesWhatIsNotUtf8) {
  EXPECT_EQ(printable("\xff"), "\\xff");
  EXPECT_EQ(printable("a\xc3"), "a\\xc3");                           // Cut.
  EXPECT_EQ(printable("\xc0\x9b"), "\\xc0\\x9b");                    // Longer than needed.
  EXPECT_EQ(printable("\xe0\x82\x9b"), "\\xe0\\x82\\x9b");           // The same in three bytes.
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // Half of a pair.
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // Beyond Unicode.
  EXPECT_EQ(printable("\x9b"
                      "31m"),
            "\\x9b31m");  // C1 of one byte.
}

TEST(Printable, IsTheSameTheSecondTime) {
  const std::string once = printable("\x1b[31m\n\xff");
  EXPECT_EQ(printable(once), once);
}

TEST(PrintableLines, LeavesJsonWhatItIs) {
  EXPECT_EQ(printable_lines("{\n  \"name\": \"\\u001b\x7f\u009b\"\n}\n"),
            "{\n  \"name\": \"\\u001b\\u007f\\u009b\"\n}\n");
}

TEST(PrintableLines, KeepsNewlinesAndTabs) {
  EXPECT_EQ(printable_lines("a\n\t\x1b[2Jb\n"), "a\n\t\\x1b[2Jb\n");
}

TEST(PrintableMessage, KeepsIndentedLinesOnly) {
  EXPECT_EQ(printable_message("the fields are:\n  index\n  name"),
            "the fields are:\n  index\n  name");
  EXPECT_EQ(printable_message("cannot read a\ngpemu: all is well"),
            "cannot read a\\ngpemu: all is well");
}

TEST(ShellWord, IsWhatAUserTypes) {
  EXPECT_EQ(shell_word("alice/n0.1-a_b"), "alice/n0.1-a_b");
  EXPECT_EQ(shell_word("my node"), "'my node'");
  EXPECT_EQ(shell_word("n$(reboot)`\\"), "'n$(reboot)`\\'");
  EXPECT_EQ(shell_word("é"), "'é'");
  EXPECT_EQ(shell_word(""), "''");
}

TEST(ShellWord, WritesWhatATerminalObeysInDigits) {
  EXPECT_EQ(shell_word("e\x1b[31m"), "$'e\\033[31m'");
  EXPECT_EQ(shell_word("it's\n\\1"), "$'it\\047s\\012\\1341'");
  EXPECT_EQ(shell_word("\xff"
                       "7\u202e"),
            "$'\\3777\\342\\200\\256'");
}

}  // namespace
}  // namespace gpemu
