// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

#include "gpemu/base/file.hpp"

#include "socket_answer.hpp"
#include "tcp_table.hpp"

namespace gpemu::skip {

/// What the kernel shows of the host's processes and sockets. The skipping clock sees nothing else
/// of them, so a test can decide what it sees, and when. Paths are those of /proc. A file or a link
/// that cannot be read is "", and without an answer, there are no sockets. Thread safety: none.
class ProcessView {
 public:
  ProcessView() = default;
  ProcessView(const ProcessView&) = delete;
  ProcessView& operator=(const ProcessView&) = delete;
  virtual ~ProcessView() = default;

  /// Opens a file that will be read often.
  [[nodiscard]] virtual FileDescriptor open(const std::string& path) = 0;
  /// Copies what an open file says now into `buffer`, as far as there is room, and returns it.
  [[nodiscard]] virtual std::string_view read(const FileDescriptor& file,
                                              std::span<char> buffer) = 0;
  /// Returns the whole text of a file.
  [[nodiscard]] virtual std::string text_of(const std::string& path) = 0;
  /// Returns the target of a symbolic link.
  [[nodiscard]] virtual std::string link_text(const std::string& path) = 0;
  [[nodiscard]] virtual bool is_there(const std::string& path) = 0;

  /// Calls `look` with each entry of a folder that is a number. Returns whether the folder exists.
  template <typename Look>
  bool for_each_number(const std::string& folder, Look look) {
    return visit_numbers(folder, std::ref(look));  // A copy might not fit without an allocation.
  }

  /// Copies memory of a process; returns whether it could.
  [[nodiscard]] virtual bool read_memory(pid_t process, std::uint64_t address,
                                         std::span<std::byte> to) = 0;

  /// Returns all Unix sockets of the host, by inode.
  [[nodiscard]] virtual std::map<std::uint64_t, UnixSocket> unix_sockets() = 0;
  /// Returns all TCP sockets of the host.
  [[nodiscard]] virtual std::vector<TcpRecord> tcp_sockets() = 0;
  /// Returns one TCP socket; nothing if it is gone.
  [[nodiscard]] virtual std::optional<TcpRecord> tcp_socket(const TcpName& name) = 0;

 private:
  virtual bool visit_numbers(const std::string& folder, const std::function<void(int)>& look) = 0;
};

}  // namespace gpemu::skip
