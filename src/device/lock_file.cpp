// SPDX-License-Identifier: Apache-2.0
#include "lock_file.hpp"

#include <fcntl.h>
#include <mutex>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace gpemu::device {
namespace {

/// All lock files of this process. Process-wide as fork is. Never destroyed: a thread may fork
/// while the process ends.
struct OpenLockFiles {
  std::mutex mutex;
  std::vector<LockFile*> files;  ///< guarded by mutex.
};

OpenLockFiles& open_lock_files() {
  static auto* const files = [] {
    auto* const made = new OpenLockFiles();
    ::pthread_atfork([] { open_lock_files().mutex.lock(); },
                     [] { open_lock_files().mutex.unlock(); },
                     [] {
                       OpenLockFiles& inherited = open_lock_files();
                       for (LockFile* const file : inherited.files) file->close_in_child();
                       inherited.mutex.unlock();
                     });
    return made;
  }();
  return *files;
}

struct flock byte_range(short type, std::int64_t first, std::int64_t count) {
  struct flock range{};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_start = first;
  range.l_len = count;
  return range;
}

}  // namespace

bool locked_by_others(int descriptor, std::int64_t first, std::int64_t count) {
  // Whether one could read-lock it: which needs no permission to write, as locking would.
  struct flock range = byte_range(F_RDLCK, first, count);
  return ::fcntl(descriptor, F_OFD_GETLK, &range) != 0 || range.l_type != F_UNLCK;
}

LockFile::LockFile(const FileDescriptor& file)
    : descriptor_(::fcntl(file.get(), F_DUPFD_CLOEXEC, 0)) {
  struct stat status{};
  if (::fstat(descriptor_, &status) == 0) {
    inode_ = status.st_ino;
    file_system_ = status.st_dev;
  }
  OpenLockFiles& open = open_lock_files();
  const std::lock_guard lock(open.mutex);
  open.files.push_back(this);
}

LockFile::~LockFile() {
  OpenLockFiles& open = open_lock_files();
  const std::lock_guard lock(open.mutex);
  std::erase(open.files, this);
  if (descriptor_ >= 0) ::close(descriptor_);
}

bool LockFile::lock(std::int64_t offset) {
  struct flock range = byte_range(F_WRLCK, offset, 1);
  return ::fcntl(descriptor_, F_OFD_SETLK, &range) == 0;
}

void LockFile::unlock(std::int64_t offset) {
  struct flock range = byte_range(F_UNLCK, offset, 1);
  ::fcntl(descriptor_, F_OFD_SETLK, &range);
}

void LockFile::close_in_child() {
  struct stat status{};
  if (descriptor_ >= 0 && ::fstat(descriptor_, &status) == 0 && status.st_ino == inode_ &&
      status.st_dev == file_system_) {
    ::close(descriptor_);
  }
  descriptor_ = -1;
}

}  // namespace gpemu::device
