// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "gpemu/base/error.hpp"
#include "gpemu/net/socket.hpp"

namespace gpemu::ranks {

/// An address of a network interface.
struct InterfaceAddress {
  std::string name;
  net::SocketAddress address;
};

/// Returns the address on which other processes are to call this one. `named` is NCCL_SOCKET_IFNAME
/// (beginnings of names, or after = whole names, or after ^ what not to use), and `family`
/// NCCL_SOCKET_FAMILY. Without a name: InfiniBand, else anything but docker and loopback, else
/// docker, else loopback. Source: NCCL User Guide, "Environment Variables".
[[nodiscard]] std::optional<net::SocketAddress> choose_address(
    std::span<const InterfaceAddress> addresses, std::string_view named, std::string_view family);

/// Listens on the address that NCCL_SOCKET_IFNAME and NCCL_SOCKET_FAMILY choose. `backlog`: how
/// many may call before they are accepted.
///
/// Errors: kNotFound without a network interface, kUnavailable.
[[nodiscard]] Result<net::Listener> listen_for_peers(int backlog);

}  // namespace gpemu::ranks
