// SPDX-License-Identifier: Apache-2.0
#include "gpemu/base/file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace gpemu {
namespace {

Result<void> write_all(int descriptor, std::string_view content,
                       const std::filesystem::path& path) {
  while (!content.empty()) {
    const ssize_t written = ::write(descriptor, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const ErrorCode code = errno == ENOSPC ? ErrorCode::kResourceLimit : ErrorCode::kIo;
      return fail(code, "cannot write {}: {}", path.string(), errno_message(errno));
    }
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
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
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
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
    if (content.size() > max_bytes) {
      return fail(ErrorCode::kInvalidArgument, "{} is larger than {} bytes", path.string(),
                  max_bytes);
    }
    if (count == 0) return content;
  }
}

Result<void> write_file_atomically(const std::filesystem::path& path, std::string_view content) {
  std::string temporary = path.string() + ".XXXXXX";
  const FileDescriptor file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!file.valid()) {
    return fail(ErrorCode::kIo, "cannot write {}: {}", path.string(), errno_message(errno));
  }
  Result<void> result = write_all(file.get(), content, path);
  if (result && ::fchmod(file.get(), 0644) == 0 && ::fsync(file.get()) == 0 &&
      ::rename(temporary.c_str(), path.c_str()) == 0) {
    return {};
  }
  if (result) {
    result = fail(ErrorCode::kIo, "cannot write {}: {}", path.string(), errno_message(errno));
  }
  ::unlink(temporary.c_str());
  return result;
}

}  // namespace gpemu
