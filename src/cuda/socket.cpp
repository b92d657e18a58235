// SPDX-License-Identifier: Apache-2.0
#include "socket.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>

#include "gpemu/base/text.hpp"

namespace gpemu::cuda {
namespace {

sockaddr_storage to_socket(const SocketAddress& address, socklen_t* bytes) {
  sockaddr_storage storage{};
  if (address.family == AF_INET6) {
    sockaddr_in6 six{};
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(address.port);
    six.sin6_scope_id = address.scope;
    std::memcpy(&six.sin6_addr, address.number.data(), sizeof(six.sin6_addr));
    std::memcpy(&storage, &six, sizeof(six));
    *bytes = sizeof(six);
  } else {
    sockaddr_in four{};
    four.sin_family = AF_INET;
    four.sin_port = htons(address.port);
    std::memcpy(&four.sin_addr, address.number.data(), sizeof(four.sin_addr));
    std::memcpy(&storage, &four, sizeof(four));
    *bytes = sizeof(four);
  }
  return storage;
}

SocketAddress from_socket(const sockaddr* from) {
  SocketAddress address;
  address.family = from->sa_family;
  if (from->sa_family == AF_INET6) {
    sockaddr_in6 six{};
    std::memcpy(&six, from, sizeof(six));
    address.scope = six.sin6_scope_id;
    address.port = ntohs(six.sin6_port);
    std::memcpy(address.number.data(), &six.sin6_addr, sizeof(six.sin6_addr));
  } else {
    sockaddr_in four{};
    std::memcpy(&four, from, sizeof(four));
    address.port = ntohs(four.sin_port);
    std::memcpy(address.number.data(), &four.sin_addr, sizeof(four.sin_addr));
  }
  return address;
}

std::vector<InterfaceAddress> own_addresses() {
  std::vector<InterfaceAddress> found;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return found;
  for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr) continue;
    const int family = one->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    found.push_back({.name = one->ifa_name, .address = from_socket(one->ifa_addr)});
  }
  ::freeifaddrs(first);
  return found;
}

