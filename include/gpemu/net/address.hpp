// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <vector>

#include "gpemu/base/error.hpp"

namespace gpemu::net {

/// A host, which is a name or a number, and one of its ports.
struct HostPort {
  std::string host;
  std::uint16_t port = 0;

  /// Returns HOST:PORT, with brackets around numbers of IPv6.
  [[nodiscard]] std::string str() const;
};

/// Reads HOST:PORT, with or without brackets around the host. `lowest`: 0 where somebody listens,
/// who then gets any port that is free.
///
/// Errors: kInvalidArgument, saying what is wrong as in "it is not ADDRESS:PORT".
[[nodiscard]] Result<HostPort> parse_host_port(std::string_view text, std::uint16_t lowest = 1);

/// The address of a socket, of IPv4 or IPv6.
struct SocketAddress {
  std::uint16_t family = 0;
  std::uint16_t port = 0;
  std::uint32_t scope = 0;                ///< of IPv6.
  std::array<std::uint8_t, 16> number{};  ///< in network byte order.

  bool operator==(const SocketAddress&) const = default;
  /// Returns whether the family is IPv4 or IPv6, as that of another process may not be.
  [[nodiscard]] bool is_usable() const;
  /// Returns the address as text, for messages.
  [[nodiscard]] std::string to_string() const;
};

/// An address as the system's functions take it.
struct SystemAddress {
  sockaddr_storage storage{};
  socklen_t bytes = sizeof(sockaddr_storage);

  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  [[nodiscard]] sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

[[nodiscard]] SystemAddress to_system(const SocketAddress& address);
[[nodiscard]] SocketAddress from_system(const sockaddr* from);

/// Returns the addresses of a host, in the order in which to try them, at least one. Asks the
/// system for the number of a name.
///
/// Errors: kUnavailable, with the system's message.
[[nodiscard]] Result<std::vector<SocketAddress>> resolve(const HostPort& place);

/// Returns whether the host is a number, so that nothing has to be looked up.
[[nodiscard]] bool is_number(const HostPort& place);

/// Returns the address that a text names: IPV4:PORT, [IPV6]:PORT or HOST:PORT. Asks the system for
/// the address of a host.
///
/// Errors: kInvalidArgument.
[[nodiscard]] Result<SocketAddress> find_address(std::string_view text);

}  // namespace gpemu::net
