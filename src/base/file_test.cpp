// SPDX-License-Identifier: Apache-2.0
#include "gpemu/base/file.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <string>
#include <string_view>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

namespace gpemu {
namespace {

TEST(ReadFile, DoesNotWaitForANamedPipe) {
  const std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) / ("gpemu_pipe_" + std::to_string(::getpid()));
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const auto content = read_file(path);
  std::filesystem::remove(path);
  ASSERT_FALSE(content);
  EXPECT_EQ(content.error().code, ErrorCode::kIo);
  EXPECT_EQ(content.error().message, "cannot read " + path.string() +
                                         ": it is a named pipe, which may never end; give a file");
}

TEST(ReadFile, ReadsAPipeOfTheShell) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const FileDescriptor reader(ends[0]);
  {
    const FileDescriptor writer(ends[1]);
    ASSERT_EQ(::write(writer.get(), "text", 4), 4);
  }
  EXPECT_EQ(read_file("/dev/fd/" + std::to_string(reader.get())).value(), "text");
}

TEST(ReadFile, RefusesWhatIsTooLargeBeforeItTakesMemoryForIt) {
  const std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) / ("gpemu_large_" + std::to_string(::getpid()));
  ASSERT_TRUE(write_file_atomically(path, ""));
  ASSERT_EQ(::truncate(path.c_str(), off_t{1} << 42), 0);  // 4 TiB, none of it on the disk.
  const auto content = read_file(path, 100);
  std::filesystem::remove(path);
  ASSERT_FALSE(content);
  EXPECT_EQ(content.error().message, path.string() + " is larger than 100 bytes");
}

TEST(ListFolder, ReturnsThePathsInOrder) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("gpemu_list_" + std::to_string(::getpid()));
  for (const char* const name : {"b", "c", "a"}) {
    std::filesystem::create_directories(folder / name / "below");
  }
  const auto paths = list_folder(folder);
  std::filesystem::remove_all(folder);
  EXPECT_EQ(paths, (std::vector{folder / "a", folder / "b", folder / "c"}));
}

TEST(ListFolder, ReportsAFolderThatIsNotThereOrNoFolder) {
  const auto missing = list_folder("/no/such/folder");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(missing.error().message,
            "cannot read the folder /no/such/folder: No such file or directory");
  const auto file = list_folder("/dev/null");
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, ErrorCode::kIo);
}

TEST(PathsIn, IsEmptyForAFolderThatCannotBeRead) {
  EXPECT_TRUE(paths_in("/no/such/folder").empty());
  EXPECT_TRUE(paths_in("/dev/null").empty());
  EXPECT_FALSE(paths_in("/proc/self/task").empty());
}

/// Makes each read of a folder by this thread fail with EIO. Returns whether the kernel does that.
bool refuse_reads_of_folders() {
  std::array<sock_filter, 4> filter = {
      sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getdents64, 0, 1),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EIO),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program{.len = filter.size(), .filter = filter.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST(ListFolder, ReportsAFolderThatCanBeOpenedButNotRead) {
  bool refused = false;
  Result<std::vector<std::filesystem::path>> paths;
  std::jthread([&] {
    refused = refuse_reads_of_folders();
    if (refused) paths = list_folder("/");
  }).join();
  if (!refused) GTEST_SKIP() << "the kernel filters no system calls";
  ASSERT_FALSE(paths);
  EXPECT_EQ(paths.error().code, ErrorCode::kIo);
  EXPECT_EQ(paths.error().message, "cannot read the folder /: Input/output error");
}

class AtomicFileTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// Returns the permissions of the file after its content was replaced.
  mode_t mode_when_written() const {
    EXPECT_TRUE(write_file_atomically(path_, "new").has_value());
    struct stat status{};
    EXPECT_EQ(::stat(path_.c_str(), &status), 0);
    return status.st_mode & 07777;
  }

  Result<void> write_with(const FileCalls& calls, std::string_view content) const {
    GPEMU_ASSIGN(AtomicFile file, AtomicFile::create(path_, calls));
    GPEMU_TRY(file.append(content));
    return file.commit();
  }

  std::ptrdiff_t files() const {
    return std::distance(std::filesystem::directory_iterator(folder_), {});
  }

  const std::filesystem::path folder_ = std::filesystem::path(testing::TempDir()) /
                                        ("gpemu_atomic_file_" + std::to_string(::getpid()));
  const std::filesystem::path path_ = folder_ / "out";
};

