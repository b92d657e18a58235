// SPDX-License-Identifier: Apache-2.0
#include "gpemu/report/output_file.hpp"

#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gpemu/base/file.hpp"

namespace gpemu::report {
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

TEST_F(CheckWritableTest, RefusesOneFileForTwoOutputs) {
  EXPECT_TRUE(check_outputs({folder_ / "a", {}, folder_ / "b", {}}).has_value());
  const auto twice = check_outputs({folder_ / "a", folder_ / "." / "a"});
  ASSERT_FALSE(twice.has_value());
  EXPECT_EQ(twice.error().code, ErrorCode::kInvalidArgument);
}

TEST_F(CheckWritableTest, WritesToPipesAndReplacesNoneOfThem) {
  const std::filesystem::path pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_TRUE(check_writable(pipe).has_value());
  const FileDescriptor reader(::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  ASSERT_TRUE(write_file_atomically(pipe, "text").has_value());
  char text[8] = {};
  EXPECT_EQ(::read(reader.get(), text, sizeof(text)), 4);
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
}

TEST_F(CheckWritableTest, ReplacesWhatALinkNames) {
  std::filesystem::create_symlink("report.html", folder_ / "latest");
  ASSERT_TRUE(write_file_atomically(folder_ / "report.html", "old").has_value());
  ASSERT_TRUE(write_file_atomically(folder_ / "latest", "new").has_value());
  EXPECT_TRUE(std::filesystem::is_symlink(folder_ / "latest"));
  EXPECT_EQ(read_file(folder_ / "report.html").value_or("unread"), "new");
}

TEST_F(CheckWritableTest, RefusesFoldersAndMissingFolders) {
  EXPECT_EQ(check_writable(folder_).error().code, ErrorCode::kIo);
  const auto missing = check_writable(folder_ / "absent" / "report.html");
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, ErrorCode::kIo);
  EXPECT_NE(missing.error().message.find("absent/report.html"), std::string::npos);
}

}  // namespace
}  // namespace gpemu::report
