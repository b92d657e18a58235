// SPDX-License-Identifier: Apache-2.0
#include "gpemu/net/address.hpp"

#include <arpa/inet.h>
#include <charconv>
#include <cstring>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>

#include <fmt/format.h>

namespace gpemu::net {
namespace {

/// `flags`: of getaddrinfo.
Result<std::vector<SocketAddress>> look_up(const HostPort& place, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* first = nullptr;
  const int code = ::getaddrinfo(place.host.c_str(), nullptr, &hints, &first);
  if (code != 0) return fail(ErrorCode::kUnavailable, "{}", ::gai_strerror(code));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(first, &::freeaddrinfo);
  std::vector<SocketAddress> found;
  for (const addrinfo* one = first; one != nullptr; one = one->ai_next) {
    found.push_back(from_system(one->ai_addr));
    found.back().port = place.port;
    if (!found.back().is_usable()) found.pop_back();
  }
  if (found.empty()) {
    return fail(ErrorCode::kUnavailable, "it is no address of IPv4 or IPv6");
  }
  return found;
}

}  // namespace

std::string HostPort::str() const {
  return host.contains(':') ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

Result<HostPort> parse_host_port(std::string_view text, std::uint16_t lowest) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0 || colon + 1 == text.size()) {
    return fail(ErrorCode::kInvalidArgument, "it is not ADDRESS:PORT");
  }
  HostPort place;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data() + colon + 1, end, place.port);
  if (read.ec != std::errc() || read.ptr != end || place.port < lowest) {
    return fail(ErrorCode::kInvalidArgument, "its port is not a number from {} to 65535", lowest);
  }
  std::string_view host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  place.host = host;
  return place;
}

bool SocketAddress::is_usable() const {
  return family == AF_INET || family == AF_INET6;
}

std::string SocketAddress::to_string() const {
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::inet_ntop(family, number.data(), text.data(), text.size());
  const bool is_six = family == AF_INET6;
  return fmt::format("{}{}{}:{}", is_six ? "[" : "", text.data(), is_six ? "]" : "", port);
}

SystemAddress to_system(const SocketAddress& address) {
  SystemAddress system;
  if (address.family == AF_INET6) {
    sockaddr_in6 six{};
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(address.port);
    six.sin6_scope_id = address.scope;
    std::memcpy(&six.sin6_addr, address.number.data(), sizeof(six.sin6_addr));
    std::memcpy(&system.storage, &six, sizeof(six));
    system.bytes = sizeof(six);
  } else {
    sockaddr_in four{};
    four.sin_family = AF_INET;
    four.sin_port = htons(address.port);
    std::memcpy(&four.sin_addr, address.number.data(), sizeof(four.sin_addr));
    std::memcpy(&system.storage, &four, sizeof(four));
    system.bytes = sizeof(four);
  }
  return system;
}

SocketAddress from_system(const sockaddr* from) {
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

Result<std::vector<SocketAddress>> resolve(const HostPort& place) {
  return look_up(place, 0);
}

bool is_number(const HostPort& place) {
  return look_up(place, AI_NUMERICHOST).has_value();
}

Result<SocketAddress> find_address(std::string_view text) {
  GPEMU_ASSIGN(const HostPort place, parse_host_port(text));
  const bool has_brackets = text.starts_with('[') && text[text.rfind(':') - 1] == ']';
  if (has_brackets != place.host.contains(':')) {
    return fail(ErrorCode::kInvalidArgument, "an address of IPv6 needs brackets: [ADDRESS]:PORT");
  }
  const auto found = resolve(place);
  if (!found) return fail(ErrorCode::kInvalidArgument, "{}", found.error().message);
  return found->front();
}

}  // namespace gpemu::net
