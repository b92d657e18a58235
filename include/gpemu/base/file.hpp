// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

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
  /// Returns the descriptor, which is the caller's to close from now on.
  [[nodiscard]] int release() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_ = -1;
};

/// Returns the whole content of a file.
///
/// Errors: kNotFound when there is none, kIo when it cannot be read or is a pipe with a name, which
/// might never end, kInvalidArgument when it is larger than `max_bytes`.
[[nodiscard]] Result<std::string> read_file(const std::filesystem::path& path,
                                            Bytes max_bytes = 256 * kMiB);

/// Takes space on the disk for the first `size` bytes of a file after `offset`, so that a mapping
/// of them can be written to. Returns 0, or the reason as errno would have it.
[[nodiscard]] int take_space(const FileDescriptor& file, std::size_t offset, std::size_t size);

/// Returns whether a path names a device, a pipe or a socket: nothing that may be replaced.
[[nodiscard]] bool is_special_file(const std::filesystem::path& path);

/// Replaces a file's content as a whole: readers see the old content or the new, never a part.
/// The new content goes to a temporary file in the same folder first, which no failure leaves
/// behind; it has no name until it is complete, where the file system can do that, so that nothing
/// stays of a process that is ended either. The file keeps its permissions; a new one has those
/// that the process's umask leaves. A symbolic link stays, and the file that it names is replaced;
/// a special file is written to as it is.
class AtomicFile {
 public:
  /// Errors: kIo with the path and the reason.
  [[nodiscard]] static Result<AtomicFile> create(const std::filesystem::path& path);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  /// Drops what was not committed.
  ~AtomicFile();

  /// Errors: kIo; kResourceLimit when the disk is full.
  [[nodiscard]] Result<void> append(std::string_view content);

  /// Gives the file its content. Nothing may be appended after it. Errors: as append.
  [[nodiscard]] Result<void> commit();

 private:
  AtomicFile(std::filesystem::path path, std::string temporary, FileDescriptor file);
  [[nodiscard]] Result<void> flush();

  std::filesystem::path path_;
  std::string temporary_;  ///< what it is called until it is complete; empty: it is written to.
  bool named_ = false;     ///< whether a file of that name is there, to be dropped.
  FileDescriptor file_;
  std::string buffer_;
};

/// Replaces a file's content as a whole, as AtomicFile.
///
/// Errors: kIo with the path and the reason; kResourceLimit when the disk is full.
[[nodiscard]] Result<void> write_file_atomically(const std::filesystem::path& path,
                                                 std::string_view content);

}  // namespace gpemu
