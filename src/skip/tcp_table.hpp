// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <linux/inet_diag.h>
#include <map>
#include <optional>
#include <set>
#include <vector>

namespace gpemu::skip {

/// States of TCP and Unix sockets. Source: include/net/tcp_states.h of Linux.
namespace socket_state {
inline constexpr int kEstablished = 1, kSynReceived = 3, kFinWait2 = 5, kCloseWait = 8,
                     kListening = 10;
}  // namespace socket_state

/// The name by which the kernel finds a TCP socket: its addresses, its ports and a cookie.
struct TcpName {
  int family = 0;  ///< AF_INET or AF_INET6.
  inet_diag_sockid id{};
};

/// The kernel's report on a TCP socket.
struct TcpRecord {
  /// Bytes since the connection was opened.
  struct Counts {
    std::uint64_t sent = 0;  ///< without repetitions.
    std::uint64_t not_sent = 0, received = 0;
  };
  TcpName name;
  int state = 0;
  std::uint64_t inode = 0;           ///< 0: no descriptor leads to it.
  std::uint32_t unacknowledged = 0;  ///< bytes that were sent or are to be sent.
  std::optional<Counts> counts{};
};

/// The TCP sockets of the host, by the kernel's records, which are its input: it asks for nothing
/// itself. docs/design/shared-clock.md has the rules. Thread safety: none.
class TcpTable {
 public:
  struct Address {
    std::array<std::uint32_t, 4> words{};  ///< of IPv6, also for IPv4.
    std::uint16_t port = 0;
    auto operator<=>(const Address&) const = default;
  };
  struct Socket {
    TcpRecord record;  ///< the latest one.
    Address own, other;
  };

  /// Forgets all sockets: records of all follow. `opened`: how many connections the host has
  /// started to open before them; nothing if that is not known.
  void restart(std::optional<std::uint64_t> opened);

  /// Stores a record. One with an inode replaces the last one with the same inode.
  void add(const TcpRecord& record);

  /// Returns a socket, or null. It is valid until the next restart().
  [[nodiscard]] const Socket* find(std::uint64_t inode) const;

  /// Returns the other end of a connection, or null if it is not on this host or not known.
  [[nodiscard]] const Socket* peer_of(const Socket& socket) const;

  /// Returns which sockets the kernel must be asked for again, so that is_quiet() holds for
  /// `sockets` as they are now; nothing if it must list all again. `opened`: as in restart(). Until
  /// a socket is added again, its counts are not known: it may be gone.
  [[nodiscard]] std::optional<std::vector<TcpName>> ask_again(
      const std::set<std::uint64_t>& sockets, std::optional<std::uint64_t> opened);

  /// Returns whether nothing that the kernel still has to deliver can end a wait for reading at a
  /// socket: all bytes that the peer ever sent have arrived, no connection is being made.
  [[nodiscard]] bool is_quiet(std::uint64_t inode) const;

 private:
  std::map<std::uint64_t, Socket> sockets_;  ///< by inode.
  std::multimap<Address, std::uint64_t> by_own_;
  std::set<std::uint16_t> half_open_;  ///< own ports of connections that are being made.
  std::optional<std::uint64_t> opened_;
};

}  // namespace gpemu::skip
