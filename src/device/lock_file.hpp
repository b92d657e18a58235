// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <sys/types.h>

#include "gpemu/base/file.hpp"
#include "gpemu/base/mutex.hpp"

namespace gpemu::device {

/// Returns whether anyone but this open file holds a lock on any of `count` bytes. The kernel
/// answers, from any pid or mount namespace. True if the kernel cannot say.
[[nodiscard]] bool locked_by_others(int descriptor, std::int64_t first, std::int64_t count);

/// Calls `visit(first, count)` for each stretch of those bytes that somebody else has locked, or
/// for all of them if the kernel cannot say. Asks at most once more than twice the number of
/// stretches.
void for_each_lock_of_others(int descriptor, std::int64_t first, std::int64_t count,
                             const std::function<void(std::int64_t, std::int64_t)>& visit);

/// Returns the mutex for which a fork waits.
[[nodiscard]] Mutex& fork_mutex();

/// While an object of this class exists, no other thread forks: for the time between opening a file
/// and its LockFile. Requires: the thread has no other object, and does not fork itself.
class GPEMU_SCOPED_LOCK ForkHold {
 public:
  ForkHold() GPEMU_ACQUIRES(fork_mutex()) : lock_(fork_mutex()) {}
  ForkHold(const ForkHold&) = delete;
  ForkHold& operator=(const ForkHold&) = delete;
  ~ForkHold() GPEMU_RELEASES() = default;

 private:
  const Lock lock_;
};

/// The open file of a segment that carries a process's locks. When it ends, all its locks end.
///
/// A forked child would inherit it, and a dead parent would live on in its child. So the file is
/// never mapped (a mapping keeps an open file, and its locks, alive), and the child closes its copy
/// in a fork handler. Thread safety: any thread may make and destroy these; fork waits for that.
class LockFile {
 public:
  /// Takes an open file. It must have been opened under the same hold, so that no child can have
  /// it.
  LockFile(FileDescriptor file, const ForkHold& hold) GPEMU_REQUIRES(fork_mutex());
  LockFile(const LockFile&) = delete;
  LockFile& operator=(const LockFile&) = delete;
  ~LockFile() GPEMU_EXCLUDES(fork_mutex());

  /// Returns the descriptor; -1 in a forked child.
  [[nodiscard]] int get() const { return file_.get(); }
  [[nodiscard]] const FileDescriptor& file() const { return file_; }

  /// Locks one byte until this object ends, unless another process has locked it. Never waits.
  [[nodiscard]] bool lock(std::int64_t offset);
  void unlock(std::int64_t offset);

  /// Returns the file's number, which other paths to it and other processes see too.
  [[nodiscard]] ino_t inode() const { return inode_; }
  [[nodiscard]] dev_t file_system() const { return file_system_; }

  /// Closes the descriptor in a forked child if it still refers to this file: programs close
  /// descriptors that they did not open, so it may refer to another file by now. Async-signal-safe.
  void close_in_child();

 private:
  FileDescriptor file_;
  ino_t inode_ = 0;
  dev_t file_system_ = 0;
};

/// See handle_forks() in node.hpp.
void handle_forks_of_locks();

}  // namespace gpemu::device
