// SPDX-License-Identifier: Apache-2.0
#include "gpemu/record/live_records.hpp"

#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <string>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace gpemu::record {
namespace {

constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();
constexpr const char* kNameLine = R"({"name":0,"text":"gemm"})";
constexpr const char* kOperationLine =
    R"({"op":"matmul","name":0,"end_ns":2,"duration_ns":1,"class":"matmul","shape":[1]})";

/// Returns lines of names, together more than a megabyte, across whose end one of them lies.
std::string larger_than_the_buffer() {
  std::string lines;
  for (int i = 7; i >= 0; --i) {
    lines += fmt::format(R"({{"name":{},"text":"{}"}})", i, std::string(200'000, 'x')) + "\n";
  }
  return lines;
}

/// A run whose processes write lines while it is read.
class LiveRunTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// Adds text to a process's lines, as libgpemu.so does: the rest of the file is zeros.
  void write(const std::string& process, const std::string& text) {
    std::string& all = written_[process];
    all += text;
    std::ofstream(folder_ / (process + ".lines")) << all << std::string(100, '\0');
  }

  bool read(std::size_t most_bytes = kAll) {
    const auto any = run_.read(most_bytes);
    EXPECT_TRUE(any) << any.error().message;
    return any.value_or(false);
  }

  /// Returns how many operations of the main process were read.
  [[nodiscard]] std::size_t events() const { return run_.main()->second.work().events.size(); }

  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / fmt::format("gpemu_live_{}", ::getpid());
  LiveRun run_{folder_};
  std::map<std::string, std::string> written_;
};

TEST_F(LiveRunTest, HasNoProcessAtFirst) {
  EXPECT_FALSE(read());
  EXPECT_EQ(run_.processes(), 0);
  EXPECT_EQ(run_.main(), nullptr);
}

TEST_F(LiveRunTest, ReadsEachLineOnceWhenItIsComplete) {
  write("42", fmt::format("{}\n{}", kNameLine, kOperationLine));
  EXPECT_TRUE(read());
  EXPECT_EQ(events(), 0U);
  EXPECT_FALSE(read()) << "the operation's line has no end";
  write("42", "\n");
  EXPECT_TRUE(read());
  EXPECT_EQ(events(), 1U);
  EXPECT_FALSE(read());
  EXPECT_EQ(events(), 1U);
}

TEST_F(LiveRunTest, ReadsLinesThatDoNotFitIntoItsBuffer) {
  write("42", larger_than_the_buffer() + kOperationLine + "\n");
  EXPECT_TRUE(read());
  EXPECT_EQ(events(), 1U);
}

TEST_F(LiveRunTest, ReadsNoMoreThanItMay) {
  write("42", larger_than_the_buffer() + kOperationLine + "\n");
  EXPECT_TRUE(read(1));
  EXPECT_EQ(events(), 0U);
  EXPECT_TRUE(read(1));
  EXPECT_EQ(events(), 1U);
}

TEST_F(LiveRunTest, FindsProcessesThatStartLaterAndTheOneWithTheMostWork) {
  write("42", fmt::format("{}\n{}\n", kNameLine, kOperationLine));
  EXPECT_TRUE(read());
  write("7", fmt::format("{}\n{}\n{}\n", kNameLine, kOperationLine, kOperationLine));
  std::ofstream(folder_ / "7.record") << "not lines";
  EXPECT_TRUE(read());
  EXPECT_EQ(run_.processes(), 2);
  EXPECT_EQ(run_.main()->first, "7");
  EXPECT_EQ(events(), 2U);
}

TEST_F(LiveRunTest, RefusesDamagedLinesByTheNameOfTheirFile) {
  write("42", "damaged\n");
  const auto read = run_.read(kAll);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::kCorruptData);
  EXPECT_TRUE(read.error().message.contains("42.lines")) << read.error().message;
}

TEST_F(LiveRunTest, SaysWhyLinesCannotBeRead) {
  std::filesystem::create_directory(folder_ / "42.lines");
  const auto read = run_.read(kAll);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::kIo);
  EXPECT_TRUE(read.error().message.ends_with("42.lines: Is a directory")) << read.error().message;
}

TEST_F(LiveRunTest, SaysWhyLinesCannotBeOpened) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read everything";
  write("42", "\n");
  std::filesystem::permissions(folder_ / "42.lines", std::filesystem::perms::none);
  const auto read = run_.read(kAll);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::kIo);
  EXPECT_TRUE(read.error().message.ends_with("42.lines: Permission denied"))
      << read.error().message;
}

TEST_F(LiveRunTest, NeedsItsFolder) {
  std::filesystem::remove(folder_);
  const auto read = run_.read(kAll);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace gpemu::record
