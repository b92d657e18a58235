// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "gpemu/base/file.hpp"

#include "socket_answer.hpp"

namespace gpemu::skip {

/// Asks the kernel about the host's sockets. Without an answer, there are none. Source:
/// sock_diag(7). Thread safety: none.
class SocketDiagnosis {
 public:
  SocketDiagnosis();

  /// Returns all Unix sockets, by inode.
  [[nodiscard]] std::map<std::uint64_t, UnixSocket> unix_sockets();
  /// Returns all TCP sockets.
  [[nodiscard]] std::vector<TcpRecord> tcp_sockets();
  /// Returns one TCP socket; nothing if it is gone.
  [[nodiscard]] std::optional<TcpRecord> tcp_socket(const TcpName& name);

 private:
  FileDescriptor socket_;
  std::uint32_t last_request_ = 0;  ///< the number of the last one to the kernel.
};

}  // namespace gpemu::skip
