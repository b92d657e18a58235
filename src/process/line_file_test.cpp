// SPDX-License-Identifier: Apache-2.0
#include "line_file.hpp"

#include <filesystem>
#include <string>
#include <unistd.h>

#include <gtest/gtest.h>

#include "gpemu/base/file.hpp"

namespace gpemu::process {
namespace {

class LineFileTest : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }
  /// Returns the file up to its first zero.
  [[nodiscard]] std::string text() const {
    const auto content = read_file(path_);
    return content ? content->substr(0, content->find('\0')) : "unreadable";
  }
  std::filesystem::path path_ =
      testing::TempDir() + "/gpemu_line_file_test." + std::to_string(::getpid());
};

TEST_F(LineFileTest, HoldsEachLineWhileItIsOpen) {
  LineFile file(path_);
  EXPECT_TRUE(file.add("one"));
  EXPECT_EQ(text(), "one\n");
  EXPECT_TRUE(file.add("two"));
  EXPECT_EQ(text(), "one\ntwo\n");
}

TEST_F(LineFileTest, GoesOnWhereAWindowEnds) {
  const std::string line(1'000'003, 'x');
  LineFile file(path_);
  std::string expected;
  for (int i = 0; i < 13; ++i) {
    ASSERT_TRUE(file.add(line));
    expected += line + "\n";
  }
  EXPECT_TRUE(text() == expected);
}

TEST_F(LineFileTest, EndsALineAtTheLastByteOfAWindow) {
  LineFile file(path_);
  ASSERT_TRUE(file.add(std::string(4 * kMiB, 'x')));
  ASSERT_TRUE(file.add("next"));
  EXPECT_TRUE(text() == std::string(4 * kMiB, 'x') + "\nnext\n");
}

TEST_F(LineFileTest, SaysThatThereIsNoSpace) {
  LineFile file("/nonexistent/folder/file");
  EXPECT_FALSE(file.add("one"));
  EXPECT_FALSE(file.add("two"));
}

}  // namespace
}  // namespace gpemu::process
