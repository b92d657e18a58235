// SPDX-License-Identifier: Apache-2.0
#include "gpemu/record/record_folder.hpp"

#include <filesystem>
#include <fstream>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace gpemu::record {
namespace {

constexpr uid_t kOther = 65534;  // nobody

class RecordFolderTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// Makes the folder of a killed run, and returns its path.
  [[nodiscard]] static std::filesystem::path make_abandoned(const std::filesystem::path& path) {
    std::filesystem::create_directory(path);
    std::ofstream(path / "lock") << "";
    return path;
  }

  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / fmt::format("gpemu_records_{}", ::getpid());
};

TEST_F(RecordFolderTest, RemovesWhatAKilledRunLeft) {
  const auto left = make_abandoned(folder_ / "gpemu-run-left");
  const auto live = RecordFolder::create(folder_);
  ASSERT_TRUE(live);
  EXPECT_FALSE(std::filesystem::exists(left));
  ASSERT_TRUE(RecordFolder::create(folder_));
  EXPECT_TRUE(std::filesystem::exists(live->path()));
}

TEST_F(RecordFolderTest, LeavesLinksAlone) {
  const auto kept = make_abandoned(folder_ / "kept");
  std::filesystem::create_directory_symlink(kept, folder_ / "gpemu-run-link");
  ASSERT_TRUE(RecordFolder::create(folder_));
  EXPECT_TRUE(std::filesystem::is_symlink(folder_ / "gpemu-run-link"));
}

TEST_F(RecordFolderTest, LeavesFoldersOfOthersAlone) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make a folder of another user";
  const auto other = make_abandoned(folder_ / "gpemu-run-other");
  ASSERT_EQ(::chown(other.c_str(), kOther, kOther), 0);
  ASSERT_TRUE(RecordFolder::create(folder_));
  EXPECT_TRUE(std::filesystem::exists(other / "lock"));
}

TEST_F(RecordFolderTest, IsTheSameFolderWhereverTheProgramIs) {
  const std::filesystem::path old = std::filesystem::current_path();
  std::filesystem::current_path(folder_);
  const auto made = RecordFolder::create(".");
  std::filesystem::current_path(old);
  ASSERT_TRUE(made);
  EXPECT_TRUE(made->path().is_absolute());
}

TEST_F(RecordFolderTest, NeedsAFolderForTemporaryFiles) {
  const auto made = RecordFolder::create(folder_ / "none");
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::kIo);
  EXPECT_TRUE(made.error().message.contains("none")) << made.error().message;
}

}  // namespace
}  // namespace gpemu::record
