// SPDX-License-Identifier: Apache-2.0
#include "network_interface.hpp"

#include <algorithm>
#include <cstdlib>
#include <ifaddrs.h>
#include <sys/socket.h>
#include <vector>

namespace gpemu::ranks {
namespace {

std::vector<InterfaceAddress> own_addresses() {
  std::vector<InterfaceAddress> found;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return found;
  for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr) continue;
    const int family = one->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    found.push_back({.name = one->ifa_name, .address = net::from_system(one->ifa_addr)});
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

}  // namespace

std::optional<net::SocketAddress> choose_address(std::span<const InterfaceAddress> addresses,
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
  const auto first = [&](auto is_wanted) -> std::optional<net::SocketAddress> {
    const auto found = std::ranges::find_if(addresses, [&](const InterfaceAddress& one) {
      return is_usable(one) && is_wanted(std::string_view(one.name));
    });
    if (found == addresses.end()) return std::nullopt;
    return found->address;
  };
  if (!named.empty()) {
    return first([&](std::string_view name) { return is_listed(name, named, whole) != excludes; });
  }
  std::optional<net::SocketAddress> chosen =
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

Result<net::Listener> listen_for_peers(int backlog) {
  const auto addresses = own_addresses();
  auto address = choose_address(addresses, variable_of("NCCL_SOCKET_IFNAME"),
                                variable_of("NCCL_SOCKET_FAMILY"));
  if (!address) {
    return fail(ErrorCode::kNotFound,
                "no network interface for NCCL: NCCL_SOCKET_IFNAME or NCCL_SOCKET_FAMILY excludes "
                "all");
  }
  address->port = 0;
  auto listener = net::listen_at(*address, backlog);
  if (!listener) {
    return fail(ErrorCode::kUnavailable, "no socket for NCCL's ranks to meet: {}",
                listener.error().message);
  }
  return listener;
}

}  // namespace gpemu::ranks
