// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "gpemu/base/error.hpp"

namespace gpemu::cuda {

/// The address of a socket; of IPv4 and IPv6.
struct SocketAddress {
  std::uint16_t family = 0;
  std::uint16_t port = 0;
  std::uint32_t scope = 0;                ///< of IPv6.
  std::array<std::uint8_t, 16> number{};  ///< in the order of the network.

  bool operator==(const SocketAddress&) const = default;
  /// Returns whether the family is one of the two. Addresses may come from other processes.
  [[nodiscard]] bool is_usable() const;
  /// Returns the address as text, for messages.
  [[nodiscard]] std::string to_string() const;
};

/// An address of a network interface.
struct InterfaceAddress {
  std::string name;
  SocketAddress address;
};

/// Returns the address on which other processes are to call this one. `named` is NCCL_SOCKET_IFNAME
/// (beginnings of names, or after = whole names, or after ^ what not to use), and `family`
/// NCCL_SOCKET_FAMILY. Without a name: InfiniBand, else anything but docker and loopback, else
/// docker, else loopback. Source: NCCL User Guide, "Environment Variables".
[[nodiscard]] std::optional<SocketAddress> choose_address(
    std::span<const InterfaceAddress> addresses, std::string_view named, std::string_view family);

/// How long a socket may take to connect, or to take or bring what is ready.
inline constexpr int kSocketSeconds = 20;

/// A socket that is closed at its end.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket();

  /// Returns the descriptor, -1 if there is none.
  [[nodiscard]] int get() const { return descriptor_; }
  [[nodiscard]] int release() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_ = -1;
};

/// A socket that others call.
struct Listener {
  Socket socket;  ///< does not block.
  SocketAddress address;
};

/// Listens on the address that NCCL_SOCKET_IFNAME and NCCL_SOCKET_FAMILY choose. `backlog`: how
/// many may call before they are accepted.
///
/// Errors: kNotFound without a network interface, kUnavailable.
[[nodiscard]] Result<Listener> listen_for_peers(int backlog);

/// Listens on a given address, also if connections of an earlier listener still end there.
///
/// Errors: kUnavailable, with the system's message.
[[nodiscard]] Result<Listener> listen_at(const SocketAddress& address, int backlog);

/// Returns the address that a text names: IPV4:PORT, [IPV6]:PORT or HOST:PORT. Asks the system for
/// the address of a host.
///
/// Errors: kInvalidArgument.
[[nodiscard]] Result<SocketAddress> parse_address(const std::string& text);

/// Calls another process. Blocks for kSocketSeconds at most; so does each later call on the socket.
///
/// Errors: kUnavailable, with the system's message.
[[nodiscard]] Result<Socket> call_peer(const SocketAddress& address);

/// Takes a call that has come. Later calls on the socket block for kSocketSeconds at most. Returns
/// none, with errno, if there is none.
[[nodiscard]] Socket accept_peer(const Listener& listener);

/// Send or receive all of some bytes. Return whether they could.
[[nodiscard]] bool send_all(int socket, const void* data, std::size_t bytes);
[[nodiscard]] bool receive_all(int socket, void* data, std::size_t bytes);

}  // namespace gpemu::cuda
