// SPDX-License-Identifier: Apache-2.0
#include "gpemu/record/record_folder.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace gpemu::record {
namespace {

constexpr uid_t kOther = 65534;  // nobody

class RecordFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder_);
    if (const char* const old = std::getenv("TMPDIR"); old != nullptr) old_ = old;
    ::setenv("TMPDIR", folder_.c_str(), 1);
  }
  void TearDown() override {
    old_ ? ::setenv("TMPDIR", old_->c_str(), 1) : ::unsetenv("TMPDIR");
    std::filesystem::remove_all(folder_);
  }

  /// Makes the folder of a killed run, and returns its path.
  [[nodiscard]] static std::filesystem::path make_abandoned(const std::filesystem::path& path) {
    std::filesystem::create_directory(path);
    std::ofstream(path / "lock") << "";
    return path;
  }

  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / fmt::format("gpemu_records_{}", ::getpid());
  std::optional<std::string> old_;
};

TEST_F(RecordFolderTest, RemovesWhatAKilledRunLeft) {
  const auto left = make_abandoned(folder_ / "gpemu-run-left");
  const auto live = RecordFolder::create();
  ASSERT_TRUE(live);
  EXPECT_FALSE(std::filesystem::exists(left));
  ASSERT_TRUE(RecordFolder::create());
  EXPECT_TRUE(std::filesystem::exists(live->path()));
}

TEST_F(RecordFolderTest, LeavesLinksAlone) {
  const auto kept = make_abandoned(folder_ / "kept");
  std::filesystem::create_directory_symlink(kept, folder_ / "gpemu-run-link");
  ASSERT_TRUE(RecordFolder::create());
  EXPECT_TRUE(std::filesystem::is_symlink(folder_ / "gpemu-run-link"));
}

TEST_F(RecordFolderTest, LeavesFoldersOfOthersAlone) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make a folder of another user";
  const auto other = make_abandoned(folder_ / "gpemu-run-other");
  ASSERT_EQ(::chown(other.c_str(), kOther, kOther), 0);
  ASSERT_TRUE(RecordFolder::create());
  EXPECT_TRUE(std::filesystem::exists(other / "lock"));
}

TEST_F(RecordFolderTest, IsTheSameFolderWhereverTheProgramIs) {
  const std::filesystem::path old = std::filesystem::current_path();
  std::filesystem::current_path(folder_);
  ::setenv("TMPDIR", ".", 1);
  const auto made = RecordFolder::create();
  std::filesystem::current_path(old);
  ASSERT_TRUE(made);
  EXPECT_TRUE(made->path().is_absolute());
}

}  // namespace
}  // namespace gpemu::record