std::string_view variable_of(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

/// Returns whether an interface is one of a list of names, or of beginnings of names.
bool is_listed(std::string_view name, std::string_view list, bool whole) {
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    // A port may follow.
    const std::string_view entry = list.substr(0, std::min(comma, list.find(':')));
    if (!entry.empty() && (whole ? name == entry : name.starts_with(entry))) return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

void set_deadlines(int socket) {
  const timeval limit{.tv_sec = kSocketSeconds, .tv_usec = 0};
  const int yes = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
}

}  // namespace

bool SocketAddress::is_usable() const {
  return family == AF_INET || family == AF_INET6;
}

std::string SocketAddress::to_string() const {
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::inet_ntop(family, number.data(), text.data(), text.size());
  const bool is_six = family == AF_INET6;
  return fmt::format("{}{}{}:{}", is_six ? "[" : "", text.data(), is_six ? "]" : "", port);
}

Socket::~Socket() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::optional<SocketAddress> choose_address(std::span<const InterfaceAddress> addresses,
                                            std::string_view named, std::string_view family) {
  const bool excludes = named.starts_with('^');
  if (excludes) named.remove_prefix(1);
  const bool whole = named.starts_with('=');
  if (whole) named.remove_prefix(1);
  const auto is_usable = [&](const InterfaceAddress& one) {
    if (family == "AF_INET" && one.address.family != AF_INET) return false;
    if (family == "AF_INET6" && one.address.family != AF_INET6) return false;
    return true;
  };
  const auto first = [&](auto is_wanted) -> std::optional<SocketAddress> {
    const auto found = std::ranges::find_if(addresses, [&](const InterfaceAddress& one) {
      return is_usable(one) && is_wanted(std::string_view(one.name));
    });
    if (found == addresses.end()) return std::nullopt;
    return found->address;
  };
  if (!named.empty()) {
    return first([&](std::string_view name) { return is_listed(name, named, whole) != excludes; });
  }
  std::optional<SocketAddress> chosen =
      first([](std::string_view name) { return name.starts_with("ib"); });
  if (!chosen) {
    chosen =
        first([](std::string_view name) { return !is_listed(name, "docker,lo,virbr", false); });
  }
  for (const std::string_view kind : {"docker", "lo", "virbr"}) {
    if (!chosen) chosen = first([kind](std::string_view name) { return name.starts_with(kind); });
  }
  return chosen;
}

Result<Listener> listen_for_peers(int backlog) {
  const auto addresses = own_addresses();
  auto address = choose_address(addresses, variable_of("NCCL_SOCKET_IFNAME"),
                                variable_of("NCCL_SOCKET_FAMILY"));
  if (!address) {
    return fail(ErrorCode::kNotFound,
                "no network interface for NCCL: NCCL_SOCKET_IFNAME or NCCL_SOCKET_FAMILY excludes "
                "all");
  }
  address->port = 0;
  auto listener = listen_at(*address, backlog);
  if (!listener) {
    return fail(ErrorCode::kUnavailable, "no socket for NCCL's ranks to meet: {}",
                listener.error().message);
  }
  return listener;
}

Result<Listener> listen_at(const SocketAddress& address, int backlog) {
  Socket listener(::socket(address.family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  socklen_t bytes = 0;
  const sockaddr_storage wanted = to_socket(address, &bytes);
  sockaddr_storage bound{};
  socklen_t bound_bytes = sizeof(bound);
  const int yes = 1;
  if (listener.get() < 0 ||
      ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) != 0 ||
      ::bind(listener.get(), reinterpret_cast<const sockaddr*>(&wanted), bytes) != 0 ||
      ::listen(listener.get(), backlog) != 0 ||
      ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&bound), &bound_bytes) != 0) {
    return fail(ErrorCode::kUnavailable, "{}", errno_message(errno));
  }
  return Listener{.socket = std::move(listener),
                  .address = from_socket(reinterpret_cast<const sockaddr*>(&bound))};
}

Result<SocketAddress> parse_address(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == text.size()) {
    return fail(ErrorCode::kInvalidArgument, "it is not ADDRESS:PORT");
  }
  std::string host = text.substr(0, colon);
  std::uint16_t port = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data() + colon + 1, end, port);
  if (read.ec != std::errc() || read.ptr != end || port == 0) {
    return fail(ErrorCode::kInvalidArgument, "its port is not a number from 1 to 65535");
  }
  const bool has_brackets = host.front() == '[' && host.back() == ']';
  if (has_brackets) host = host.substr(1, host.size() - 2);
  if (has_brackets != (host.find(':') != std::string::npos)) {
    return fail(ErrorCode::kInvalidArgument, "an address of IPv6 needs brackets: [ADDRESS]:PORT");
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int status = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (status != 0) return fail(ErrorCode::kInvalidArgument, "{}", ::gai_strerror(status));
  SocketAddress address = from_socket(found->ai_addr);
  ::freeaddrinfo(found);
  if (!address.is_usable()) {
    return fail(ErrorCode::kInvalidArgument, "it is no address of IPv4 or IPv6");
  }
  address.port = port;
  return address;
}

Result<Socket> call_peer(const SocketAddress& address) {
  Socket socket(::socket(address.family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  socklen_t bytes = 0;
  const sockaddr_storage to = to_socket(address, &bytes);
  if (socket.get() >= 0) set_deadlines(socket.get());
  if (socket.get() < 0 ||
      ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), bytes) != 0) {
    return fail(ErrorCode::kUnavailable, "{}", errno_message(errno));
  }
  return socket;
}

Socket accept_peer(const Listener& listener) {
  Socket socket(::accept4(listener.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (socket.get() >= 0) set_deadlines(socket.get());
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

}  // namespace gpemu::cuda
