// SPDX-License-Identifier: Apache-2.0
#include "gpemu/net/connection.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <utility>

#include "gpemu/net/socket.hpp"

namespace gpemu::net {
namespace {

using namespace std::chrono_literals;

/// The most connections that have said nothing yet, more than a group has nodes. Beyond it, the
/// oldest one is dropped.
constexpr std::size_t kMostSilent = 128;

/// Errors: kUnavailable naming the place.
Result<std::vector<SocketAddress>> find(const HostPort& place) {
  auto found = resolve(place);
  if (found) return found;
  return fail(ErrorCode::kUnavailable, "{}: {}", place.str(), found.error().message);
}

template <typename T>
void set(const FileDescriptor& socket, int level, int option, T value) {
  // The connection also works without the option.
  static_cast<void>(::setsockopt(socket.get(), level, option, &value, sizeof value));
}

void set_options(const FileDescriptor& socket) {
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, kCutNetworkS / 2);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, kCutNetworkS / 2);
  set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, 1000 * kCutNetworkS);
}

HostPort address_of(const FileDescriptor& socket, int (*name)(int, sockaddr*, socklen_t*)) {
  SystemAddress system;
  std::array<char, NI_MAXHOST> host{};
  if (name(socket.get(), system.get(), &system.bytes) != 0 ||
      ::getnameinfo(system.get(), system.bytes, host.data(), host.size(), nullptr, 0,
                    NI_NUMERICHOST) != 0) {
    return {};
  }
  return {.host = host.data(), .port = from_system(system.get()).port};
}

int milliseconds(const Wait& wait) {
  return static_cast<int>(wait.step().count());
}

/// Returns a connected socket, or the error number.
int connect_once(const std::vector<SocketAddress>& addresses, const Wait& wait,
                 FileDescriptor& socket) {
  int error = EADDRNOTAVAIL;
  for (const SocketAddress& address : addresses) {
    socket =
        FileDescriptor(::socket(address.family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket.valid()) return errno;
    const SystemAddress to = to_system(address);
    if (::connect(socket.get(), to.get(), to.bytes) == 0) return 0;
    error = errno;
    if (error != EINPROGRESS) continue;
    pollfd polled{.fd = socket.get(), .events = POLLOUT, .revents = 0};
    while (::poll(&polled, 1, milliseconds(wait)) <= 0 && !wait.is_over()) {
    }
    error = ETIMEDOUT;
    socklen_t size = sizeof error;
    if (polled.revents != 0) ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error == 0) return 0;
  }
  return error;
}

/// Returns a connection, or one that is not valid if it has gone again.
Result<FileDescriptor> accept_one(const FileDescriptor& listener) {
  FileDescriptor socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (socket.valid()) {
    set_options(socket);
  } else if (errno != EINTR && errno != ECONNABORTED && errno != EAGAIN) {
    return fail(ErrorCode::kIo, "cannot accept connections: {}", errno_message(errno));
  }
  return socket;
}

}  // namespace

Result<FileDescriptor> listen_at(const HostPort& address) {
  GPEMU_ASSIGN(const std::vector<SocketAddress> places, find(address));
  auto listener = listen_at(places.front(), SOMAXCONN);
  if (listener) return std::move(listener->socket);
  return fail(ErrorCode::kUnavailable, "cannot listen at {}: {}", address.str(),
              listener.error().message);
}

bool Greeter::read(Caller& caller) const {
  std::uint32_t size = 0;
  while (true) {
    std::size_t wanted = sizeof size;
    if (caller.bytes.size() >= sizeof size) {
      std::memcpy(&size, caller.bytes.data(), sizeof size);
      if (size > most_) {
        caller.socket = FileDescriptor();
        return true;
      }
      wanted += size;
    }
    const std::size_t before = caller.bytes.size();
    if (before == wanted) return true;
    caller.bytes.resize(wanted);
    const ssize_t got =
        ::recv(caller.socket.get(), caller.bytes.data() + before, wanted - before, MSG_DONTWAIT);
    const int error = errno;
    caller.bytes.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got > 0 || (got < 0 && error == EINTR)) continue;
    if (got < 0 && error == EAGAIN) return false;
    caller.socket = FileDescriptor();
    return true;
  }
}

Result<void> Greeter::accept(const FileDescriptor& listener) {
  GPEMU_ASSIGN(FileDescriptor socket, accept_one(listener));
  if (!socket.valid()) return {};
  if (callers_.size() == kMostSilent) callers_.erase(callers_.begin());
  callers_.push_back({.socket = std::move(socket), .bytes = {}});
  return {};
}

