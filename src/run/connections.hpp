// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

#include "gpemu/base/file.hpp"

namespace gpemu::run {

/// What a thread waits for at a file descriptor.
enum class Direction { kRead, kWrite, kBoth };

/// Finds out whether processes that wait at file descriptors wait only for each other:
/// docs/design/shared-clock.md has the rules. Thread safety: none.
class Connections {
 public:
  /// Notes which files this process has open: files that a program inherits lead to the outside.
  Connections();

  /// From now on, `processes` count as inside.
  void set_inside(std::vector<pid_t> processes);

  /// TCP sockets at which threads wait, by inode.
  using Sockets = std::set<std::uint64_t>;

  /// Returns whether only a process inside can end a wait at a descriptor. Adds the TCP sockets of
  /// the wait to `sockets`: for these, is_quiet() must hold as well.
  [[nodiscard]] bool is_inside(pid_t process, int descriptor, Direction direction,
                               Sockets& sockets);

  /// Reads again the state of some TCP sockets and of their peers.
  void look_again(const Sockets& sockets);

  /// Returns whether, at the last look_again() for a socket, everything ever sent to it had
  /// arrived.
  [[nodiscard]] bool is_quiet(std::uint64_t socket) const;

 private:
  struct TcpSocket {
    inet_diag_req_v2 request{};  ///< the request for this socket's state.
    std::string own, other;      ///< addresses with ports.
    int state = 0;
    std::uint64_t inode = 0;
    std::uint32_t unacknowledged = 0;
    bool counted = false;  ///< whether the numbers below are known.
    std::uint64_t sent = 0, not_sent = 0, received = 0;
  };
  struct UnixSocket {
    int state = 0;
    std::uint64_t peer = 0;
  };

  [[nodiscard]] bool is_inside(pid_t process, int descriptor, Direction direction, Sockets& sockets,
                               int depth);
  [[nodiscard]] bool pipe_is_inside(const std::string& link, Direction direction);
  [[nodiscard]] bool socket_is_inside(std::uint64_t inode, Direction direction, Sockets& sockets);
  [[nodiscard]] bool poll_set_is_inside(pid_t process, int descriptor, Sockets& sockets, int depth);
  /// Returns whether a process may read files in a way whose end the kernel signals by an eventfd.
  [[nodiscard]] static bool disk_may_signal(pid_t process);
  /// Reads the descriptors of all processes inside.
  void read_held();
  [[nodiscard]] bool is_held(std::uint64_t inode);
  void read_unix();
  void read_tcp();
  /// Stores the kernel's answer about a TCP socket.
  void take(int family, nlmsghdr& answer);
  void look_again(const inet_diag_req_v2& request);
  [[nodiscard]] const TcpSocket* peer_of(const TcpSocket& socket) const;

  std::set<std::string, std::less<>> from_outside_;
  std::vector<pid_t> inside_;
  std::set<std::uint64_t> held_sockets_;
  std::set<std::string, std::less<>> read_pipes_, written_pipes_;
  std::map<std::uint64_t, UnixSocket> unix_;
  std::map<std::uint64_t, TcpSocket> tcp_;  ///< by inode.
  std::multimap<std::string, std::uint64_t> tcp_by_own_;
  std::set<std::string> half_open_;  ///< own ports of connections that are being opened.
  std::string opened_;               ///< how many connections had been opened when that was read.
  FileDescriptor diagnosis_;
};

}  // namespace gpemu::run
