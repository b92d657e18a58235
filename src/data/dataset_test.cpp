// SPDX-License-Identifier: Apache-2.0
#include "gpemu/data/dataset.hpp"

#include <algorithm>
#include <array>
#include <fcntl.h>
#include <fstream>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "gpemu/base/file.hpp"

namespace gpemu::data {
namespace {

namespace fs = std::filesystem;

/// A folder of its own for each test, removed at the end.
class DatasetTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(testing::TempDir()) /
            ("gpemu_dataset_" + std::to_string(::getpid()) + "_" +
             testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  void add_file(const std::string& name, std::size_t bytes = 10) const {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << std::string(bytes, 'x');
  }

  fs::path root_;
};

TEST_F(DatasetTest, ListsClassesAndFilesInOrder) {
  add_file("dog/b.JPEG", 7);
  add_file("dog/a.jpg", 5);
  add_file("cat/z.jpg", 3);
  add_file("cat/deeper/c.Jpeg", 2);
  add_file("cat/notes.txt");
  add_file("readme.md");
  const auto dataset = Dataset::open(root_);
  ASSERT_TRUE(dataset.has_value()) << dataset.error().message;
  EXPECT_EQ(dataset->classes(), (std::vector<std::string>{"cat", "dog"}));
  std::string listing;
  for (const Sample& sample : dataset->samples()) {
    const std::string name = dataset->files()[sample.unit].lexically_relative(root_).string();
    listing += name + ":" + std::to_string(sample.label) + ":" + std::to_string(sample.bytes) + " ";
  }
  EXPECT_EQ(listing, "cat/deeper/c.Jpeg:0:2 cat/z.jpg:0:3 dog/a.jpg:1:5 dog/b.JPEG:1:7 ");
  EXPECT_EQ(dataset->total_bytes(), 17U);
}

TEST_F(DatasetTest, LeavesOutLinksThatLeadBackAndNamesThem) {
  add_file("cat/a.jpg");
  add_file("dog/b.jpg");
  const auto expect_left_out = [this](const std::string& link, const std::string& target) {
    fs::create_directory_symlink(target, root_ / link);
    const auto dataset = Dataset::open(root_);
    fs::remove(root_ / link);
    ASSERT_TRUE(dataset) << dataset.error().message;
    EXPECT_EQ(dataset->classes(), (std::vector<std::string>{"cat", "dog"})) << link;
    ASSERT_GT(dataset->skipped_count(), 0U) << link;
    EXPECT_NE(dataset->skipped().front().find("it is a link back to"), std::string::npos);
  };
  expect_left_out("cat/self", ".");
  expect_left_out("cat/all", "..");
  expect_left_out("loop", ".");
  fs::create_directory_symlink("../cat", root_ / "dog" / "cat");
  expect_left_out("cat/dog", "../dog");  // From cat to dog to cat.
  // What is no circle is followed.
  const auto dataset = Dataset::open(root_);
  ASSERT_TRUE(dataset) << dataset.error().message;
  EXPECT_EQ(dataset->samples().size(), 3U);
  EXPECT_EQ(dataset->skipped_count(), 0U);
}

TEST_F(DatasetTest, LeavesOutWhatIsNoFile) {
  add_file("cat/a.jpg");
  fs::create_symlink("nowhere", root_ / "cat" / "b.jpg");
  ASSERT_EQ(::mkfifo((root_ / "cat" / "c.jpg").c_str(), 0600), 0);
  const auto dataset = Dataset::open(root_);
  ASSERT_TRUE(dataset) << dataset.error().message;
  EXPECT_EQ(dataset->samples().size(), 1U);
  EXPECT_EQ(dataset->skipped_count(), 2U);
}

TEST_F(DatasetTest, TakesThePartForTraining) {
  add_file("train/cat/a.jpg");
  add_file("val/cat/b.jpg");
  add_file("val/cat/c.jpg");
  const auto dataset = Dataset::open(root_);
  ASSERT_TRUE(dataset) << dataset.error().message;
  EXPECT_EQ(dataset->root(), root_ / "train");
  EXPECT_EQ(dataset->samples().size(), 1U);
  fs::rename(root_ / "train", root_ / "test");
  const auto parts = Dataset::open(root_);
  ASSERT_FALSE(parts);
  EXPECT_EQ(parts.error().code, ErrorCode::kCorruptData);
  EXPECT_EQ(parts.error().message,
            root_.string() +
                " holds the parts of a data set (test, val), none of them for training; name one "
                "of them: " +
                (root_ / "test").string());
  // Other names beside them: vehicles, say.
  add_file("bus/c.jpg");
  EXPECT_TRUE(Dataset::open(root_));
}

TEST_F(DatasetTest, TakesClassesThatAreCalledLikeParts) {
  add_file("train/a.jpg");
  EXPECT_TRUE(Dataset::open(root_));
}

TEST_F(DatasetTest, TellsWhatIsWrongWithAFolder) {
  const auto expect_error = [](const fs::path& path, ErrorCode code, std::string_view words) {
    const auto dataset = Dataset::open(path);
    ASSERT_FALSE(dataset.has_value());
    EXPECT_EQ(dataset.error().code, code);
    EXPECT_NE(dataset.error().message.find(path.string()), std::string::npos);
    EXPECT_NE(dataset.error().message.find(words), std::string::npos) << dataset.error().message;
  };
  expect_error(root_ / "absent", ErrorCode::kNotFound, "gpemu data make");
  expect_error(root_, ErrorCode::kCorruptData, "no class folder");
  add_file("file.jpg");
  expect_error(root_, ErrorCode::kCorruptData, "no class folder");
  expect_error(root_ / "file.jpg", ErrorCode::kCorruptData, "is no data set");
  add_file("full/a.jpg");
  add_file("empty/notes.txt");
  expect_error(root_, ErrorCode::kCorruptData, "class folder " + (root_ / "empty").string());
}

TEST_F(DatasetTest, LeavesOutWhatItMayNotRead) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read everything";
  add_file("cat/a.jpg");
  add_file("dog/b.jpg");
  add_file("dog/c.jpg");
  fs::permissions(root_ / "cat", fs::perms::none);
  fs::permissions(root_ / "dog/b.jpg", fs::perms::none);
  const auto dataset = Dataset::open(root_);
  fs::permissions(root_ / "cat", fs::perms::owner_all);
  ASSERT_TRUE(dataset) << dataset.error().message;
  EXPECT_EQ(dataset->classes(), (std::vector<std::string>{"dog"}));
  EXPECT_EQ(dataset->samples().size(), 1U);
  EXPECT_EQ(dataset->skipped_count(), 2U);
}

std::size_t cached_pages(const fs::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status{};
  ::fstat(file.get(), &status);
  const auto bytes = static_cast<std::size_t>(status.st_size);
  void* mapping = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.get(), 0);
  std::vector<unsigned char> resident((bytes + 4095) / 4096);
  EXPECT_EQ(::mincore(mapping, bytes, resident.data()), 0);
  ::munmap(mapping, bytes);
  return static_cast<std::size_t>(
      std::ranges::count_if(resident, [](unsigned char page) { return (page & 1U) != 0; }));
}

