// SPDX-License-Identifier: Apache-2.0
#include "holders.hpp"

#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "process_id.hpp"

namespace gpemu::device {

std::string describe_holder(const ProcessSnapshot& process, const LockFile* file) {
  std::string text = describe(process);
  if (process.foreign_namespace != 0 || file == nullptr) return text;
  const auto state = state_of_user(process.pid, file->file_system(), file->inode());
  if (state == 'T' || state == 't') {
    text += fmt::format(", which is stopped: `kill -CONT {}` continues it, `kill -KILL {}` ends it",
                        process.pid, process.pid);
  }
  return text;
}

std::string describe_largest_holders(std::vector<ProcessSnapshot> processes, pid_t own,
                                     const LockFile* file) {
  constexpr std::size_t kMostNamed = 3;
  std::erase_if(processes, [own](const ProcessSnapshot& process) {
    return process.memory_held == 0 || (process.foreign_namespace == 0 && process.pid == own);
  });
  std::ranges::sort(processes, std::greater(), &ProcessSnapshot::memory_held);
  processes.resize(std::min(processes.size(), kMostNamed));
  std::string text;
  for (const ProcessSnapshot& process : processes) {
    text += fmt::format("{}{:.1f} MiB by {}", text.empty() ? "" : "; ", to_mib(process.memory_held),
                        describe_holder(process, file));
  }
  return text;
}

}  // namespace gpemu::device
