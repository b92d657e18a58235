// SPDX-License-Identifier: Apache-2.0
#include "output_file.hpp"

#include <cerrno>
#include <fcntl.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace gpemu::data {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

std::unexpected<Error> cannot_write(const std::filesystem::path& path, int error) {
  return fail(error == ENOSPC || error == EDQUOT ? ErrorCode::kResourceLimit : ErrorCode::kIo,
              "cannot write {}: {}", path.string(), errno_message(error));
}

Result<void> check_place(const std::filesystem::path& folder) {
  std::error_code error;
  if (!std::filesystem::exists(folder, error)) return {};
  if (!std::filesystem::is_directory(folder, error) || !std::filesystem::is_empty(folder, error) ||
      error) {
    return fail(ErrorCode::kInvalidArgument,
                "{} exists already and is not an empty folder; name another or remove it",
                folder.string());
  }
  return {};
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

Result<OutputFolder> OutputFolder::create(const std::filesystem::path& folder) {
  const std::filesystem::path named = std::filesystem::absolute(folder).lexically_normal();
  std::filesystem::path target = named.has_filename() ? named : named.parent_path();
  GPEMU_TRY(check_place(target));
  std::filesystem::path path = target;
  path += ".partial-" + std::to_string(::getpid());
  std::error_code error;
  if (target.has_parent_path()) std::filesystem::create_directories(target.parent_path(), error);
  if (error || !std::filesystem::create_directory(path, error)) {
    return fail(ErrorCode::kIo, "cannot make folder {}: {}", path.string(),
                error ? error.message() : "it exists");
  }
  return OutputFolder(std::move(path), std::move(target));
}

OutputFolder::OutputFolder(OutputFolder&& other) noexcept
    : path_(std::exchange(other.path_, {})), target_(std::move(other.target_)) {}

OutputFolder::~OutputFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

Result<void> OutputFolder::commit() {
  std::error_code error;
  std::filesystem::rename(path_, target_, error);
  if (error) {
    return fail(ErrorCode::kIo, "cannot make folder {}: {}", target_.string(), error.message());
  }
  path_.clear();
  return {};
}

}  // namespace gpemu::data
