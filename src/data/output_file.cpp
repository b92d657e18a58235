// SPDX-License-Identifier: Apache-2.0
#include "output_file.hpp"

#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

namespace gpemu::data {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

std::unexpected<Error> cannot_write(const std::filesystem::path& path, int error) {
  return fail(error == ENOSPC || error == EDQUOT ? ErrorCode::kResourceLimit : ErrorCode::kIo,
              "cannot write {}: {}", path.string(), errno_message(error));
}

}  // namespace

Result<OutputFile> OutputFile::create(std::filesystem::path path) {
  FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file.valid()) return cannot_write(path, errno);
  return OutputFile(std::move(path), std::move(file));
}

Result<void> OutputFile::append(std::span<const std::byte> bytes) {
  size_ += bytes.size();
  if (buffer_.size() + bytes.size() <= kBufferBytes) {
    buffer_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return {};
  }
  GPEMU_TRY(write(std::as_bytes(std::span(buffer_))));
  buffer_.clear();
  return write(bytes);
}

Result<void> OutputFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file_.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return cannot_write(path_, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return {};
}

Result<void> OutputFile::close() {
  GPEMU_TRY(write(std::as_bytes(std::span(buffer_))));
  buffer_.clear();
  // Network file systems report a full disk only here.
  if (::close(file_.release()) != 0 && errno != EINTR) return cannot_write(path_, errno);
  return {};
}

}  // namespace gpemu::data
