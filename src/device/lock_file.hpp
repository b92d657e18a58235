// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <sys/types.h>

#include "gpemu/base/file.hpp"

namespace gpemu::device {

/// Returns whether somebody else than this open file holds a lock on any of `count` bytes: the
/// kernel's word, from any pid or mount namespace. True when the kernel cannot say.
[[nodiscard]] bool locked_by_others(int descriptor, std::int64_t first, std::int64_t count);

/// The open file of a segment that carries a process's locks, whose end is the end of all of them.
///
/// A forked child would inherit it, and a dead parent live on in its child. So it is never mapped
/// (a mapping keeps an open file, and its locks, alive), and the child closes its copy in a handler
/// of fork. Thread safety: any thread may make and destroy these; fork waits for that.
class LockFile {
 public:
  /// Shares the open file, whose own descriptor may be closed then.
  explicit LockFile(const FileDescriptor& file);
  LockFile(const LockFile&) = delete;
  LockFile& operator=(const LockFile&) = delete;
  ~LockFile();

  /// Returns the descriptor; -1 in a forked child, or when the process can open no more files.
  [[nodiscard]] int get() const { return descriptor_; }

  /// Locks one byte until this object ends, unless somebody else has: never waits.
  [[nodiscard]] bool lock(std::int64_t offset);
  void unlock(std::int64_t offset);

  /// Returns the file's number, which other paths to it and other processes see, too.
  [[nodiscard]] ino_t inode() const { return inode_; }
  [[nodiscard]] dev_t file_system() const { return file_system_; }

  /// Closes the descriptor in a forked child, if it still is this file's: programs close what they
  /// did not open, and the number may be another file's by now. Async-signal-safe.
  void close_in_child();

 private:
  int descriptor_;
  ino_t inode_ = 0;
  dev_t file_system_ = 0;
};

}  // namespace gpemu::device
