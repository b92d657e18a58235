// SPDX-License-Identifier: Apache-2.0
#include "gpemu/base/temporary_folder.hpp"

#include <filesystem>
#include <fstream>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace gpemu {
namespace {

constexpr const char* kPrefix = "made-";
constexpr uid_t kOther = 65534;  // nobody

class TemporaryFolderTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// Makes the folder of a killed process, and returns its path.
  [[nodiscard]] static std::filesystem::path make_abandoned(const std::filesystem::path& path) {
    std::filesystem::create_directory(path);
    std::ofstream(path / "records") << "";
    return path;
  }

  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / fmt::format("gpemu_temporary_{}", ::getpid());
};

TEST_F(TemporaryFolderTest, RemovesWhatAKilledProcessLeft) {
  const auto left = make_abandoned(folder_ / "made-left");
  // One may be killed before it has written anything.
  const auto empty = folder_ / "made-empty";
  std::filesystem::create_directory(empty);
  const auto live = TemporaryFolder::create(folder_, kPrefix);
  ASSERT_TRUE(live);
  EXPECT_FALSE(std::filesystem::exists(left));
  EXPECT_FALSE(std::filesystem::exists(empty));
  ASSERT_TRUE(TemporaryFolder::create(folder_, kPrefix));
  EXPECT_TRUE(std::filesystem::exists(live->path()));
}

TEST_F(TemporaryFolderTest, ProcessesThatStartAtOnceHaveFoldersOfTheirOwn) {
  // Each looks for abandoned folders while the others make theirs.
  constexpr int kProcesses = 4, kRuns = 50;
  std::vector<pid_t> processes;
  for (int i = 0; i < kProcesses; ++i) {
    processes.push_back(::fork());
    if (processes.back() != 0) continue;
    int failed = 0;
    {
      std::vector<TemporaryFolder> made;
      for (int run = 0; run < kRuns; ++run) {
        auto folder = TemporaryFolder::create(folder_, kPrefix);
        if (folder) made.push_back(*std::move(folder));
      }
      for (const TemporaryFolder& folder : made) {
        if (!std::filesystem::is_directory(folder.path())) failed = 1;
      }
      if (made.size() != kRuns) failed = 1;
    }
    ::_exit(failed);
  }
  for (const pid_t process : processes) {
    int status = 0;
    ASSERT_EQ(::waitpid(process, &status, 0), process);
    EXPECT_EQ(status, 0);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(TemporaryFolderTest, LeavesLinksAlone) {
  const auto kept = make_abandoned(folder_ / "kept");
  std::filesystem::create_directory_symlink(kept, folder_ / "made-link");
  ASSERT_TRUE(TemporaryFolder::create(folder_, kPrefix));
  EXPECT_TRUE(std::filesystem::is_symlink(folder_ / "made-link"));
}

TEST_F(TemporaryFolderTest, LeavesFoldersOfOthersAlone) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make a folder of another user";
  const auto other = make_abandoned(folder_ / "made-other");
  ASSERT_EQ(::chown(other.c_str(), kOther, kOther), 0);
  ASSERT_TRUE(TemporaryFolder::create(folder_, kPrefix));
  EXPECT_TRUE(std::filesystem::exists(other / "records"));
}

TEST_F(TemporaryFolderTest, IsTheSameFolderWhereverTheProgramIs) {
  const std::filesystem::path old = std::filesystem::current_path();
  std::filesystem::current_path(folder_);
  const auto made = TemporaryFolder::create(".", kPrefix);
  std::filesystem::current_path(old);
  ASSERT_TRUE(made);
  EXPECT_TRUE(made->path().is_absolute());
}

TEST_F(TemporaryFolderTest, NeedsAFolder) {
  const auto made = TemporaryFolder::create(folder_ / "none", kPrefix);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::kIo);
  EXPECT_TRUE(made.error().message.contains("none")) << made.error().message;
}

}  // namespace
}  // namespace gpemu
