// SPDX-License-Identifier: Apache-2.0
#include "process_id.hpp"

#include <array>
#include <charconv>
#include <fcntl.h>
#include <string_view>
#include <sys/prctl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "gpemu/base/file.hpp"

namespace gpemu::device {

std::uint64_t process_start_time(pid_t pid) {
  const FileDescriptor file(
      ::open(fmt::format("/proc/{}/stat", pid).c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return 0;
  std::array<char, 1024> buffer{};
  const ssize_t count = ::read(file.get(), buffer.data(), buffer.size());
  if (count <= 0) return 0;
  // The second field is a name in parentheses that may itself hold spaces and parentheses.
  std::string_view rest(buffer.data(), static_cast<std::size_t>(count));
  const std::size_t name_end = rest.rfind(')');
  if (name_end == std::string_view::npos || name_end + 2 >= rest.size()) return 0;
  rest.remove_prefix(name_end + 2);
  const char state = rest.front();
  if (state == 'Z' || state == 'X') return 0;
  constexpr int kFieldsFromStateToStartTime = 22 - 3;
  for (int i = 0; i < kFieldsFromStateToStartTime; ++i) {
    const std::size_t space = rest.find(' ');
    if (space == std::string_view::npos) return 0;
    rest.remove_prefix(space + 1);
  }
  std::uint64_t start_time = 0;
  std::from_chars(rest.data(), rest.data() + rest.size(), start_time);
  return start_time;
}

std::string own_process_name() {
  std::array<char, 16> name{};
  ::prctl(PR_GET_NAME, name.data());
  return name.data();
}

}  // namespace gpemu::device
