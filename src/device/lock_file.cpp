// SPDX-License-Identifier: Apache-2.0
#include "lock_file.hpp"

#include <algorithm>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "process_id.hpp"

namespace gpemu::device {
namespace {

/// All lock files of this process. Process-wide, because fork is. Never destroyed, because a thread
/// may fork while the process ends.
struct OpenLockFiles {
  Mutex mutex;
  std::vector<LockFile*> files GPEMU_GUARDED_BY(fork_mutex());
};

OpenLockFiles& open_lock_files() {
  static auto* const files = [] {
    auto* const made = new OpenLockFiles();
    ::pthread_atfork([]() GPEMU_ACQUIRES(fork_mutex()) { fork_mutex().lock(); },
                     []() GPEMU_RELEASES(fork_mutex()) { fork_mutex().unlock(); },
                     []() GPEMU_RELEASES(fork_mutex()) {
                       for (LockFile* const file : open_lock_files().files) file->close_in_child();
                       fork_mutex().unlock();
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
  // Asks whether it could take a read lock: unlike a write lock, this needs no permission to write.
  struct flock range = byte_range(F_RDLCK, first, count);
  return ::fcntl(descriptor, F_OFD_GETLK, &range) != 0 || range.l_type != F_UNLCK;
}

void for_each_lock_of_others(int descriptor, std::int64_t first, std::int64_t count,
                             const std::function<void(std::int64_t, std::int64_t)>& visit) {
  if (count <= 0) return;
  struct flock range = byte_range(F_RDLCK, first, count);
  if (::fcntl(descriptor, F_OFD_GETLK, &range) != 0) return visit(first, count);
  if (range.l_type == F_UNLCK) return;
  // The lock may extend beyond the bytes in question; a length of 0 means that it has no end.
  const std::int64_t end = first + count;
  const std::int64_t locked = std::clamp<std::int64_t>(range.l_start, first, end);
  const std::int64_t locked_end =
      range.l_len == 0 || range.l_len > end - locked
          ? end
          : std::clamp<std::int64_t>(range.l_start + range.l_len, locked, end);
  // The lock covers none of these bytes: the calls below would ask for it again and again.
  if (locked_end == locked) return visit(first, count);
  visit(locked, locked_end - locked);
  for_each_lock_of_others(descriptor, first, locked - first, visit);
  for_each_lock_of_others(descriptor, locked_end, end - locked_end, visit);
}

Mutex& fork_mutex() {
  return open_lock_files().mutex;
}

LockFile::LockFile(FileDescriptor file, const ForkHold& /*hold*/) : file_(std::move(file)) {
  struct stat status{};
  if (::fstat(file_.get(), &status) == 0) {
    inode_ = status.st_ino;
    file_system_ = status.st_dev;
  }
  open_lock_files().files.push_back(this);
}

LockFile::~LockFile() {
  const ForkHold hold;
  std::erase(open_lock_files().files, this);
  file_ = FileDescriptor();
}

bool LockFile::lock(std::int64_t offset) {
  struct flock range = byte_range(F_WRLCK, offset, 1);
  return ::fcntl(file_.get(), F_OFD_SETLK, &range) == 0;
}

void LockFile::unlock(std::int64_t offset) {
  struct flock range = byte_range(F_UNLCK, offset, 1);
  ::fcntl(file_.get(), F_OFD_SETLK, &range);
}

void LockFile::close_in_child() {
  struct stat status{};
  const int descriptor = file_.release();
  if (descriptor >= 0 && ::fstat(descriptor, &status) == 0 && status.st_ino == inode_ &&
      status.st_dev == file_system_) {
    ::close(descriptor);
  }
}

void handle_forks_of_locks() {
  static_cast<void>(own_pid());
  static_cast<void>(open_lock_files());
}

}  // namespace gpemu::device
