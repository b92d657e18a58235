// SPDX-License-Identifier: Apache-2.0
#include "gpemu/record/record_folder.hpp"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <string>
#include <sys/file.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace gpemu::record {
namespace {

constexpr const char* kPrefix = "gpemu-run-";
constexpr const char* kLockName = "lock";

/// Removes the folders of killed runs, whose locks are free.
void remove_abandoned(const std::filesystem::path& parent) {
  std::error_code ignored;
  for (const std::filesystem::path& path : paths_in(parent)) {
    if (!path.filename().string().starts_with(kPrefix)) continue;
    // Other users may have put anything here. Their files are neither waited for nor removed.
    struct stat status{};
    if (::lstat(path.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) ||
        status.st_uid != ::geteuid()) {
      continue;
    }
    const FileDescriptor lock(
        ::open((path / kLockName).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (lock.valid() && ::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) {
      std::filesystem::remove_all(path, ignored);
    }
  }
}

}  // namespace

Result<RecordFolder> RecordFolder::create(const std::filesystem::path& parent) {
  std::error_code error;
  // The program may have another working folder than the command.
  const std::filesystem::path folder = std::filesystem::absolute(parent, error);
  if (error || !std::filesystem::is_directory(folder, error)) {
    return fail(ErrorCode::kIo, "TMPDIR must name a folder for records, but '{}' is none",
                parent.string());
  }
  remove_abandoned(folder);
  std::string pattern = (folder / kPrefix).string() + "XXXXXX";
  if (::mkdtemp(pattern.data()) == nullptr) {
    return fail(ErrorCode::kIo, "{}: {}", pattern, errno_message(errno));
  }
  const std::filesystem::path path = pattern;
  // It has another name until it is locked, so that no run takes it for abandoned.
  const std::filesystem::path unlocked = path / "new";
  FileDescriptor lock(::open(unlocked.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.valid() || ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0 ||
      ::rename(unlocked.c_str(), (path / kLockName).c_str()) != 0) {
    const std::string reason = errno_message(errno);
    std::filesystem::remove_all(path, error);
    return fail(ErrorCode::kIo, "{}: {}", path.string(), reason);
  }
  return RecordFolder(path, std::move(lock));
}

RecordFolder::~RecordFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace gpemu::record
