// SPDX-License-Identifier: Apache-2.0
#include "gpemu/base/file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include <fmt/format.h>

#include "gpemu/base/signals.hpp"

namespace gpemu {
namespace {

/// Written at once.
constexpr std::size_t kBufferBytes = 1 << 16;

/// Returns the error of a system call that has just failed.
std::unexpected<Error> cannot_write(const std::filesystem::path& path) {
  const bool full = errno == ENOSPC || errno == EDQUOT;
  return fail(full ? ErrorCode::kResourceLimit : ErrorCode::kIo, "cannot write {}: {}",
              path.string(), errno_message(errno));
}

Result<void> write_all(const FileCalls& calls, int descriptor, std::string_view content,
                       const std::filesystem::path& path) {
  while (!content.empty()) {
    const ssize_t written = calls.write(descriptor, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return cannot_write(path);
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

/// Returns whether a file is an unnamed pipe, as a shell makes for `<(command)`: these have their
/// own file system.
bool is_pipe_without_name(const struct stat& status) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return false;
  const FileDescriptor reader(ends[0]), writer(ends[1]);
  struct stat made{};
  return ::fstat(reader.get(), &made) == 0 && made.st_dev == status.st_dev;
}

/// Returns a name for a file without one.
std::string path_of(const FileDescriptor& file) {
  return fmt::format("/proc/self/fd/{}", file.get());
}

/// Opens a file without a name, which disappears with the process. The result is invalid if the
/// file system does not support that, or without /proc, through which the file gets its name.
FileDescriptor open_unnamed(const std::filesystem::path& folder, mode_t mode) {
  FileDescriptor file(::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, mode));
  return file.valid() && ::access(path_of(file).c_str(), F_OK) == 0 ? std::move(file)
                                                                    : FileDescriptor();
}

}  // namespace

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this != &other) {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = std::exchange(other.descriptor_, -1);
  }
  return *this;
}

FileDescriptor::~FileDescriptor() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<std::string> read_file(const std::filesystem::path& path, Bytes max_bytes) {
  // Opening a named pipe would wait for a writer, possibly for ever.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) {
    const ErrorCode code = errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo;
    return fail(code, "cannot read {}: {}", path.string(), errno_message(errno));
  }
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) {
    return fail(ErrorCode::kIo, "cannot read {}: {}", path.string(), errno_message(errno));
  }
  if (S_ISDIR(status.st_mode)) {
    return fail(ErrorCode::kIo, "cannot read {}: it is a folder", path.string());
  }
  if (S_ISFIFO(status.st_mode) && !is_pipe_without_name(status)) {
    return fail(ErrorCode::kIo,
                "cannot read {}: it is a named pipe, which may never end; give a file",
                path.string());
  }
  ::fcntl(file.get(), F_SETFL, 0);
  const auto too_large = [&path, max_bytes] {
    return fail(ErrorCode::kInvalidArgument, "{} is larger than {} bytes", path.string(),
                max_bytes);
  };
  if (static_cast<Bytes>(status.st_size) > max_bytes) return too_large();
  std::string content;
  content.reserve(static_cast<std::size_t>(status.st_size) + 1);
  while (true) {
    const std::size_t old_size = content.size();
    const std::size_t room = std::max<std::size_t>(content.capacity() - old_size, 4096);
    content.resize(old_size + room);
    const ssize_t count = ::read(file.get(), content.data() + old_size, room);
    content.resize(old_size + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      return fail(ErrorCode::kIo, "cannot read {}: {}", path.string(), errno_message(errno));
    }
    if (content.size() > max_bytes) return too_large();
    if (count == 0) return content;
  }
}

Result<std::vector<std::filesystem::path>> list_folder(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  // An iterator's ++ would throw.
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    paths.push_back(entry->path());
  }
  if (error) {
    const ErrorCode code =
        error == std::errc::no_such_file_or_directory ? ErrorCode::kNotFound : ErrorCode::kIo;
    return fail(code, "cannot read the folder {}: {}", folder.string(), error.message());
  }
  std::ranges::sort(paths);
  return paths;
}

std::vector<std::filesystem::path> paths_in(const std::filesystem::path& folder) {
  return list_folder(folder).value_or(std::vector<std::filesystem::path>());
}

int take_space(const FileDescriptor& file, std::size_t offset, std::size_t size) {
  int error = EINTR;
  while (error == EINTR) {
    error = ::posix_fallocate(file.get(), static_cast<off_t>(offset), static_cast<off_t>(size));
  }
  return error;
}

