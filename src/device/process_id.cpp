// SPDX-License-Identifier: Apache-2.0
#include "process_id.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <filesystem>
#include <pthread.h>
#include <pwd.h>
#include <string_view>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>

#include "gpemu/base/file.hpp"

namespace gpemu::device {
namespace {

bool has_open(pid_t pid, dev_t file_system, ino_t inode) {
  const Result<std::vector<std::filesystem::path>> files =
      list_folder(fmt::format("/proc/{}/fd", pid));
  return files && std::ranges::any_of(*files, [&](const std::filesystem::path& file) {
           struct stat status{};
           return ::stat(file.c_str(), &status) == 0 && status.st_ino == inode &&
                  status.st_dev == file_system;
         });
}

/// Enough for any entry of a host's user database.
constexpr std::size_t kUserEntryBytes = 16 * 1024;

}  // namespace

pid_t own_pid() {
  static std::atomic<pid_t> pid = [] {
    ::pthread_atfork(nullptr, nullptr, [] { pid = ::getpid(); });
    return ::getpid();
  }();
  return pid.load(std::memory_order_relaxed);
}

std::uint64_t own_pid_namespace() {
  struct stat status{};
  return ::stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

std::string own_process_name() {
  std::array<char, 16> name{};
  ::prctl(PR_GET_NAME, name.data());
  return name.data();
}

std::optional<char> state_of_user(pid_t pid, dev_t file_system, ino_t inode) {
  if (pid <= 0 || !has_open(pid, file_system, inode)) return std::nullopt;
  const Result<std::string> text = read_file(fmt::format("/proc/{}/stat", pid), kMiB);
  if (!text) return std::nullopt;
  // The second field is a name in parentheses, which may itself contain spaces and parentheses.
  const std::size_t name_end = text->rfind(')');
  if (name_end == std::string::npos || name_end + 2 >= text->size()) return std::nullopt;
  return (*text)[name_end + 2];
}

std::optional<uid_t> find_user(const std::string& name) {
  passwd entry{};
  passwd* found = nullptr;
  std::array<char, kUserEntryBytes> buffer{};
  if (::getpwnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found) == 0 &&
      found != nullptr) {
    return found->pw_uid;
  }
  uid_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc() || end != name.data() + name.size() || name.empty()) return std::nullopt;
  return number;
}

std::string user_name(uid_t user) {
  passwd entry{};
  passwd* found = nullptr;
  std::array<char, kUserEntryBytes> buffer{};
  if (::getpwuid_r(user, &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr) {
    return found->pw_name;
  }
  return fmt::to_string(user);
}

}  // namespace gpemu::device
