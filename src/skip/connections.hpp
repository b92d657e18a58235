// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <sys/types.h>
#include <vector>

#include "direction.hpp"
#include "process_view.hpp"
#include "tcp_table.hpp"

namespace gpemu::skip {

/// Finds out whether processes that wait on file descriptors wait only for each other:
/// docs/design/shared-clock.md has the rules. Thread safety: none.
class Connections {
 public:
  /// Notes which files this process has open: files that a program inherits lead to the outside.
  /// The view outlives the object.
  explicit Connections(ProcessView& view);

  /// From now on, `processes` count as inside.
  void set_inside(std::vector<pid_t> processes);

  /// Sources that may deliver something while all threads sleep.
  struct Carriers {
    std::set<std::uint64_t> sockets;  ///< TCP sockets on which threads wait, by inode.
    std::set<pid_t> rings;  ///< processes that wait at an eventfd: their io_urings may signal it.

    void add(const Carriers& other) {
      sockets.insert(other.sockets.begin(), other.sockets.end());
      rings.insert(other.rings.begin(), other.rings.end());
    }
    void clear() { *this = {}; }
  };

  /// Returns whether a wait on a descriptor can be ended only by a process inside, or by carriers,
  /// which it adds to `carriers`: for these, are_quiet() must hold as well.
  [[nodiscard]] bool is_inside(pid_t process, FileWait wait, Carriers& carriers);

  /// Reads the state of carriers again.
  void look_again(const Carriers& carriers);

  /// Returns whether nothing was under way at the last look_again() for these carriers: everything
  /// ever sent to the sockets had arrived, and all requests to the rings were done.
  [[nodiscard]] bool are_quiet(const Carriers& carriers) const;

 private:
  [[nodiscard]] bool is_inside(pid_t process, FileWait wait, Carriers& carriers, int depth);
  [[nodiscard]] bool pipe_is_inside(const std::string& link, Direction direction);
  [[nodiscard]] bool socket_is_inside(std::uint64_t inode, Direction direction, Carriers& carriers);
  [[nodiscard]] bool poll_set_is_inside(pid_t process, int descriptor, Carriers& carriers,
                                        int depth);
  [[nodiscard]] bool eventfd_is_inside(pid_t process, Carriers& carriers);
  [[nodiscard]] std::string link_of(pid_t process, int descriptor) const;
  [[nodiscard]] std::string info_of(pid_t process, int descriptor) const;
  /// Returns what names the file of a descriptor: all eventfds have the same link.
  [[nodiscard]] std::string identity_of(pid_t process, int descriptor, std::string link) const;
  [[nodiscard]] std::optional<std::uint64_t> opened_connections() const;
  /// Returns the descriptors of a process's io_urings.
  [[nodiscard]] std::vector<int> rings_of(pid_t process) const;
  void look_again_at_sockets(const std::set<std::uint64_t>& sockets);
  /// Reads the descriptors of all processes inside.
  void read_held();
  [[nodiscard]] bool is_held(std::uint64_t inode);
  void read_tcp();

  ProcessView& view_;
  std::set<std::string, std::less<>> from_outside_;
  std::set<pid_t> busy_rings_;
  std::vector<pid_t> inside_;
  std::set<std::uint64_t> held_sockets_;
  std::set<std::string, std::less<>> read_pipes_, written_pipes_;
  std::map<std::uint64_t, UnixSocket> unix_;  ///< by inode.
  TcpTable tcp_;
};

}  // namespace gpemu::skip