TEST_F(AtomicFileTest, LeavesAFileThatIsThereIfANewOneIsWanted) {
  ASSERT_EQ(write_new_file(path_, "first").value(), true);
  ASSERT_EQ(write_new_file(path_, "second").value(), false);
  EXPECT_EQ(read_file(path_).value(), "first");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(AtomicFileTest, HasNoNameUntilItIsCompleteSoThatNothingStaysOfAKilledProcess) {
  if (!FileDescriptor(::open(folder_.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600)).valid()) {
    GTEST_SKIP() << "the file system makes no files without names";
  }
  auto file = AtomicFile::create(path_);
  ASSERT_TRUE(file);
  ASSERT_TRUE(file->append(std::string(std::size_t{1} << 20, 'x')));
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
  ASSERT_TRUE(file->commit());
  EXPECT_EQ(std::filesystem::file_size(path_), std::size_t{1} << 20);
}

TEST_F(AtomicFileTest, LeavesNoOtherNameBehind) {
  for (const char* const content : {"first", "second"}) {
    ASSERT_TRUE(write_file_atomically(path_, content));
    EXPECT_EQ(read_file(path_).value_or("unread"), content);
  }
  EXPECT_EQ(files(), 1);
}

TEST_F(AtomicFileTest, LeavesNothingHalfWrittenOnAFullDisk) {
  constexpr auto kFull = [](int descriptor, const void* bytes, std::size_t size) -> ssize_t {
    constexpr off_t kSpace = 1000;
    const off_t taken = ::lseek(descriptor, 0, SEEK_CUR);
    if (taken < kSpace) {
      return ::write(descriptor, bytes, std::min(size, static_cast<std::size_t>(kSpace - taken)));
    }
    errno = ENOSPC;
    return -1;
  };
  const auto write = [&](const std::string& content) {
    return write_with({.write = kFull}, content);
  };
  for (const std::size_t size : {std::size_t{1001}, std::size_t{1} << 20}) {
    const auto written = write(std::string(size, 'x'));
    ASSERT_FALSE(written) << size;
    EXPECT_EQ(written.error().code, ErrorCode::kResourceLimit);
    EXPECT_EQ(written.error().message,
              "cannot write " + path_.string() + ": No space left on device");
    EXPECT_TRUE(std::filesystem::is_empty(folder_)) << size;
  }
  const std::string old(1000, 'o');
  ASSERT_TRUE(write(old));
  EXPECT_FALSE(write(std::string(1001, 'x')));
  EXPECT_EQ(read_file(path_).value_or("unread"), old);
  EXPECT_EQ(files(), 1);
}

// A power failure keeps what was synced; a name may be on the disk before the content is.
TEST_F(AtomicFileTest, HasItsContentOnTheDiskBeforeItGetsTheName) {
  static off_t on_disk;
  static std::vector<off_t> at_rename;
  on_disk = 0;
  at_rename.clear();
  const FileCalls calls{.sync =
                            [](int descriptor) {
                              on_disk = ::lseek(descriptor, 0, SEEK_END);
                              return ::fsync(descriptor);
                            },
                        .rename =
                            [](const char* from, const char* to) {
                              at_rename.push_back(on_disk);
                              return std::rename(from, to);
                            }};
  ASSERT_TRUE(write_with(calls, std::string(100'000, 'x')));
  EXPECT_EQ(at_rename, std::vector<off_t>{100'000});
}

TEST_F(AtomicFileTest, LeavesTheOldFileIfTheNewOneCannotBeSynced) {
  ASSERT_TRUE(write_file_atomically(path_, "old"));
  const auto failed = write_with({.sync =
                                      [](int) {
                                        errno = EIO;
                                        return -1;
                                      }},
                                 "new");
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::kIo);
  EXPECT_EQ(failed.error().message, "cannot write " + path_.string() + ": Input/output error");
  EXPECT_EQ(read_file(path_).value_or("unread"), "old");
  EXPECT_EQ(files(), 1);
}

TEST_F(AtomicFileTest, LeavesTheOldFileIfTheNewOneCannotGetAName) {
  ASSERT_TRUE(write_file_atomically(path_, "old"));
  constexpr auto kFullLink = [](int, const char*, int, const char*, int) {
    errno = ENOSPC;
    return -1;
  };
  constexpr auto kFullRename = [](const char*, const char*) {
    errno = ENOSPC;
    return -1;
  };
  // A file system that makes no files without names needs no link.
  for (const FileCalls& calls :
       {FileCalls{.link = kFullLink, .rename = kFullRename}, FileCalls{.rename = kFullRename}}) {
    const auto failed = write_with(calls, "new");
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code, ErrorCode::kResourceLimit);
    EXPECT_EQ(read_file(path_).value_or("unread"), "old");
    EXPECT_EQ(files(), 1);
  }
}

TEST_F(AtomicFileTest, ReplacesTheTargetOfALink) {
  const std::filesystem::path target = folder_ / "target";
  ASSERT_TRUE(write_file_atomically(target, "old"));
  std::filesystem::create_symlink("target", path_);
  ASSERT_TRUE(write_file_atomically(path_, "new"));
  EXPECT_TRUE(std::filesystem::is_symlink(path_));
  EXPECT_EQ(read_file(target).value_or("unread"), "new");
}

TEST_F(AtomicFileTest, MakesTheMissingTargetOfALinkToALink) {
  std::filesystem::create_symlink("second", path_);
  std::filesystem::create_symlink(folder_ / "target", folder_ / "second");
  ASSERT_TRUE(write_file_atomically(path_, "new"));
  EXPECT_TRUE(std::filesystem::is_symlink(path_));
  EXPECT_EQ(read_file(folder_ / "target").value_or("unread"), "new");
}

TEST_F(AtomicFileTest, RefusesALinkToItself) {
  std::filesystem::create_symlink("out", path_);
  const auto failed = write_file_atomically(path_, "new");
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message,
            "cannot write " + path_.string() + ": Too many levels of symbolic links");
}

TEST_F(AtomicFileTest, RefusesANameThatIsTooLongBeforeTheContentIsThere) {
  EXPECT_TRUE(write_file_atomically(folder_ / std::string(255, 'x'), "").has_value());
  EXPECT_FALSE(AtomicFile::create(folder_ / std::string(256, 'x')).has_value());
}

TEST_F(AtomicFileTest, MakesFilesWithThePermissionsThatTheProcessGives) {
  const mode_t old = ::umask(027);
  EXPECT_EQ(mode_when_written(), 0640);
  ::umask(old);
}

TEST_F(AtomicFileTest, KeepsThePermissionsOfTheFileThatItReplaces) {
  ASSERT_TRUE(write_file_atomically(path_, "old"));
  for (const mode_t mode : {0600, 0666}) {
    ASSERT_EQ(::chmod(path_.c_str(), mode), 0);
    EXPECT_EQ(mode_when_written(), mode);
  }
}

}  // namespace
}  // namespace gpemu
