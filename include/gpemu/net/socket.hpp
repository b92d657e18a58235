// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "gpemu/base/error.hpp"
#include "gpemu/base/file.hpp"
#include "gpemu/net/address.hpp"

namespace gpemu::net {

/// How long a socket of call() or accept() may take to connect, or to take or bring what is ready.
inline constexpr int kSocketSeconds = 20;

/// A socket that others call.
struct Listener {
  FileDescriptor socket;  ///< does not block.
  SocketAddress address;
};

/// Listens on an address, also if connections of an earlier listener still end there. `backlog`:
/// how many may call before they are accepted.
///
/// Errors: kUnavailable, with the system's message.
[[nodiscard]] Result<Listener> listen_at(const SocketAddress& address, int backlog);

/// Calls another process. Blocks for kSocketSeconds at most; so does each later call on the socket.
///
/// Errors: kUnavailable, with the system's message.
[[nodiscard]] Result<FileDescriptor> call_peer(const SocketAddress& address);

/// Takes a call that has come. Later calls on the socket block for kSocketSeconds at most. Returns
/// a descriptor that is not valid, with errno, if no call has come.
[[nodiscard]] FileDescriptor accept_peer(const Listener& listener);

/// Send or receive all bytes. Return whether that succeeded.
[[nodiscard]] bool send_all(int socket, const void* data, std::size_t bytes);
[[nodiscard]] bool receive_all(int socket, void* data, std::size_t bytes);

}  // namespace gpemu::net
