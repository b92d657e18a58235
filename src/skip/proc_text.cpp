// SPDX-License-Identifier: Apache-2.0
#include "gpemu/skip/proc_text.hpp"

#include <algorithm>
#include <fcntl.h>

namespace gpemu::skip {
namespace {

constexpr std::string_view kBlanks = " \t\n";

/// Removes the next word from a text and returns it; "" at the end.
std::string_view take_word(std::string_view& text) {
  text.remove_prefix(std::min(text.size(), text.find_first_not_of(kBlanks)));
  const std::string_view word = text.substr(0, text.find_first_of(kBlanks));
  text.remove_prefix(word.size());
  return word;
}

/// Removes the next line from a text and returns it.
std::string_view take_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(text.size(), line.size() + 1));
  return line;
}

/// Returns the number after the first occurrence of a key.
template <typename Number>
std::optional<Number> number_after(std::string_view text, std::string_view key, int base = 10) {
  const std::size_t at = text.find(key);
  if (at == std::string_view::npos) return std::nullopt;
  return leading_number<Number>(text.substr(at + key.size()), base);
}

/// Returns what follows the name in a thread's stat, from the state on. The name, in parentheses,
/// may contain anything.
std::string_view after_name(std::string_view stat) {
  const std::size_t name_end = stat.rfind(')');
  return name_end == std::string_view::npos || name_end + 2 >= stat.size()
             ? std::string_view()
             : stat.substr(name_end + 2);
}

}  // namespace

char state_in(std::string_view stat) {
  const std::string_view fields = after_name(stat);
  return fields.empty() ? '?' : fields.front();
}

std::optional<pid_t> parent_in(std::string_view stat) {
  std::string_view fields = after_name(stat);
  take_word(fields);  // The state.
  const std::string_view parent = take_word(fields);
  if (fields.empty()) return std::nullopt;  // The number may be cut off.
  return leading_number<pid_t>(parent);
}

std::optional<std::uint64_t> run_count_in(std::string_view schedstat) {
  if (!schedstat.ends_with('\n')) return std::nullopt;
  const std::size_t space = schedstat.rfind(' ');
  if (space == std::string_view::npos) return std::nullopt;
  const auto count = leading_number<std::uint64_t>(schedstat.substr(space + 1));
  return count == 0 ? std::nullopt : count;
}

std::optional<SystemCall> system_call_in(std::string_view syscall) {
  const auto number = leading_number<long>(take_word(syscall));
  if (!number || *number < 0) return std::nullopt;
  SystemCall call{.number = *number};
  for (std::uint64_t& argument : call.arguments) {
    const auto value = leading_number<std::uint64_t>(take_word(syscall), 16);
    if (!value) return std::nullopt;
    argument = *value;
  }
  // The stack of a 32-bit program lies below 4 GiB.
  const auto stack = leading_number<std::uint64_t>(take_word(syscall), 16);
  if (stack.value_or(0) >> 32 == 0) return std::nullopt;
  return call;
}

std::vector<pid_t> children_in(std::string_view children) {
  std::vector<pid_t> found;
  while (const auto child = leading_number<pid_t>(take_word(children))) found.push_back(*child);
  return found;
}

std::optional<pid_t> last_pid_in(std::string_view loadavg) {
  const std::size_t space = loadavg.rfind(' ');
  if (space == std::string_view::npos) return std::nullopt;
  return leading_number<pid_t>(loadavg.substr(space + 1));
}

bool is_own_memory(std::string_view maps, std::uint64_t address, std::string_view shared_file,
                   const std::function<bool(std::string_view path)>& is_there) {
  // 7f0e0c0-7f0e0d0 rw-s 00000000 00:1a 1066    /dev/shm/sem.x (deleted)
  while (!maps.empty()) {
    std::string_view line = take_line(maps);
    const auto from = leading_number<std::uint64_t>(line, 16);
    const auto to = number_after<std::uint64_t>(line, "-", 16);
    if (!from || !to || address < *from || address >= *to) continue;
    take_word(line);
    const std::string_view flags = take_word(line);
    if (flags.size() == 4 && flags[3] == 'p') return true;
    for (int i = 0; i < 3; ++i) take_word(line);  // Offset, device and inode.
    line.remove_prefix(std::min(line.size(), line.find_first_not_of(kBlanks)));
    const std::string_view path = line;
    if (!shared_file.empty() && path == shared_file) return true;
    // Other processes find a segment of System V by its key, unless that is 0.
    if (path.starts_with("/SYSV") && !path.starts_with("/SYSV00000000")) return false;
    // Memory of a file without a name was inherited or passed on, not found by its name. A file
    // that has a name may be called so, too.
    return path.ends_with(" (deleted)") && !is_there(path);
  }
  return false;
}

std::optional<std::uint64_t> inode_in(std::string_view link) {
  if (link.starts_with('/') || link.starts_with("anon_inode:")) return std::nullopt;
  return number_after<std::uint64_t>(link, ":[");
}

std::optional<int> access_mode_in(std::string_view fdinfo) {
  const auto flags = number_after<int>(fdinfo, "flags:", 8);
  return flags ? std::optional(*flags & O_ACCMODE) : std::nullopt;
}

std::optional<std::vector<PollTarget>> poll_targets_in(std::string_view fdinfo) {
  if (!fdinfo.starts_with("pos:")) return std::nullopt;
  std::vector<PollTarget> targets;
  while (!fdinfo.empty()) {
    // tfd:       12 events:       19 data: 7f06e8000b70  pos:0 ino:1f9e sdev:8
    const std::string_view line = take_line(fdinfo);
    if (!line.contains("tfd:")) continue;
    const auto descriptor = number_after<int>(line, "tfd:");
    const auto events = number_after<std::uint32_t>(line, "events:", 16);
    const auto inode = number_after<std::uint64_t>(line, "ino:", 16);
    if (!descriptor || !events || !inode) return std::nullopt;
    targets.push_back({*descriptor, *events, *inode});
  }
  return targets;
}

bool timer_is_stopped(std::string_view fdinfo) {
  return fdinfo.contains("it_value: (0, 0)");
}

std::optional<pid_t> process_in(std::string_view fdinfo) {
  return number_after<pid_t>(fdinfo, "\nPid:");
}

std::optional<std::int64_t> eventfd_id_in(std::string_view fdinfo) {
  return number_after<std::int64_t>(fdinfo, "eventfd-id:");
}

bool ring_is_idle(std::string_view fdinfo) {
  const auto taken = number_after<std::int64_t>(fdinfo, "\nCachedSqHead:");
  return taken && taken == number_after<std::int64_t>(fdinfo, "\nSqTail:") &&
         taken == number_after<std::int64_t>(fdinfo, "\nCachedCqTail:") &&
         number_after<std::int64_t>(fdinfo, "\nSqThread:") == -1 &&
         fdinfo.contains("\nPollList:\nCqOverflowList:");
}

std::optional<std::uint64_t> opened_connections_in(std::string_view snmp) {
  // Tcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens ..., and a line with the values.
  const std::size_t at = snmp.rfind("\nTcp: ");
  if (at == std::string_view::npos) return std::nullopt;
  snmp.remove_prefix(at + 1);
  std::string_view values = take_line(snmp);
  for (int word = 0; word < 5; ++word) take_word(values);
  return leading_number<std::uint64_t>(values);
}

}  // namespace gpemu::skip
