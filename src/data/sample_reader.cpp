// SPDX-License-Identifier: Apache-2.0
#include "gpemu/data/sample_reader.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gpemu/base/file.hpp"

namespace gpemu::data {
namespace {

// Far above any photograph; keeps a file that is no image from taking the host's memory.
constexpr Bytes kMaxFileBytes = kGiB;

std::unexpected<Error> cannot_read(const std::filesystem::path& path, int error_number) {
  return fail(ErrorCode::kIo, "cannot read {}: {}", path.string(), errno_message(error_number));
}

}  // namespace

Result<std::span<const std::byte>> SampleReader::read(const std::filesystem::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return cannot_read(path, errno);
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) return cannot_read(path, errno);
  const auto size = static_cast<Bytes>(status.st_size);
  if (size > kMaxFileBytes) return cannot_read(path, EFBIG);
  if (size > capacity_) {
    capacity_ = size + size / 2;
    buffer_ = std::make_unique_for_overwrite<std::byte[]>(capacity_);
  }
  Bytes filled = 0;
  while (filled < size) {
    const ssize_t count = ::read(file.get(), buffer_.get() + filled, size - filled);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return cannot_read(path, errno);
    if (count == 0) break;  // Somebody shortened the file.
    filled += static_cast<Bytes>(count);
  }
  return std::span<const std::byte>(buffer_.get(), filled);
}

}  // namespace gpemu::data
