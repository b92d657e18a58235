// SPDX-License-Identifier: Apache-2.0
#include "gpemu/net/socket.hpp"

#include <cerrno>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <utility>

#include "gpemu/base/text.hpp"

namespace gpemu::net {
namespace {

void set_deadlines(int socket) {
  const timeval limit{.tv_sec = kSocketSeconds, .tv_usec = 0};
  const int yes = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
}

}  // namespace

Result<Listener> listen_at(const SocketAddress& address, int backlog) {
  FileDescriptor listener(::socket(address.family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const SystemAddress wanted = to_system(address);
  SystemAddress bound;
  const int yes = 1;
  if (!listener.valid() ||
      ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) != 0 ||
      ::bind(listener.get(), wanted.get(), wanted.bytes) != 0 ||
      ::listen(listener.get(), backlog) != 0 ||
      ::getsockname(listener.get(), bound.get(), &bound.bytes) != 0) {
    return fail(ErrorCode::kUnavailable, "{}", errno_message(errno));
  }
  return Listener{.socket = std::move(listener), .address = from_system(bound.get())};
}

Result<FileDescriptor> call_peer(const SocketAddress& address) {
  FileDescriptor socket(::socket(address.family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const SystemAddress to = to_system(address);
  if (socket.valid()) set_deadlines(socket.get());
  if (!socket.valid() || ::connect(socket.get(), to.get(), to.bytes) != 0) {
    return fail(ErrorCode::kUnavailable, "{}", errno_message(errno));
  }
  return socket;
}

FileDescriptor accept_peer(const Listener& listener) {
  FileDescriptor socket(::accept4(listener.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (socket.valid()) set_deadlines(socket.get());
  return socket;
}

bool send_all(int socket, const void* data, std::size_t bytes) {
  const auto* from = static_cast<const std::byte*>(data);
  while (bytes > 0) {
    const ssize_t sent = ::send(socket, from, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    from += sent;
    bytes -= static_cast<std::size_t>(sent);
  }
  return true;
}

bool receive_all(int socket, void* data, std::size_t bytes) {
  auto* to = static_cast<std::byte*>(data);
  while (bytes > 0) {
    const ssize_t got = ::recv(socket, to, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

}  // namespace gpemu::net
