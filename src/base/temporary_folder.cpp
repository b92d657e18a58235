// SPDX-License-Identifier: Apache-2.0
#include "gpemu/base/temporary_folder.hpp"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <string>
#include <string_view>
#include <sys/file.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace gpemu {
namespace {

/// Locks a folder. Returns no descriptor if another process has.
FileDescriptor lock_folder(const std::filesystem::path& path) {
  FileDescriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (folder.valid() && ::flock(folder.get(), LOCK_EX | LOCK_NB) != 0) return {};
  return folder;
}

/// Removes the folders of killed processes, whose locks are free.
void remove_abandoned(const std::filesystem::path& parent, std::string_view prefix) {
  std::error_code ignored;
  for (const std::filesystem::path& path : paths_in(parent)) {
    if (!path.filename().string().starts_with(prefix)) continue;
    // Other users may have put anything here. Their files are neither waited for nor removed.
    struct stat status{};
    if (::lstat(path.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) ||
        status.st_uid != ::geteuid()) {
      continue;
    }
    const FileDescriptor lock = lock_folder(path);  // Held until it is removed.
    if (lock.valid()) std::filesystem::remove_all(path, ignored);
  }
}

}  // namespace

Result<TemporaryFolder> TemporaryFolder::create(const std::filesystem::path& parent,
                                                std::string_view prefix) {
  std::error_code error;
  // A program that is told of it may have another working folder.
  const std::filesystem::path folder = std::filesystem::absolute(parent, error);
  remove_abandoned(folder, prefix);
  for (;;) {
    std::string path = (folder / prefix).string() + "XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) {
      return fail(ErrorCode::kIo, "{}: {}", path, errno_message(errno));
    }
    FileDescriptor lock = lock_folder(path);
    const int reason = errno;
    // Until it is locked, another process may take it for abandoned, and remove it.
    if (lock.valid() && std::filesystem::exists(path, error)) {
      return TemporaryFolder(path, std::move(lock));
    }
    if (!lock.valid() && reason != ENOENT && reason != EWOULDBLOCK) {
      std::filesystem::remove_all(path, error);
      return fail(ErrorCode::kIo, "{}: {}", path, errno_message(reason));
    }
  }
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace gpemu
