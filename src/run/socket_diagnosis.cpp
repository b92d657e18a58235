// SPDX-License-Identifier: Apache-2.0
#include "socket_diagnosis.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <linux/unix_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace gpemu::run {
namespace {

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

inet_diag_req_v2 tcp_request(int family) {
  inet_diag_req_v2 request{};
  request.sdiag_family = static_cast<std::uint8_t>(family);
  request.sdiag_protocol = IPPROTO_TCP;
  request.idiag_ext = 1U << (INET_DIAG_INFO - 1);
  return request;
}

TcpRecord tcp_record(int family, nlmsghdr& answer) {
  const auto& fixed = *static_cast<const inet_diag_msg*>(NLMSG_DATA(&answer));
  TcpRecord record{.name = {.family = family, .id = fixed.id},
                   .state = fixed.idiag_state,
                   .inode = fixed.idiag_inode,
                   .unacknowledged = fixed.idiag_wqueue};
  for_each_attribute<inet_diag_msg>(answer, [&](int type, const void* data, std::size_t size) {
    tcp_info info{};
    if (type != INET_DIAG_INFO || size < offsetof(tcp_info, tcpi_bytes_retrans) + 8) return;
    std::memcpy(&info, data, std::min(size, sizeof info));
    record.counts = {.sent = info.tcpi_bytes_sent - info.tcpi_bytes_retrans,
                     .not_sent = info.tcpi_notsent_bytes,
                     .received = info.tcpi_bytes_received};
  });
  return record;
}

}  // namespace

SocketDiagnosis::SocketDiagnosis()
    : socket_(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG)) {}

std::map<std::uint64_t, UnixSocket> SocketDiagnosis::unix_sockets() {
  std::map<std::uint64_t, UnixSocket> sockets;
  unix_diag_req request{};
  request.sdiag_family = AF_UNIX;
  request.udiag_states = ~0U;
  request.udiag_show = UDIAG_SHOW_PEER;
  ask_sockets(socket_, ++last_request_, NLM_F_DUMP, request, [&sockets](nlmsghdr& answer) {
    const auto& fixed = *static_cast<const unix_diag_msg*>(NLMSG_DATA(&answer));
    UnixSocket& socket = sockets[fixed.udiag_ino];
    socket.state = fixed.udiag_state;
    for_each_attribute<unix_diag_msg>(answer, [&socket](int type, const void* data, std::size_t) {
      if (type != UNIX_DIAG_PEER) return;
      std::uint32_t peer = 0;
      std::memcpy(&peer, data, sizeof peer);
      socket.peer = peer;
    });
  });
  return sockets;
}

std::vector<TcpRecord> SocketDiagnosis::tcp_sockets() {
  std::vector<TcpRecord> records;
  for (const int family : {AF_INET, AF_INET6}) {
    inet_diag_req_v2 request = tcp_request(family);
    request.idiag_states = ~0U;
    ask_sockets(socket_, ++last_request_, NLM_F_DUMP, request,
                [&](nlmsghdr& answer) { records.push_back(tcp_record(family, answer)); });
  }
  return records;
}

std::optional<TcpRecord> SocketDiagnosis::tcp_socket(const TcpName& name) {
  std::optional<TcpRecord> record;
  inet_diag_req_v2 request = tcp_request(name.family);
  request.id = name.id;
  ask_sockets(socket_, ++last_request_, 0, request,
              [&](nlmsghdr& answer) { record = tcp_record(name.family, answer); });
  return record;
}

}  // namespace gpemu::run
