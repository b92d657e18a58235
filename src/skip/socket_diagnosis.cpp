// SPDX-License-Identifier: Apache-2.0
#include "socket_diagnosis.hpp"

#include <cstddef>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <memory>
#include <netinet/in.h>
#include <span>
#include <sys/socket.h>

namespace gpemu::skip {
namespace {

/// Asks the kernel for sockets and calls `decode` with the bytes of its answers, until that returns
/// true. `number`: of the request, unlike that of others.
template <typename Request, typename Decode>
void ask_sockets(const FileDescriptor& socket, std::uint32_t number, std::uint16_t flags,
                 const Request& request, Decode decode) {
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
  // Not itself of each thread: threads with small stacks have no room for it beside them.
  constexpr std::size_t kBytes = 65536;
  static thread_local const auto buffer = std::make_unique<std::byte[]>(kBytes);
  while (true) {
    const ssize_t count = ::recv(socket.get(), buffer.get(), kBytes, 0);
    if (count <= 0 || decode(std::span(buffer.get(), static_cast<std::size_t>(count)))) return;
  }
}

inet_diag_req_v2 tcp_request(int family) {
  inet_diag_req_v2 request{};
  request.sdiag_family = static_cast<std::uint8_t>(family);
  request.sdiag_protocol = IPPROTO_TCP;
  request.idiag_ext = 1U << (INET_DIAG_INFO - 1);
  return request;
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
  const std::uint32_t number = ++last_request_;
  ask_sockets(socket_, number, NLM_F_DUMP, request, [&](std::span<const std::byte> bytes) {
    auto answer = unix_sockets_in(bytes, number);
    sockets.merge(answer.sockets);
    return answer.is_last;
  });
  return sockets;
}

std::vector<TcpRecord> SocketDiagnosis::tcp_sockets() {
  std::vector<TcpRecord> records;
  for (const int family : {AF_INET, AF_INET6}) {
    inet_diag_req_v2 request = tcp_request(family);
    request.idiag_states = ~0U;
    const std::uint32_t number = ++last_request_;
    ask_sockets(socket_, number, NLM_F_DUMP, request, [&](std::span<const std::byte> bytes) {
      const auto answer = tcp_sockets_in(bytes, number, family);
      records.insert(records.end(), answer.sockets.begin(), answer.sockets.end());
      return answer.is_last;
    });
  }
  return records;
}

std::optional<TcpRecord> SocketDiagnosis::tcp_socket(const TcpName& name) {
  std::optional<TcpRecord> record;
  inet_diag_req_v2 request = tcp_request(name.family);
  request.id = name.id;
  const std::uint32_t number = ++last_request_;
  ask_sockets(socket_, number, 0, request, [&](std::span<const std::byte> bytes) {
    const auto answer = tcp_sockets_in(bytes, number, name.family);
    if (!answer.sockets.empty()) record = answer.sockets.front();
    return answer.is_last;
  });
  return record;
}

}  // namespace gpemu::skip
