// SPDX-License-Identifier: Apache-2.0
#include "output_file.hpp"

#include <filesystem>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace gpemu::tools {
namespace {

class CheckWritableTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / fmt::format("gpemu_output_file_{}", ::getpid());
};

TEST_F(CheckWritableTest, LeavesNothingBehind) {
  EXPECT_TRUE(check_writable(folder_ / "report.html").has_value());
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(CheckWritableTest, WantsNothingOfAnEmptyPath) {
  EXPECT_TRUE(check_writable({}).has_value());
}

TEST_F(CheckWritableTest, RefusesFoldersAndMissingFolders) {
  EXPECT_EQ(check_writable(folder_).error().code, ErrorCode::kIo);
  const auto missing = check_writable(folder_ / "absent" / "report.html");
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, ErrorCode::kIo);
  EXPECT_NE(missing.error().message.find("absent/report.html"), std::string::npos);
}

}  // namespace
}  // namespace gpemu::tools
