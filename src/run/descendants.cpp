// SPDX-License-Identifier: Apache-2.0
#include "descendants.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <optional>
#include <poll.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "gpemu/base/file.hpp"
#include "gpemu/skip/proc_text.hpp"

namespace gpemu::run {
namespace {

constexpr int kListTries = 100;
constexpr int kListPauseMs = 1;

/// Returns the parent of a process that runs or is a zombie.
std::optional<pid_t> parent_of(pid_t process) {
  const auto stat = read_file("/proc/" + std::to_string(process) + "/stat", kMiB);
  return stat ? skip::parent_in(*stat) : std::nullopt;
}

}  // namespace

Result<std::vector<pid_t>> children() {
  std::vector<pid_t> found;
  const pid_t self = ::getpid();
  GPEMU_ASSIGN(const std::vector<std::filesystem::path> paths, list_folder("/proc"));
  for (const std::filesystem::path& path : paths) {
    const auto process = skip::leading_number<pid_t>(path.filename().native());
    if (process && parent_of(*process) == self) found.push_back(*process);
  }
  return found;
}

void end_descendants(std::vector<pid_t> spared,
                     const std::function<Result<std::vector<pid_t>>()>& list) {
  for (int failures = 0; failures < kListTries;) {
    Result<std::vector<pid_t>> listed = list();
    if (!listed) {
      ++failures;
      ::poll(nullptr, 0, kListPauseMs);
      continue;
    }
    std::vector<pid_t>& found = *listed;
    std::erase_if(found, [&spared](pid_t child) {
      if (std::ranges::find(spared, child) != spared.end()) return true;
      if (::kill(child, SIGKILL) == 0) return false;
      spared.push_back(child);
      return true;
    });
    if (found.empty()) return;
    for (const pid_t child : found) {
      while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
      }
    }
    // The processes that those had started are now children of this one.
  }
}

}  // namespace gpemu::run
