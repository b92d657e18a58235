// SPDX-License-Identifier: Apache-2.0
#include "gpemu/data/output_folder.hpp"

#include <fcntl.h>
#include <string>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace gpemu::data {
namespace {

namespace fs = std::filesystem;

class OutputFolderTest : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(parent_); }
  void TearDown() override { fs::remove_all(parent_); }

  /// Returns a process that has ended.
  static pid_t ended_process() {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(0);
    ::waitpid(child, nullptr, 0);
    return child;
  }

  /// Makes what a killed process leaves.
  [[nodiscard]] fs::path leave(const std::string& name) const {
    fs::create_directories(parent_ / name / "class");
    return parent_ / name;
  }

  const fs::path parent_ =
      fs::path(testing::TempDir()) / ("gpemu_output_folder_" + std::to_string(::getpid()));
};

TEST_F(OutputFolderTest, IsMovedToItsPlaceOrRemoved) {
  for (const bool committed : {false, true}) {
    auto folder = OutputFolder::create(parent_ / "set").value();
    EXPECT_FALSE(fs::exists(parent_ / "set"));
    const fs::path partial = folder.path();
    if (committed) {
      ASSERT_TRUE(folder.commit());
    } else {
      const OutputFolder ends(std::move(folder));
    }
    EXPECT_FALSE(fs::exists(partial));
    EXPECT_EQ(fs::exists(parent_ / "set"), committed);
  }
}

TEST_F(OutputFolderTest, RemovesWhatKilledProcessesOfTheSamePlaceHaveLeft) {
  const std::string ended = std::to_string(ended_process());
  const fs::path stale = leave("set.partial-" + ended);
  const fs::path of_another = leave("setting.partial-" + ended);
  const fs::path lives = leave("set.partial-" + std::to_string(::getppid()));
  const fs::path no_process = leave("set.partial-" + ended + "x");
  ASSERT_TRUE(OutputFolder::create(parent_ / "set"));
  EXPECT_FALSE(fs::exists(stale));
  EXPECT_TRUE(fs::exists(of_another));
  EXPECT_TRUE(fs::exists(lives));
  EXPECT_TRUE(fs::exists(no_process));
}

TEST_F(OutputFolderTest, LeavesWhatAProcessInAnotherContainerHasLocked) {
  const fs::path folder = leave("set.partial-" + std::to_string(ended_process()));
  const FileDescriptor lock(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_EQ(::flock(lock.get(), LOCK_EX), 0);
  ASSERT_TRUE(OutputFolder::create(parent_ / "set"));
  EXPECT_TRUE(fs::exists(folder));
}

TEST_F(OutputFolderTest, RemovesALinkOfSuchANameNeither) {
  const fs::path target = leave("precious");
  const fs::path link = parent_ / ("set.partial-" + std::to_string(ended_process()));
  fs::create_directory_symlink(target, link);
  ASSERT_TRUE(OutputFolder::create(parent_ / "set"));
  EXPECT_TRUE(fs::exists(target / "class"));
}

}  // namespace
}  // namespace gpemu::data
