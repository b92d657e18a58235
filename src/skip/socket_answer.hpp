// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "tcp_table.hpp"

// The kernel's answers to questions about sockets. Each function takes the bytes that one recv()
// returned. `number`: of the request, unlike that of others: answers to a request that was given up
// may still come, and are left out. A message that is too short is left out too. Source:
// netlink(7), sock_diag(7).
namespace gpemu::skip {

/// The kernel's report on a Unix socket.
struct UnixSocket {
  int state = 0;           ///< one of socket_state.
  std::uint64_t peer = 0;  ///< its inode; 0: there is none.
  bool operator==(const UnixSocket&) const = default;
};

template <typename Sockets>
struct SocketAnswer {
  Sockets sockets;
  bool is_last = false;  ///< whether no further bytes answer the request.
};

/// Returns Unix sockets by inode.
[[nodiscard]] SocketAnswer<std::map<std::uint64_t, UnixSocket>> unix_sockets_in(
    std::span<const std::byte> answer, std::uint32_t number);

/// Returns TCP sockets. `family`: AF_INET or AF_INET6, as in the request.
[[nodiscard]] SocketAnswer<std::vector<TcpRecord>> tcp_sockets_in(std::span<const std::byte> answer,
                                                                  std::uint32_t number, int family);

}  // namespace gpemu::skip
