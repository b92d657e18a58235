// SPDX-License-Identifier: Apache-2.0
#include "tcp_table.hpp"

#include <algorithm>
#include <array>
#include <netinet/in.h>
#include <sys/socket.h>

namespace gpemu::skip {
namespace {

using socket_state::kCloseWait, socket_state::kEstablished, socket_state::kFinWait2,
    socket_state::kListening, socket_state::kSynReceived;

TcpTable::Address address_of(int family, const std::uint32_t (&words)[4], std::uint16_t port) {
  if (family == AF_INET) return {.words = {0, 0, htonl(0xffff), words[0]}, .port = port};
  return {.words = std::to_array(words), .port = port};
}

}  // namespace

void TcpTable::restart(std::optional<std::uint64_t> opened) {
  *this = {};
  opened_ = opened;
}

void TcpTable::add(const TcpRecord& record) {
  const auto& [family, id] = record.name;
  if (record.state == kSynReceived) half_open_.insert(id.idiag_sport);
  if (record.state == kSynReceived || record.inode == 0) return;
  const auto [found, is_new] = sockets_.try_emplace(record.inode);
  Socket& socket = found->second;
  if (is_new) {
    socket.own = address_of(family, id.idiag_src, id.idiag_sport);
    socket.other = address_of(family, id.idiag_dst, id.idiag_dport);
    by_own_.emplace(socket.own, record.inode);
  }
  socket.record = record;
}

const TcpTable::Socket* TcpTable::find(std::uint64_t inode) const {
  const auto found = sockets_.find(inode);
  return found == sockets_.end() ? nullptr : &found->second;
}

const TcpTable::Socket* TcpTable::peer_of(const Socket& socket) const {
  const auto [begin, end] = by_own_.equal_range(socket.other);
  for (auto found = begin; found != end; ++found) {
    const Socket& other = sockets_.at(found->second);
    if (other.other == socket.own) return &other;
  }
  return nullptr;
}

std::optional<std::vector<TcpName>> TcpTable::ask_again(const std::set<std::uint64_t>& sockets,
                                                        std::optional<std::uint64_t> opened) {
  // The kernel takes a millisecond to list all sockets. If two lists show no connection that is
  // being opened, there was none in between unless a process started to open one.
  const bool known = std::ranges::all_of(sockets, [this](std::uint64_t inode) {
    const Socket* const socket = find(inode);
    return socket != nullptr && (socket->record.state != kListening || half_open_.empty());
  });
  if (!known || !opened_ || opened_ != opened) return std::nullopt;
  std::vector<TcpName> names;
  std::set<std::uint64_t> asked;
  for (const std::uint64_t inode : sockets) {
    const Socket& socket = sockets_.at(inode);
    if (socket.record.state == kListening) continue;
    const Socket* const peer = peer_of(socket);
    for (const std::uint64_t one : {inode, peer == nullptr ? 0 : peer->record.inode}) {
      if (one == 0 || !asked.insert(one).second) continue;
      TcpRecord& record = sockets_.at(one).record;
      record.counts.reset();
      names.push_back(record.name);
    }
  }
  return names;
}

bool TcpTable::is_quiet(std::uint64_t inode) const {
  const Socket* const socket = find(inode);
  if (socket == nullptr) return false;
  const int state = socket->record.state;
  if (state == kListening) return !half_open_.contains(socket->own.port);
  if (state == kCloseWait) return true;
  const Socket* const peer = peer_of(*socket);
  if (peer == nullptr || !peer->record.counts || !socket->record.counts) return false;
  const bool states = (state == kEstablished && peer->record.state == kEstablished) ||
                      (state == kFinWait2 && peer->record.state == kCloseWait);
  return states && peer->record.counts->not_sent == 0 &&
         peer->record.counts->sent == socket->record.counts->received;
}

}  // namespace gpemu::skip
