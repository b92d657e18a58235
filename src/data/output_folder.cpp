// SPDX-License-Identifier: Apache-2.0
#include "gpemu/data/output_folder.hpp"

#include <cerrno>
#include <charconv>
#include <csignal>
#include <fcntl.h>
#include <string>
#include <string_view>
#include <sys/file.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace gpemu::data {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPartial = ".partial-";

Result<void> check_place(const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(folder, error)) return {};
  if (!fs::is_directory(folder, error) || !fs::is_empty(folder, error) || error) {
    return fail(ErrorCode::kInvalidArgument,
                "{} exists already and is not an empty folder; name another or remove it",
                folder.string());
  }
  return {};
}

/// Locks a folder, so that others see that its process lives: also those on other hosts and in
/// other containers, which cannot see the process itself.
FileDescriptor lock_of(const fs::path& folder) {
  FileDescriptor lock(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (lock.valid() && ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) return {};
  return lock;
}

/// Returns the process that a partial folder's name ends with; 0 for any other name.
pid_t process_in(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return 0;
  name.remove_prefix(prefix.size());
  pid_t process = 0;
  const auto end = std::from_chars(name.data(), name.data() + name.size(), process);
  return end.ec == std::errc() && end.ptr == name.data() + name.size() ? process : 0;
}

/// Removes what killed processes have left of the same folder, if it can.
void remove_left_over(const fs::path& target) {
  const std::string prefix = target.filename().string().append(kPartial);
  std::error_code error;
  fs::directory_iterator entries(target.parent_path(), error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    const pid_t process = process_in(entries->path().filename().string(), prefix);
    if (process <= 0 || ::kill(process, 0) == 0 || errno != ESRCH) continue;
    const FileDescriptor lock = lock_of(entries->path());
    std::error_code ignored;
    if (lock.valid()) fs::remove_all(entries->path(), ignored);
  }
}

}  // namespace

Result<OutputFolder> OutputFolder::create(const fs::path& folder) {
  const fs::path named = fs::absolute(folder).lexically_normal();
  fs::path target = named.has_filename() ? named : named.parent_path();
  GPEMU_TRY(check_place(target));
  fs::path path = target;
  path += std::string(kPartial) + std::to_string(::getpid());
  std::error_code error;
  if (target.has_parent_path()) fs::create_directories(target.parent_path(), error);
  if (!error) remove_left_over(target);
  if (error || !fs::create_directory(path, error)) {
    return fail(ErrorCode::kIo, "cannot make folder {}: {}", path.string(),
                error ? error.message() : "it exists");
  }
  FileDescriptor lock = lock_of(path);
  return OutputFolder(std::move(path), std::move(target), std::move(lock));
}

OutputFolder::OutputFolder(OutputFolder&& other) noexcept
    : path_(std::exchange(other.path_, {})),
      target_(std::move(other.target_)),
      lock_(std::move(other.lock_)) {}

OutputFolder::~OutputFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

Result<void> OutputFolder::commit() {
  std::error_code error;
  fs::rename(path_, target_, error);
  if (error) {
    return fail(ErrorCode::kIo, "cannot make folder {}: {}", target_.string(), error.message());
  }
  path_.clear();
  return {};
}

}  // namespace gpemu::data
