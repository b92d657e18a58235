// SPDX-License-Identifier: Apache-2.0
#include "connections.hpp"

#include <algorithm>
#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "gpemu/skip/proc_text.hpp"

namespace gpemu::skip {
namespace {

using socket_state::kCloseWait, socket_state::kListening;

/// Poll sets may contain poll sets, up to this depth.
constexpr int kDeepest = 4;

constexpr std::string_view kSocket = "socket:[", kPipe = "pipe:[";
constexpr std::string_view kEventfd = "anon_inode:[eventfd]";

}  // namespace

Connections::Connections(ProcessView& view) : view_(view) {
  const pid_t self = ::getpid();
  view_.for_each_number(fmt::format("/proc/{}/fd", self), [&](int descriptor) {
    std::string link = link_of(self, descriptor);
    if (link.starts_with(kSocket) || link.starts_with(kPipe) || link.starts_with("anon_inode:")) {
      from_outside_.insert(identity_of(self, descriptor, std::move(link)));
    }
  });
}

std::string Connections::link_of(pid_t process, int descriptor) const {
  return view_.link_text(fmt::format("/proc/{}/fd/{}", process, descriptor));
}

std::string Connections::info_of(pid_t process, int descriptor) const {
  return view_.text_of(fmt::format("/proc/{}/fdinfo/{}", process, descriptor));
}

std::string Connections::identity_of(pid_t process, int descriptor, std::string link) const {
  if (link != kEventfd) return link;
  const auto number = eventfd_id_in(info_of(process, descriptor));
  return number ? link + fmt::to_string(*number) : link;
}

std::optional<std::uint64_t> Connections::opened_connections() const {
  return opened_connections_in(view_.text_of("/proc/net/snmp"));
}

std::vector<int> Connections::rings_of(pid_t process) const {
  std::vector<int> rings;
  view_.for_each_number(fmt::format("/proc/{}/fd", process), [&](int descriptor) {
    const std::string link = link_of(process, descriptor);
    if (link == "anon_inode:[io_uring]") rings.push_back(descriptor);
  });
  return rings;
}

void Connections::set_inside(std::vector<pid_t> processes) {
  inside_ = std::move(processes);
  held_sockets_.clear();
  read_pipes_.clear();
  written_pipes_.clear();
}

void Connections::read_held() {
  held_sockets_.clear();
  read_pipes_.clear();
  written_pipes_.clear();
  for (const pid_t process : inside_) {
    view_.for_each_number(fmt::format("/proc/{}/fd", process), [&](int descriptor) {
      const std::string link = link_of(process, descriptor);
      if (link.starts_with(kSocket)) {
        if (const auto inode = inode_in(link)) held_sockets_.insert(*inode);
      } else if (link.starts_with(kPipe)) {
        const auto mode = access_mode_in(info_of(process, descriptor));
        if (!mode) return;
        if (mode != O_WRONLY) read_pipes_.insert(link);
        if (mode != O_RDONLY) written_pipes_.insert(link);
      }
    });
  }
}

bool Connections::is_held(std::uint64_t inode) {
  if (inode == 0) return false;
  if (!held_sockets_.contains(inode)) read_held();
  return held_sockets_.contains(inode);
}

bool Connections::pipe_is_inside(const std::string& link, Direction direction) {
  const bool reads = direction != Direction::kWrite, writes = direction != Direction::kRead;
  const auto known = [&] {
    return (!reads || written_pipes_.contains(link)) && (!writes || read_pipes_.contains(link));
  };
  if (known()) return true;
  read_held();
  return known();
}

void Connections::read_tcp() {
  tcp_.restart(opened_connections());
  for (const TcpRecord& record : view_.tcp_sockets()) tcp_.add(record);
}

void Connections::look_again_at_sockets(const std::set<std::uint64_t>& sockets) {
  const auto names = tcp_.ask_again(sockets, opened_connections());
  if (!names) {
    read_tcp();
    return;
  }
  for (const TcpName& name : *names) {
    if (const auto record = view_.tcp_socket(name)) tcp_.add(*record);
  }
}

void Connections::look_again(const Carriers& carriers) {
  if (!carriers.sockets.empty()) look_again_at_sockets(carriers.sockets);
  busy_rings_.clear();
  for (const pid_t process : carriers.rings) {
    if (!std::ranges::all_of(rings_of(process),
                             [&](int ring) { return ring_is_idle(info_of(process, ring)); })) {
      busy_rings_.insert(process);
    }
  }
}

bool Connections::are_quiet(const Carriers& carriers) const {
  return std::ranges::all_of(carriers.sockets,
                             [this](std::uint64_t socket) { return tcp_.is_quiet(socket); }) &&
         std::ranges::none_of(carriers.rings,
                              [this](pid_t process) { return busy_rings_.contains(process); });
}

bool Connections::socket_is_inside(std::uint64_t inode, Direction direction, Carriers& carriers) {
  const auto unix_is_inside = [&] {
    const auto found = unix_.find(inode);
    if (found == unix_.end()) return false;
    return found->second.state == kListening || is_held(found->second.peer);
  };
  if (unix_is_inside()) return true;
  const TcpTable::Socket* socket = tcp_.find(inode);
  if (socket == nullptr) {
    // It may have been connected since.
    unix_ = view_.unix_sockets();
    if (unix_.contains(inode)) return unix_is_inside();
  }
  if (socket == nullptr || (socket->record.state != kListening && !tcp_.peer_of(*socket))) {
    read_tcp();
    socket = tcp_.find(inode);
  }
  if (socket == nullptr) return false;
  if (socket->record.state == kListening || socket->record.state == kCloseWait) {
    carriers.sockets.insert(inode);
    return direction == Direction::kRead;
  }
  // Acknowledgements free space to send, and they may be in transit.
  if (direction != Direction::kRead && socket->record.unacknowledged > 0) return false;
  const TcpTable::Socket* const peer = tcp_.peer_of(*socket);
  if (peer == nullptr || !is_held(peer->record.inode)) return false;
  carriers.sockets.insert(inode);
  return true;
}

bool Connections::poll_set_is_inside(pid_t process, int descriptor, Carriers& carriers, int depth) {
  const auto targets = poll_targets_in(info_of(process, descriptor));
  return targets && std::ranges::all_of(*targets, [&](const PollTarget& target) {
           // The set may contain a file whose descriptor now belongs to another file.
           const auto inode = inode_in(link_of(process, target.descriptor));
           if (inode && inode != target.inode) return false;
           const Direction direction = direction_of((target.events & (EPOLLIN | EPOLLRDHUP)) != 0,
                                                    (target.events & EPOLLOUT) != 0);
           return is_inside(process, {target.descriptor, direction}, carriers, depth + 1);
         });
}

/// The kernel, too, may signal an eventfd: when it has done a request of the process.
bool Connections::eventfd_is_inside(pid_t process, Carriers& carriers) {
  // Source: Documentation/admin-guide/sysctl/fs.rst: the number of events that all programs of the
  // host have reserved.
  if (view_.text_of("/proc/sys/fs/aio-nr") != "0\n" &&
      view_.text_of(fmt::format("/proc/{}/maps", process)).contains("/[aio]")) {
    return false;
  }
  carriers.rings.insert(process);  // Also if it has no io_uring yet.
  return true;
}

bool Connections::is_inside(pid_t process, FileWait wait, Carriers& carriers) {
  return is_inside(process, wait, carriers, 0);
}

bool Connections::is_inside(pid_t process, FileWait wait, Carriers& carriers, int depth) {
  if (depth > kDeepest) return false;
  const auto [descriptor, direction] = wait;
  const std::string link = link_of(process, descriptor);
  if (link.starts_with("anon_inode:[eventpoll]")) {
    return poll_set_is_inside(process, descriptor, carriers, depth);
  }
  if (from_outside_.contains(identity_of(process, descriptor, link))) return false;
  if (link.starts_with(kPipe)) return pipe_is_inside(link, direction);
  if (link.starts_with(kSocket)) {
    const auto inode = inode_in(link);
    return inode && socket_is_inside(*inode, direction, carriers);
  }
  if (link == "anon_inode:[signalfd]") return true;
  if (link == kEventfd) return eventfd_is_inside(process, carriers);
  if (link == "anon_inode:[timerfd]") return timer_is_stopped(info_of(process, descriptor));
  if (link == "anon_inode:[pidfd]") {
    const auto target = process_in(info_of(process, descriptor));
    return target && std::ranges::find(inside_, *target) != inside_.end();
  }
  return false;
}

}  // namespace gpemu::skip