bool is_special_file(const std::filesystem::path& path) {
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(path, ignored);
  return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status) &&
         !std::filesystem::is_directory(status);
}

AtomicFile::AtomicFile(std::filesystem::path path, std::string temporary, FileDescriptor file,
                       const FileCalls& calls)
    : path_(std::move(path)),
      temporary_(std::move(temporary)),
      file_(std::move(file)),
      calls_(calls) {}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      named_(std::exchange(other.named_, false)),
      file_(std::move(other.file_)),
      calls_(other.calls_),
      buffer_(std::move(other.buffer_)) {}

AtomicFile::~AtomicFile() {
  if (named_) ::unlink(temporary_.c_str());
}

Result<AtomicFile> AtomicFile::create(const std::filesystem::path& path, const FileCalls& calls) {
  if (is_special_file(path)) {
    FileDescriptor file(::open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC));
    if (!file.valid()) return cannot_write(path);
    return AtomicFile(path, {}, std::move(file), calls);
  }
  std::error_code error;
  if (std::filesystem::is_symlink(path, error)) {
    const std::filesystem::path target = std::filesystem::canonical(path, error);
    if (!error) return create(target, calls);
    if (error != std::errc::no_such_file_or_directory) {
      return fail(ErrorCode::kIo, "cannot write {}: {}", path.string(), error.message());
    }
    const std::filesystem::path missing = std::filesystem::read_symlink(path, error);
    return create(path.parent_path() / missing, calls);
  }
  // A fault such as a name that is too long must be reported now, not after writing everything.
  struct stat old{};
  const bool replaces = ::stat(path.c_str(), &old) == 0;
  if (!replaces && errno != ENOENT) return cannot_write(path);
  const mode_t mode = replaces ? old.st_mode & 0777 : 0666;  // less the process's umask
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  std::uint64_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != sizeof number) return cannot_write(path);
  const std::string temporary = folder / fmt::format("gpemu-{:016x}.tmp", number);
  AtomicFile made(path, temporary, open_unnamed(folder, mode), calls);
  if (!made.file_.valid()) {
    made.file_ =
        FileDescriptor(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
    if (!made.file_.valid()) return cannot_write(path);
    made.named_ = true;
  }
  if (replaces && ::fchmod(made.file_.get(), mode) != 0) return cannot_write(path);
  return made;
}

Result<void> AtomicFile::append(std::string_view content) {
  buffer_ += content;
  return buffer_.size() < kBufferBytes ? Result<void>() : flush();
}

Result<void> AtomicFile::flush() {
  GPEMU_TRY(write_all(calls_, file_.get(), buffer_, path_));
  buffer_.clear();
  return {};
}

Result<void> AtomicFile::commit() {
  GPEMU_TRY(flush());
  if (temporary_.empty()) return {};
  if (calls_.sync(file_.get()) != 0) return cannot_write(path_);
  // Only a file with a name can replace another. A signal in between would leave it behind.
  const SignalsHeld held;
  if (!named_ && calls_.link(AT_FDCWD, path_of(file_).c_str(), AT_FDCWD, temporary_.c_str(),
                             AT_SYMLINK_FOLLOW) != 0) {
    return cannot_write(path_);
  }
  named_ = true;
  if (calls_.rename(temporary_.c_str(), path_.c_str()) != 0) return cannot_write(path_);
  named_ = false;
  return {};
}

Result<bool> AtomicFile::commit_if_new() {
  GPEMU_TRY(flush());
  if (temporary_.empty()) return false;
  if (calls_.sync(file_.get()) != 0) return cannot_write(path_);
  const std::string source = named_ ? temporary_ : path_of(file_);
  if (calls_.link(AT_FDCWD, source.c_str(), AT_FDCWD, path_.c_str(), AT_SYMLINK_FOLLOW) == 0) {
    return true;  // Another name of it goes with this object.
  }
  return errno == EEXIST ? Result<bool>(false) : cannot_write(path_);
}

Result<bool> write_new_file(const std::filesystem::path& path, std::string_view content) {
  GPEMU_ASSIGN(AtomicFile file, AtomicFile::create(path));
  GPEMU_TRY(file.append(content));
  return file.commit_if_new();
}

Result<void> write_file_atomically(const std::filesystem::path& path, std::string_view content) {
  GPEMU_ASSIGN(AtomicFile file, AtomicFile::create(path));
  GPEMU_TRY(file.append(content));
  return file.commit();
}

}  // namespace gpemu
