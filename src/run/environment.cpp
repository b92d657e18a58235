// SPDX-License-Identifier: Apache-2.0
#include "gpemu/run/environment.hpp"

#include <algorithm>
#include <ranges>
#include <string_view>

#include <fmt/format.h>

namespace gpemu::run {

std::string path_with(const std::string& folder, std::string_view path) {
  // Without folders of its own, PATH keeps its meaning: the system's folders, see execvp(3).
  if (folder.empty() || path.empty()) return std::string(path);
  std::string entry = folder;
  for (const auto part : std::views::split(path, ':')) {
    const std::string_view other(part.begin(), part.end());
    if (other != folder) entry += fmt::format(":{}", other);
  }
  return entry;
}

std::vector<std::string> changed(const std::vector<std::string>& own,
                                 const Environment& environment,
                                 const std::filesystem::path& folder) {
  std::vector<std::string> entries;
  for (const std::string& entry : own) {
    const auto is_of = [&entry](std::string_view name) {
      return entry.starts_with(name) && entry.size() > name.size() && entry[name.size()] == '=';
    };
    const bool replaced = std::ranges::any_of(
        environment.set, [&is_of](const auto& addition) { return is_of(addition.first); });
    if (replaced || std::ranges::any_of(environment.unset, is_of)) continue;
    const std::size_t value = entry.find('=') + 1;
    if (is_of("PATH")) {
      entries.push_back("PATH=" + path_with(environment.programs, entry.substr(value)));
      continue;
    }
    const bool is_path = value < entry.size() && std::ranges::any_of(environment.paths, is_of);
    entries.push_back(is_path ? entry.substr(0, value) + (folder / entry.substr(value)).string()
                              : entry);
  }
  for (const auto& [name, value] : environment.set) {
    entries.push_back(fmt::format("{}={}", name, value));
  }
  return entries;
}

}  // namespace gpemu::run
