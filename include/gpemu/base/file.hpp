// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"

namespace gpemu {

/// Owns a POSIX file descriptor and closes it.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int descriptor) : descriptor_(descriptor) {}
  FileDescriptor(FileDescriptor&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor();

  [[nodiscard]] int get() const { return descriptor_; }
  [[nodiscard]] bool valid() const { return descriptor_ >= 0; }
  /// Returns the descriptor, which the caller must now close.
  [[nodiscard]] int release() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_ = -1;
};

/// Returns the whole content of a file.
///
/// Errors: kNotFound if it does not exist; kIo if it cannot be read, or is a named pipe, which
/// might never end; kInvalidArgument if it is larger than `max_bytes`.
[[nodiscard]] Result<std::string> read_file(const std::filesystem::path& path,
                                            Bytes max_bytes = 256 * kMiB);

/// Returns the paths of everything in a folder, in order.
///
/// Errors: kNotFound if there is no such folder; kIo if it cannot be read.
[[nodiscard]] Result<std::vector<std::filesystem::path>> list_folder(
    const std::filesystem::path& folder);

/// Like list_folder, but a folder that cannot be read has nothing in it.
[[nodiscard]] std::vector<std::filesystem::path> paths_in(const std::filesystem::path& folder);

/// Allocates disk space for `size` bytes of a file from `offset` on, so that a mapping of them can
/// be written to. Returns 0 or an errno value.
[[nodiscard]] int take_space(const FileDescriptor& file, std::size_t offset, std::size_t size);

/// Returns whether a path names a device, a pipe or a socket, which must not be replaced.
[[nodiscard]] bool is_special_file(const std::filesystem::path& path);

/// The system calls that give a file its content and its name. Tests replace them.
struct FileCalls {
  ssize_t (*write)(int descriptor, const void* bytes, std::size_t size) = ::write;
  int (*sync)(int descriptor) = ::fsync;
  int (*link)(int old_folder, const char* old_path, int new_folder, const char* new_path,
              int flags) = ::linkat;
  int (*rename)(const char* old_path, const char* new_path) = ::rename;
};

/// Replaces a file's content as a whole: readers see the old content or the new, never a part.
/// The new content first goes to a temporary file in the same folder, which is removed after a
/// failure. If the file system supports it, the temporary file has no name until it is complete, so
/// a killed process leaves nothing behind either. An existing file keeps its permissions; a new one
/// gets those of the process's umask. A symbolic link stays, and its target is replaced or made; a
/// special file is written to directly. After a power failure, the file has its old content or its
/// new one: the new content is on the disk before it gets the name, but the name may not be.
class AtomicFile {
 public:
  /// Errors: kIo with the path and the reason; kResourceLimit if the disk is full.
  [[nodiscard]] static Result<AtomicFile> create(const std::filesystem::path& path,
                                                 const FileCalls& calls = {});
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  /// Drops what was not committed.
  ~AtomicFile();

  /// Errors: kIo; kResourceLimit if the disk is full.
  [[nodiscard]] Result<void> append(std::string_view content);

  /// Gives the file its content. Nothing may be appended afterwards. Errors: as append.
  [[nodiscard]] Result<void> commit();

  /// As commit(), unless a file has the name already: then returns false, and it stays as it is.
  [[nodiscard]] Result<bool> commit_if_new();

 private:
  AtomicFile(std::filesystem::path path, std::string temporary, FileDescriptor file,
             const FileCalls& calls);
  [[nodiscard]] Result<void> flush();

  std::filesystem::path path_;
  std::string temporary_;  ///< its name until it is complete; empty: the file itself is written to.
  bool named_ = false;     ///< whether a file of that name exists and must be removed.
  FileDescriptor file_;
  FileCalls calls_;
  std::string buffer_;
};

/// Makes a file with its whole content; returns false, and changes nothing, if there is one.
///
/// Errors: as write_file_atomically().
[[nodiscard]] Result<bool> write_new_file(const std::filesystem::path& path,
                                          std::string_view content);

/// Replaces a file's content as a whole, like AtomicFile.
///
/// Errors: kIo with the path and the reason; kResourceLimit if the disk is full.
[[nodiscard]] Result<void> write_file_atomically(const std::filesystem::path& path,
                                                 std::string_view content);

}  // namespace gpemu
