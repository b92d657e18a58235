// SPDX-License-Identifier: Apache-2.0
#include "connection.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

namespace gpemu::peers {
namespace {

using namespace std::chrono_literals;

/// More connections than nodes of a group that have said nothing yet; the oldest one makes room.
constexpr std::size_t kMostSilent = 128;

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Result<AddressList> resolve(const Address& address, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int code =
      ::getaddrinfo(address.host.c_str(), fmt::to_string(address.port).c_str(), &hints, &found);
  if (code != 0) {
    return fail(ErrorCode::kUnavailable, "{}: {}", address.str(), ::gai_strerror(code));
  }
  return AddressList(found, &::freeaddrinfo);
}

template <typename T>
void set(const FileDescriptor& socket, int level, int option, T value) {
  // Without them the connection works, too.
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

Address address_of(const FileDescriptor& socket, int (*name)(int, sockaddr*, socklen_t*)) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  auto* generic = reinterpret_cast<sockaddr*>(&storage);
  if (name(socket.get(), generic, &size) != 0 ||
      ::getnameinfo(generic, size, host.data(), host.size(), port.data(), port.size(),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return {};
  }
  Address address{.host = host.data()};
  std::from_chars(port.data(), port.data() + std::strlen(port.data()), address.port);
  return address;
}

int milliseconds(const Wait& wait) {
  return static_cast<int>(wait.step().count());
}

/// Returns a connected socket, or the error number.
int connect_once(const AddressList& addresses, const Wait& wait, FileDescriptor& socket) {
  int error = EADDRNOTAVAIL;
  for (const addrinfo* place = addresses.get(); place != nullptr; place = place->ai_next) {
    socket =
        FileDescriptor(::socket(place->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket.valid()) return errno;
    if (::connect(socket.get(), place->ai_addr, place->ai_addrlen) == 0) return 0;
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

std::string Address::str() const {
  return host.contains(':') ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

Result<Address> parse_address(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  Address address;
  if (colon != std::string_view::npos && colon > 0) {
    std::string_view host = text.substr(0, colon);
    if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
      host = host.substr(1, host.size() - 2);
    }
    address.host = host;
    const std::string_view port = text.substr(colon + 1);
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
    if (error == std::errc() && end == port.data() + port.size() && address.port > 0) {
      return address;
    }
  }
  return fail(ErrorCode::kInvalidArgument,
              "'{}' is no address: write HOST:PORT, e.g. 10.77.0.1:29500", text);
}

bool is_number(const Address& address) {
  return resolve(address, AI_NUMERICHOST).has_value();
}

Result<FileDescriptor> listen_at(const Address& address) {
  GPEMU_ASSIGN(const AddressList addresses, resolve(address, AI_PASSIVE));
  const addrinfo& place = *addresses;
  FileDescriptor socket(::socket(place.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (socket.valid()) {
    set(socket, SOL_SOCKET, SO_REUSEADDR, 1);
    if (::bind(socket.get(), place.ai_addr, place.ai_addrlen) == 0 &&
        ::listen(socket.get(), SOMAXCONN) == 0) {
      return socket;
    }
  }
  return fail(ErrorCode::kUnavailable, "cannot listen at {}: {}", address.str(),
              errno_message(errno));
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

Result<FileDescriptor> connect_to(const Address& address, const Wait& wait) {
  GPEMU_ASSIGN(const AddressList addresses, resolve(address, 0));
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

Address peer_of(const FileDescriptor& socket) {
  return address_of(socket, ::getpeername);
}

Address own_of(const FileDescriptor& socket) {
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
    // Also after some bytes: whoever sends one now and then does not come to an end.
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

}  // namespace gpemu::peers
