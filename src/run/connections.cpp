// SPDX-License-Identifier: Apache-2.0
#include "connections.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <dirent.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <linux/unix_diag.h>
#include <memory>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "gpemu/base/file.hpp"

#include "proc_file.hpp"

namespace gpemu::run {
namespace {

/// States of sockets. Source: include/net/tcp_states.h of Linux.
constexpr int kEstablished = 1, kSynReceived = 3, kFinWait2 = 5, kCloseWait = 8, kListening = 10;

/// Poll sets may contain poll sets, up to this depth.
constexpr int kDeepest = 4;

constexpr std::string_view kSocket = "socket:[", kPipe = "pipe:[";
constexpr std::string_view kEventfd = "anon_inode:[eventfd]";

FileDescriptor open_diagnosis() {
  return FileDescriptor(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
}

/// Asks the kernel for sockets and calls `look` with each answer. `number`: of the request, unlike
/// that of others: answers to a request that was given up may still come. Source: netlink(7).
template <typename Request, typename Look>
void ask_sockets(const FileDescriptor& socket, std::uint32_t number, std::uint16_t flags,
                 const Request& request, Look look) {
  struct {
    nlmsghdr header;
    Request request;
  } message{};
  message.header.nlmsg_len = sizeof message;
  message.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  message.header.nlmsg_flags = NLM_F_REQUEST | flags;
  message.header.nlmsg_seq = number;
  message.request = request;
  if (::send(socket.get(), &message, sizeof message, 0) != sizeof message) return;
  alignas(nlmsghdr) static thread_local std::array<char, 65536> buffer;
  while (true) {
    const ssize_t count = ::recv(socket.get(), buffer.data(), buffer.size(), 0);
    if (count <= 0) return;
    auto left = static_cast<unsigned>(count);
    for (auto* answer = reinterpret_cast<nlmsghdr*>(buffer.data()); NLMSG_OK(answer, left);
         answer = NLMSG_NEXT(answer, left)) {
      if (answer->nlmsg_seq != number) continue;
      if (answer->nlmsg_type == NLMSG_DONE || answer->nlmsg_type == NLMSG_ERROR) return;
      look(*answer);
      if (flags == 0) return;  // There is one answer.
    }
  }
}

std::string info_of(pid_t process, int descriptor) {
  return text_of(fmt::format("/proc/{}/fdinfo/{}", process, descriptor));
}

/// Returns what names the file of a descriptor: all eventfds have the same link.
std::string identity_of(const std::string& process, int descriptor, std::string link) {
  if (link != kEventfd) return link;
  const auto number =
      eventfd_id_in(text_of(fmt::format("/proc/{}/fdinfo/{}", process, descriptor)));
  return number ? link + fmt::to_string(*number) : link;
}

/// Calls `look` with each attribute after the fixed part of an answer.
template <typename Fixed, typename Look>
void for_each_attribute(nlmsghdr& answer, Look look) {
  auto* attribute = reinterpret_cast<rtattr*>(static_cast<char*>(NLMSG_DATA(&answer)) +
                                              NLMSG_ALIGN(sizeof(Fixed)));
  auto left = static_cast<unsigned>(answer.nlmsg_len - NLMSG_LENGTH(sizeof(Fixed)));
  for (; RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left)) {
    look(attribute->rta_type, RTA_DATA(attribute), RTA_PAYLOAD(attribute));
  }
}

/// Returns the descriptors of a process's io_urings.
std::vector<int> rings_of(pid_t process) {
  std::vector<int> rings;
  for_each_number(fmt::format("/proc/{}/fd", process), [&](int descriptor) {
    const std::string link = link_text(fmt::format("/proc/{}/fd/{}", process, descriptor));
    if (link == "anon_inode:[io_uring]") rings.push_back(descriptor);
  });
  return rings;
}

/// Returns address and port in one form for both families.
std::string address_text(int family, const __be32* address, __be16 port) {
  std::array<std::uint32_t, 4> words{};
  if (family == AF_INET) {
    words = {0, 0, htonl(0xffff), address[0]};
  } else {
    std::memcpy(words.data(), address, sizeof words);
  }
  return fmt::format("{:x}.{:x}.{:x}.{:x}:{}", words[0], words[1], words[2], words[3], port);
}

}  // namespace

Connections::Connections() : diagnosis_(open_diagnosis()) {
  for_each_number("/proc/self/fd", [this](int descriptor) {
    std::string link = link_text(fmt::format("/proc/self/fd/{}", descriptor));
    if (link.starts_with(kSocket) || link.starts_with(kPipe) || link.starts_with("anon_inode:")) {
      from_outside_.insert(identity_of("self", descriptor, std::move(link)));
    }
  });
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
    for_each_number(fmt::format("/proc/{}/fd", process), [&](int descriptor) {
      const std::string link = link_text(fmt::format("/proc/{}/fd/{}", process, descriptor));
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

void Connections::read_unix() {
  unix_.clear();
  unix_diag_req request{};
  request.sdiag_family = AF_UNIX;
  request.udiag_states = ~0U;
  request.udiag_show = UDIAG_SHOW_PEER;
  ask_sockets(diagnosis_, ++last_request_, NLM_F_DUMP, request, [this](nlmsghdr& answer) {
    const auto& fixed = *static_cast<const unix_diag_msg*>(NLMSG_DATA(&answer));
    UnixSocket& socket = unix_[fixed.udiag_ino];
    socket.state = fixed.udiag_state;
    for_each_attribute<unix_diag_msg>(answer, [&socket](int type, const void* data, std::size_t) {
      if (type != UNIX_DIAG_PEER) return;
      std::uint32_t peer = 0;
      std::memcpy(&peer, data, sizeof peer);
      socket.peer = peer;
    });
  });
}

void Connections::take(int family, nlmsghdr& answer) {
  const auto& fixed = *static_cast<const inet_diag_msg*>(NLMSG_DATA(&answer));
  if (fixed.idiag_state == kSynReceived) {
    half_open_.insert(fmt::to_string(fixed.id.idiag_sport));
    return;
  }
  if (fixed.idiag_inode == 0) return;
  TcpSocket& socket = tcp_[fixed.idiag_inode];
  if (socket.inode == 0) {
    socket.inode = fixed.idiag_inode;
    socket.request.sdiag_family = static_cast<std::uint8_t>(family);
    socket.request.sdiag_protocol = IPPROTO_TCP;
    socket.request.idiag_ext = 1U << (INET_DIAG_INFO - 1);
    socket.request.id = fixed.id;
    socket.own = address_text(family, fixed.id.idiag_src, fixed.id.idiag_sport);
    socket.other = address_text(family, fixed.id.idiag_dst, fixed.id.idiag_dport);
    tcp_by_own_.emplace(socket.own, socket.inode);
  }
  socket.state = fixed.idiag_state;
  socket.unacknowledged = fixed.idiag_wqueue;
  socket.counted = false;
  for_each_attribute<inet_diag_msg>(answer, [&](int type, const void* data, std::size_t size) {
    tcp_info info{};
    if (type != INET_DIAG_INFO || size < offsetof(tcp_info, tcpi_bytes_retrans) + 8) return;
    std::memcpy(&info, data, std::min(size, sizeof info));
    socket.counted = true;
    socket.sent = info.tcpi_bytes_sent - info.tcpi_bytes_retrans;
    socket.not_sent = info.tcpi_notsent_bytes;
    socket.received = info.tcpi_bytes_received;
  });
}

void Connections::read_tcp() {
  tcp_.clear();
  tcp_by_own_.clear();
  half_open_.clear();
  opened_ = opened_connections_in(text_of("/proc/net/snmp"));
  for (const int family : {AF_INET, AF_INET6}) {
    inet_diag_req_v2 request{};
    request.sdiag_family = static_cast<std::uint8_t>(family);
    request.sdiag_protocol = IPPROTO_TCP;
    request.idiag_states = ~0U;
    request.idiag_ext = 1U << (INET_DIAG_INFO - 1);
    ask_sockets(diagnosis_, ++last_request_, NLM_F_DUMP, request,
                [&](nlmsghdr& answer) { take(family, answer); });
  }
}

void Connections::look_again(const inet_diag_req_v2& request) {
  ask_sockets(diagnosis_, ++last_request_, 0, request,
              [&](nlmsghdr& answer) { take(request.sdiag_family, answer); });
}

void Connections::look_again_at_sockets(const std::set<std::uint64_t>& sockets) {
  // The kernel takes a millisecond to list all sockets. If two lists show no connection that is
  // being opened, there was none in between unless a process started to open one.
  const bool known = std::ranges::all_of(sockets, [this](std::uint64_t inode) {
    const auto found = tcp_.find(inode);
    return found != tcp_.end() && (found->second.state != kListening || half_open_.empty());
  });
  if (!known || !opened_ || opened_ != opened_connections_in(text_of("/proc/net/snmp"))) {
    read_tcp();
    return;
  }
  std::set<std::uint64_t> asked;
  for (const std::uint64_t inode : sockets) {
    TcpSocket& socket = tcp_.at(inode);
    if (socket.state == kListening) continue;
    const TcpSocket* const peer = peer_of(socket);
    const std::uint64_t other = peer == nullptr ? 0 : peer->inode;
    for (const std::uint64_t one : {inode, other}) {
      if (one == 0 || !asked.insert(one).second) continue;
      tcp_.at(one).counted = false;  // It may be gone.
      look_again(tcp_.at(one).request);
    }
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
  return std::ranges::all_of(carriers.sockets, [this](auto socket) { return is_quiet(socket); }) &&
         std::ranges::none_of(carriers.rings,
                              [this](pid_t process) { return busy_rings_.contains(process); });
}

const Connections::TcpSocket* Connections::peer_of(const TcpSocket& socket) const {
  const auto [begin, end] = tcp_by_own_.equal_range(socket.other);
  for (auto found = begin; found != end; ++found) {
    const TcpSocket& other = tcp_.at(found->second);
    if (other.other == socket.own) return &other;
  }
  return nullptr;
}

bool Connections::is_quiet(std::uint64_t inode) const {
  const auto found = tcp_.find(inode);
  if (found == tcp_.end()) return false;
  const TcpSocket& socket = found->second;
  if (socket.state == kListening) {
    return !half_open_.contains(socket.own.substr(socket.own.rfind(':') + 1));
  }
  if (socket.state == kCloseWait) return true;
  const TcpSocket* const peer = peer_of(socket);
  if (peer == nullptr || !peer->counted || !socket.counted) return false;
  const bool states = (socket.state == kEstablished && peer->state == kEstablished) ||
                      (socket.state == kFinWait2 && peer->state == kCloseWait);
  return states && peer->not_sent == 0 && peer->sent == socket.received;
}

bool Connections::socket_is_inside(std::uint64_t inode, Direction direction, Carriers& carriers) {
  const auto unix_is_inside = [&] {
    const auto found = unix_.find(inode);
    if (found == unix_.end()) return false;
    return found->second.state == kListening || is_held(found->second.peer);
  };
  if (unix_is_inside()) return true;
  if (!tcp_.contains(inode)) {
    // It may have been connected since.
    read_unix();
    if (unix_.contains(inode)) return unix_is_inside();
  }
  if (const auto known = tcp_.find(inode);
      known == tcp_.end() || (known->second.state != kListening && !peer_of(known->second))) {
    read_tcp();
  }
  const auto found = tcp_.find(inode);
  if (found == tcp_.end()) return false;
  const TcpSocket& socket = found->second;
  if (socket.state == kListening || socket.state == kCloseWait) {
    carriers.sockets.insert(inode);
    return direction == Direction::kRead;
  }
  // Acknowledgements free space to send, and they may be in transit.
  if (direction != Direction::kRead && socket.unacknowledged > 0) return false;
  const TcpSocket* const peer = peer_of(socket);
  if (peer == nullptr || !is_held(peer->inode)) return false;
  carriers.sockets.insert(inode);
  return true;
}

bool Connections::poll_set_is_inside(pid_t process, int descriptor, Carriers& carriers, int depth) {
  const auto targets = poll_targets_in(info_of(process, descriptor));
  return targets && std::ranges::all_of(*targets, [&](const PollTarget& target) {
           // The set may contain a file whose descriptor now belongs to another file.
           const auto inode =
               inode_in(link_text(fmt::format("/proc/{}/fd/{}", process, target.descriptor)));
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
  if (text_of("/proc/sys/fs/aio-nr") != "0\n" &&
      text_of(fmt::format("/proc/{}/maps", process)).contains("/[aio]")) {
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
  const std::string link = link_text(fmt::format("/proc/{}/fd/{}", process, descriptor));
  if (link.starts_with("anon_inode:[eventpoll]")) {
    return poll_set_is_inside(process, descriptor, carriers, depth);
  }
  if (from_outside_.contains(identity_of(fmt::to_string(process), descriptor, link))) return false;
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

}  // namespace gpemu::run
