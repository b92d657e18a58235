// SPDX-License-Identifier: Apache-2.0
#include "cluster/namespaces.hpp"

#include <charconv>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <set>
#include <string>
#include <sys/stat.h>
#include <system_error>
#include <utility>
#include <vector>

namespace gpemu::tools {
namespace {

/// What makes a namespace different from others.
using Identity = std::pair<dev_t, ino_t>;

std::filesystem::path path_of(const std::string& name) {
  return "/run/netns/" + name;
}

std::vector<pid_t> processes_in(const std::set<Identity>& spaces) {
  std::vector<pid_t> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    pid_t pid = 0;
    const auto [end, none] = std::from_chars(name.data(), name.data() + name.size(), pid);
    struct stat file{};
    if (none != std::errc() || end != name.data() + name.size()) continue;
    if (::stat((entry.path() / "ns/net").c_str(), &file) != 0) continue;
    if (spaces.contains({file.st_dev, file.st_ino})) found.push_back(pid);
  }
  return found;
}

}  // namespace

bool exists_namespace(const std::string& name) {
  struct stat file{};
  return ::stat(path_of(name).c_str(), &file) == 0;
}

std::vector<std::string> namespaces_named(const std::string& prefix) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/run/netns", error)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(prefix)) continue;
    const std::string rest = name.substr(prefix.size());
    const bool is_host = !rest.empty() && rest.find_first_not_of("0123456789") == std::string::npos;
    if (is_host || rest == "switch") names.push_back(name);
  }
  return names;
}

Result<void> end_processes_in(std::span<const std::string> names, const World& world) {
  using namespace std::chrono_literals;
  std::set<Identity> spaces;
  for (const std::string& name : names) {
    struct stat file{};
    if (::stat(path_of(name).c_str(), &file) == 0) spaces.insert({file.st_dev, file.st_ino});
  }
  if (spaces.empty()) return {};
  for (const auto& [signal, patience] : {std::pair(SIGTERM, 3s), std::pair(SIGKILL, 3s)}) {
    const TimePoint until = world.clock.now() + patience;
    std::set<pid_t> asked;  // Programs take a second SIGTERM for impatience.
    while (true) {
      const std::vector<pid_t> left = processes_in(spaces);
      if (left.empty()) return {};
      for (const pid_t pid : left) {
        if (asked.insert(pid).second) ::kill(pid, signal);
      }
      if (world.clock.now() >= until) break;
      world.clock.wait_until(world.clock.now() + 50ms);
    }
  }
  return fail(ErrorCode::kUnavailable, "processes of the cluster do not end; try again");
}

}  // namespace gpemu::tools
