// SPDX-License-Identifier: Apache-2.0
#include "socket_answer.hpp"

#include <algorithm>
#include <cstring>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <linux/unix_diag.h>
#include <optional>

namespace gpemu::skip {
namespace {

using Data = std::span<const std::byte>;

/// Returns the value that some bytes begin with; nothing if they are too few.
template <typename Value>
std::optional<Value> value_in(Data data) {
  if (data.size() < sizeof(Value)) return std::nullopt;
  Value value{};
  std::memcpy(&value, data.data(), sizeof value);
  return value;
}

/// A message, or an attribute of one.
template <typename Header>
struct Part {
  Header header;
  Data content;
};

/// Removes the first part; nothing if it is cut short. `length`: of the part with its header, not
/// with the bytes that align the next one.
template <typename Header, typename Length>
std::optional<Part<Header>> take_part(Data& data, Length Header::* length) {
  const auto header = value_in<Header>(data);
  if (!header) return std::nullopt;
  const std::size_t size = (*header).*length;
  if (size < sizeof(Header) || size > data.size()) return std::nullopt;
  const Data content = data.first(size).subspan(sizeof(Header));
  data = data.subspan(std::min<std::size_t>(data.size(), NLMSG_ALIGN(size)));
  return Part<Header>{*header, content};
}

/// Calls `look` with the fixed part of each answer and the attributes after it. Returns whether no
/// further bytes answer the request.
template <typename Fixed, typename Look>
bool for_each_answer(Data data, std::uint32_t number, Look look) {
  while (!data.empty()) {
    const auto message = take_part(data, &nlmsghdr::nlmsg_len);
    if (!message) return true;
    const nlmsghdr& header = message->header;
    if (header.nlmsg_seq != number) continue;
    if (header.nlmsg_type == NLMSG_DONE || header.nlmsg_type == NLMSG_ERROR) return true;
    const auto fixed = value_in<Fixed>(message->content);
    if (fixed && header.nlmsg_type == SOCK_DIAG_BY_FAMILY) {
      look(*fixed, message->content.subspan(sizeof(Fixed)));
    }
    if ((header.nlmsg_flags & NLM_F_MULTI) == 0) return true;
  }
  return false;
}

/// Returns the content of an attribute; empty if there is none.
Data attribute_in(Data attributes, int type) {
  while (const auto attribute = take_part(attributes, &rtattr::rta_len)) {
    if (attribute->header.rta_type == type) return attribute->content;
  }
  return {};
}

std::optional<TcpRecord::Counts> counts_in(Data data) {
  // Older kernels have fewer fields, newer ones more.
  if (data.size() < offsetof(tcp_info, tcpi_bytes_retrans) + 8) return std::nullopt;
  tcp_info info{};
  std::memcpy(&info, data.data(), std::min(data.size(), sizeof info));
  return TcpRecord::Counts{.sent = info.tcpi_bytes_sent - info.tcpi_bytes_retrans,
                           .not_sent = info.tcpi_notsent_bytes,
                           .received = info.tcpi_bytes_received};
}

}  // namespace

SocketAnswer<std::map<std::uint64_t, UnixSocket>> unix_sockets_in(std::span<const std::byte> answer,
                                                                  std::uint32_t number) {
  SocketAnswer<std::map<std::uint64_t, UnixSocket>> found;
  found.is_last = for_each_answer<unix_diag_msg>(
      answer, number, [&found](const unix_diag_msg& fixed, Data attributes) {
        const auto peer = value_in<std::uint32_t>(attribute_in(attributes, UNIX_DIAG_PEER));
        found.sockets[fixed.udiag_ino] = {.state = fixed.udiag_state, .peer = peer.value_or(0)};
      });
  return found;
}

SocketAnswer<std::vector<TcpRecord>> tcp_sockets_in(std::span<const std::byte> answer,
                                                    std::uint32_t number, int family) {
  SocketAnswer<std::vector<TcpRecord>> found;
  found.is_last = for_each_answer<inet_diag_msg>(
      answer, number, [&](const inet_diag_msg& fixed, Data attributes) {
        found.sockets.push_back({.name = {.family = family, .id = fixed.id},
                                 .state = fixed.idiag_state,
                                 .inode = fixed.idiag_inode,
                                 .unacknowledged = fixed.idiag_wqueue,
                                 .counts = counts_in(attribute_in(attributes, INET_DIAG_INFO))});
      });
  return found;
}

}  // namespace gpemu::skip