TEST_F(DatasetTest, DropsAndFillsThePageCache) {
  add_file("cat/a.jpg", 100'000);
  const auto dataset = Dataset::open(root_);
  ASSERT_TRUE(dataset.has_value());
  // Just written, so the pages are dirty.
  ASSERT_TRUE(dataset->drop_page_cache().has_value());
  if (cached_pages(root_ / "cat/a.jpg") == 25) GTEST_SKIP() << "a file system in memory";
  EXPECT_EQ(cached_pages(root_ / "cat/a.jpg"), 0U);
  ASSERT_TRUE(dataset->fill_page_cache().has_value());
  EXPECT_EQ(cached_pages(root_ / "cat/a.jpg"), 25U);
}

TEST_F(DatasetTest, StopsWhenItIsTold) {
  add_file("cat/a.jpg");
  const std::atomic<bool> stop = true;
  const auto dataset = Dataset::open(root_);
  ASSERT_TRUE(dataset.has_value());
  EXPECT_EQ(Dataset::open(root_, &stop).error().code, ErrorCode::kInterrupted);
  EXPECT_EQ(dataset->drop_page_cache(&stop).error().code, ErrorCode::kInterrupted);
  EXPECT_EQ(dataset->fill_page_cache(&stop).error().code, ErrorCode::kInterrupted);
}

TEST_F(DatasetTest, NamesAFileThatWentAway) {
  add_file("cat/a.jpg");
  const auto dataset = Dataset::open(root_);
  ASSERT_TRUE(dataset.has_value());
  fs::remove(root_ / "cat/a.jpg");
  for (const auto& result : {dataset->drop_page_cache(), dataset->fill_page_cache()}) {
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code, ErrorCode::kIo);
    EXPECT_NE(result.error().message.find("cat/a.jpg"), std::string::npos);
  }
}

TEST(ShuffledOrder, IsAPermutationBySeedAndEpoch) {
  const auto order = shuffled_order(100, 7, 3);
  EXPECT_EQ(order, shuffled_order(100, 7, 3));
  EXPECT_NE(order, shuffled_order(100, 7, 4));
  EXPECT_NE(order, shuffled_order(100, 8, 3));
  std::vector<std::uint32_t> sorted = order;
  std::ranges::sort(sorted);
  for (std::uint32_t i = 0; i < 100; ++i) EXPECT_EQ(sorted[i], i);
  EXPECT_TRUE(shuffled_order(0, 1, 1).empty());
}

}  // namespace
}  // namespace gpemu::data
