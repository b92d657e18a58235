// SPDX-License-Identifier: Apache-2.0
#include "process_id.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <fcntl.h>
#include <optional>
#include <pthread.h>
#include <string_view>
#include <sys/prctl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "gpemu/base/file.hpp"

namespace gpemu::device {
namespace {

struct ProcessStatus {
  bool ended;  ///< it only waits to be collected.
  std::uint64_t start_time;
};

std::optional<ProcessStatus> read_status(pid_t pid) {
  const FileDescriptor file(
      ::open(fmt::format("/proc/{}/stat", pid).c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return std::nullopt;
  std::array<char, 1024> buffer{};
  const ssize_t count = ::read(file.get(), buffer.data(), buffer.size());
  if (count <= 0) return std::nullopt;
  // The second field is a name in parentheses that may itself hold spaces and parentheses.
  std::string_view rest(buffer.data(), static_cast<std::size_t>(count));
  const std::size_t name_end = rest.rfind(')');
  if (name_end == std::string_view::npos || name_end + 2 >= rest.size()) return std::nullopt;
  rest.remove_prefix(name_end + 2);
  const char state = rest.front();
  constexpr int kFieldsFromStateToStartTime = 22 - 3;
  for (int i = 0; i < kFieldsFromStateToStartTime; ++i) {
    const std::size_t space = rest.find(' ');
    if (space == std::string_view::npos) return std::nullopt;
    rest.remove_prefix(space + 1);
  }
  std::uint64_t start_time = 0;
  std::from_chars(rest.data(), rest.data() + rest.size(), start_time);
  return ProcessStatus{.ended = state == 'Z' || state == 'X', .start_time = start_time};
}

}  // namespace

pid_t own_pid() {
  static std::atomic<pid_t> pid = [] {
    ::pthread_atfork(nullptr, nullptr, [] { pid = ::getpid(); });
    return ::getpid();
  }();
  return pid.load(std::memory_order_relaxed);
}

std::uint64_t process_start_time(pid_t pid) {
  const auto status = read_status(pid);
  return status ? status->start_time : 0;
}

bool process_ended(pid_t pid, std::uint64_t start_time) {
  if (const auto status = read_status(pid)) {
    return status->ended || (start_time != 0 && status->start_time != start_time);
  }
  return ::kill(pid, 0) != 0 && errno == ESRCH;
}

std::string own_process_name() {
  std::array<char, 16> name{};
  ::prctl(PR_GET_NAME, name.data());
  return name.data();
}

}  // namespace gpemu::device
