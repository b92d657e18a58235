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

/// How often waits look at whether they are over.
constexpr int kPollMs = 50;
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
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, kPatienceS / 2);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, kPatienceS / 2);
  set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, 1000 * kPatienceS);
  set(socket, SOL_SOCKET, SO_RCVTIMEO, timeval{.tv_sec = kPatienceS, .tv_usec = 0});
  set(socket, SOL_SOCKET, SO_SNDTIMEO, timeval{.tv_sec = kPatienceS, .tv_usec = 0});
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
    while (::poll(&polled, 1, kPollMs) <= 0 && !wait.is_over()) {
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

Result<FileDescriptor> accept_at(const FileDescriptor& listener, const Wait& wait) {
  while (!wait.is_over()) {
    pollfd polled{.fd = listener.get(), .events = POLLIN, .revents = 0};
    if (::poll(&polled, 1, kPollMs) <= 0) continue;
    GPEMU_ASSIGN(FileDescriptor socket, accept_one(listener));
    if (socket.valid()) return socket;
  }
  return FileDescriptor();
}

Result<FileDescriptor> accept_speaker(const FileDescriptor& listener,
                                      std::vector<FileDescriptor>& silent, const Wait& wait) {
  while (!wait.is_over()) {
    std::vector<pollfd> polled;
    for (const FileDescriptor& socket : silent) polled.push_back({socket.get(), POLLIN, 0});
    polled.push_back({listener.get(), POLLIN, 0});
    if (::poll(polled.data(), polled.size(), kPollMs) <= 0) continue;
    for (std::size_t i = 0; i < silent.size(); ++i) {
      if (polled[i].revents == 0) continue;
      FileDescriptor socket = std::move(silent[i]);
      silent.erase(silent.begin() + static_cast<std::ptrdiff_t>(i));
      return socket;
    }
    GPEMU_ASSIGN(FileDescriptor socket, accept_one(listener));
    if (!socket.valid()) continue;
    if (silent.size() == kMostSilent) silent.erase(silent.begin());
    silent.push_back(std::move(socket));
  }
  return FileDescriptor();
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
    wait.clock.wait_until(wait.clock.now() + 1ms * kPollMs);
  }
}

Address peer_of(const FileDescriptor& socket) {
  return address_of(socket, ::getpeername);
}

Address own_of(const FileDescriptor& socket) {
  return address_of(socket, ::getsockname);
}

bool send_all(const FileDescriptor& socket, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
  return true;
}

bool receive_all(const FileDescriptor& socket, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = ::recv(socket.get(), bytes.data(), bytes.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
  return true;
}

bool send_message(const FileDescriptor& socket, std::span<const std::byte> message) {
  const auto size = static_cast<std::uint32_t>(message.size());
  return send_all(socket, std::as_bytes(std::span(&size, 1))) && send_all(socket, message);
}

bool receive_message(const FileDescriptor& socket, std::vector<std::byte>& message, Bytes most) {
  std::uint32_t size = 0;
  if (!receive_all(socket, std::as_writable_bytes(std::span(&size, 1))) || size > most) {
    return false;
  }
  message.resize(size);
  return receive_all(socket, message);
}

}  // namespace gpemu::peers