Result<Greeter::Greeting> Greeter::next(const FileDescriptor& listener, const Wait& wait) {
  while (!wait.is_over()) {
    std::vector<pollfd> polled;
    for (const Caller& caller : callers_) polled.push_back({caller.socket.get(), POLLIN, 0});
    polled.push_back({listener.get(), POLLIN, 0});
    if (::poll(polled.data(), polled.size(), milliseconds(wait)) <= 0) continue;
    const bool comes = polled.back().revents != 0;
    for (std::size_t i = 0; i < callers_.size(); ++i) {
      if (polled[i].revents == 0 || !read(callers_[i])) continue;
      Caller caller = std::move(callers_[i]);
      callers_.erase(callers_.begin() + static_cast<std::ptrdiff_t>(i));
      if (!caller.socket.valid()) break;  // The others are looked at again.
      caller.bytes.erase(caller.bytes.begin(), caller.bytes.begin() + sizeof(std::uint32_t));
      return Greeting{.socket = std::move(caller.socket), .message = std::move(caller.bytes)};
    }
    if (comes) GPEMU_TRY(accept(listener));
  }
  return Greeting{};
}

Result<FileDescriptor> connect_to(const HostPort& address, const Wait& wait) {
  GPEMU_ASSIGN(const std::vector<SocketAddress> addresses, find(address));
  while (true) {
    FileDescriptor socket;
    const int error = connect_once(addresses, wait, socket);
    if (error == 0) {
      static_cast<void>(::fcntl(socket.get(), F_SETFL, 0));
      set_options(socket);
      return socket;
    }
    if (error != ECONNREFUSED || wait.is_over()) {
      return fail(ErrorCode::kUnavailable, "cannot connect to {}: {}", address.str(),
                  errno_message(error));
    }
    wait.clock.wait_until(std::min(wait.until, wait.clock.now() + sim::kLook));
  }
}

HostPort peer_of(const FileDescriptor& socket) {
  return address_of(socket, ::getpeername);
}

HostPort own_of(const FileDescriptor& socket) {
  return address_of(socket, ::getsockname);
}

namespace {

/// Errors: as send_all(), if the wait is over.
Result<void> check_time(const FileDescriptor& socket, short events, std::size_t left,
                        const Wait& wait) {
  if (wait.is_stopped()) return fail(ErrorCode::kInterrupted, "stopped");
  if (!wait.is_over()) return {};
  return fail(ErrorCode::kUnavailable, "{} {} {} more byte{} in time", peer_of(socket).str(),
              events == POLLIN ? "has not sent" : "has not taken", left, left == 1 ? "" : "s");
}

/// `move` moves some bytes, without waiting.
template <typename Byte, typename Move>
Result<void> move_all(const FileDescriptor& socket, std::span<Byte> bytes, short events,
                      const Wait& wait, Move move) {
  while (!bytes.empty()) {
    const ssize_t moved = move(bytes);
    if (moved > 0) bytes = bytes.subspan(static_cast<std::size_t>(moved));
    if (moved == 0 || (moved < 0 && errno != EAGAIN && errno != EINTR)) {
      return fail(ErrorCode::kUnavailable, "{} has ended the connection", peer_of(socket).str());
    }
    if (bytes.empty()) break;
    // Checked after each part, because a peer may send one byte now and then for ever.
    GPEMU_TRY(check_time(socket, events, bytes.size(), wait));
    pollfd polled{.fd = socket.get(), .events = events, .revents = 0};
    if (moved < 0) static_cast<void>(::poll(&polled, 1, milliseconds(wait)));
  }
  return {};
}

}  // namespace

Result<void> send_all(const FileDescriptor& socket, std::span<const std::byte> bytes,
                      const Wait& wait) {
  return move_all(socket, bytes, POLLOUT, wait, [&socket](std::span<const std::byte> rest) {
    return ::send(socket.get(), rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  });
}

Result<void> receive_all(const FileDescriptor& socket, std::span<std::byte> bytes,
                         const Wait& wait) {
  return move_all(socket, bytes, POLLIN, wait, [&socket](std::span<std::byte> rest) {
    return ::recv(socket.get(), rest.data(), rest.size(), MSG_DONTWAIT);
  });
}

Result<void> send_message(const FileDescriptor& socket, std::span<const std::byte> message,
                          const Wait& wait) {
  const auto size = static_cast<std::uint32_t>(message.size());
  GPEMU_TRY(send_all(socket, std::as_bytes(std::span(&size, 1)), wait));
  return send_all(socket, message, wait);
}

Result<std::vector<std::byte>> receive_message(const FileDescriptor& socket, Bytes most,
                                               const Wait& wait) {
  std::uint32_t size = 0;
  GPEMU_TRY(receive_all(socket, std::as_writable_bytes(std::span(&size, 1)), wait));
  if (size > most) {
    return fail(ErrorCode::kCorruptData, "{} sends a message of {} bytes, which are more than {}",
                peer_of(socket).str(), size, most);
  }
  std::vector<std::byte> message(size);
  GPEMU_TRY(receive_all(socket, message, wait));
  return message;
}

}  // namespace gpemu::net
