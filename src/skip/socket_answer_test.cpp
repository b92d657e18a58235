// SPDX-License-Identifier: Apache-2.0
#include "socket_answer.hpp"

#include <algorithm>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <linux/unix_diag.h>
#include <sys/socket.h>
#include <utility>

#include <gtest/gtest.h>

namespace gpemu::skip {
namespace {

using socket_state::kEstablished, socket_state::kListening;
using Data = std::vector<std::byte>;
using UnixSockets = std::map<std::uint64_t, UnixSocket>;

constexpr std::uint32_t kNumber = 7, kOtherNumber = 6;
constexpr std::uint64_t kInode = 11, kPeer = 22;

template <typename Value>
Data bytes_of(const Value& value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  return {bytes.begin(), bytes.end()};
}

Data joined(const std::vector<Data>& parts) {
  Data all;
  for (const Data& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

/// Adds a header in which `length` is the size of both.
template <typename Header, typename Length>
Data with_header(Header header, Length Header::* length, const Data& content) {
  header.*length = static_cast<Length>(sizeof(Header) + content.size());
  Data all = joined({bytes_of(header), content});
  all.resize(NLMSG_ALIGN(all.size()));
  return all;
}

Data message(const Data& content, int type = SOCK_DIAG_BY_FAMILY, int flags = NLM_F_MULTI,
             std::uint32_t number = kNumber) {
  return with_header(nlmsghdr{.nlmsg_len = 0,
                              .nlmsg_type = static_cast<std::uint16_t>(type),
                              .nlmsg_flags = static_cast<std::uint16_t>(flags),
                              .nlmsg_seq = number,
                              .nlmsg_pid = 0},
                     &nlmsghdr::nlmsg_len, content);
}

Data attribute(int type, const Data& content) {
  return with_header(rtattr{.rta_len = 0, .rta_type = static_cast<std::uint16_t>(type)},
                     &rtattr::rta_len, content);
}

Data unix_content(std::uint64_t inode, const Data& attributes = {}) {
  unix_diag_msg fixed{};
  fixed.udiag_state = kEstablished;
  fixed.udiag_ino = static_cast<std::uint32_t>(inode);
  return joined({bytes_of(fixed), attributes});
}

Data peer() {
  return attribute(UNIX_DIAG_PEER, bytes_of(static_cast<std::uint32_t>(kPeer)));
}

Data tcp_content(const Data& attributes = {}) {
  inet_diag_msg fixed{};
  fixed.idiag_state = kListening;
  fixed.idiag_inode = static_cast<std::uint32_t>(kInode);
  fixed.idiag_wqueue = 5;
  fixed.id.idiag_sport = 29500;
  return joined({bytes_of(fixed), attributes});
}

Data info() {
  tcp_info counts{};
  counts.tcpi_bytes_sent = 100;
  counts.tcpi_bytes_retrans = 30;
  counts.tcpi_notsent_bytes = 4;
  counts.tcpi_bytes_received = 9;
  return bytes_of(counts);
}

TEST(SocketAnswer, HasUnixSocketsWithTheirPeers) {
  // Attributes are aligned: the one before the peer has one byte.
  const Data shutdown = attribute(UNIX_DIAG_SHUTDOWN, {std::byte{3}});
  const auto found =
      unix_sockets_in(joined({message(unix_content(kInode, joined({shutdown, peer()}))),
                              message(unix_content(kPeer))}),
                      kNumber);
  EXPECT_EQ(found.sockets, (UnixSockets{{kInode, {.state = kEstablished, .peer = kPeer}},
                                        {kPeer, {.state = kEstablished, .peer = 0}}}));
  EXPECT_FALSE(found.is_last);
}

TEST(SocketAnswer, HasTcpSocketsWithTheirCounts) {
  const auto found =
      tcp_sockets_in(message(tcp_content(attribute(INET_DIAG_INFO, info()))), kNumber, AF_INET6);
  ASSERT_EQ(found.sockets.size(), 1U);
  const TcpRecord& record = found.sockets[0];
  EXPECT_EQ(record.name.family, AF_INET6);
  EXPECT_EQ(record.name.id.idiag_sport, 29500);
  EXPECT_EQ(record.state, kListening);
  EXPECT_EQ(record.inode, kInode);
  EXPECT_EQ(record.unacknowledged, 5U);
  ASSERT_TRUE(record.counts);
  EXPECT_EQ(record.counts->sent, 70U);
  EXPECT_EQ(record.counts->not_sent, 4U);
  EXPECT_EQ(record.counts->received, 9U);
}

TEST(SocketAnswer, CountsOfAnotherKernelAreShorterOrLonger) {
  constexpr std::size_t kNeeded = offsetof(tcp_info, tcpi_bytes_retrans) + 8;
  for (const std::size_t size : {kNeeded, sizeof(tcp_info) + 8, kNeeded - 1, std::size_t{0}}) {
    Data counts = info();
    counts.resize(size);
    const auto found =
        tcp_sockets_in(message(tcp_content(attribute(INET_DIAG_INFO, counts))), kNumber, AF_INET);
    ASSERT_EQ(found.sockets.size(), 1U) << size;
    EXPECT_EQ(found.sockets[0].counts.value_or(TcpRecord::Counts()).sent,
              size >= kNeeded ? 70U : 0U)
        << size;
  }
}

TEST(SocketAnswer, EndsWithTheListAnErrorOrASingleMessage) {
  const Data socket = message(unix_content(kInode));
  const auto sockets_and_end = [&socket](const Data& end) {
    const auto found =
        unix_sockets_in(joined({socket, end, message(unix_content(kPeer))}), kNumber);
    return std::pair(found.sockets.size(), found.is_last);
  };
  EXPECT_EQ(sockets_and_end({}), std::pair(2UZ, false));
  EXPECT_EQ(sockets_and_end(message({}, NLMSG_DONE)), std::pair(1UZ, true));
  EXPECT_EQ(sockets_and_end(message({}, NLMSG_ERROR, 0)), std::pair(1UZ, true));
  EXPECT_EQ(sockets_and_end(message(unix_content(33), SOCK_DIAG_BY_FAMILY, 0)),
            std::pair(2UZ, true));
  // A single answer that cannot be read is one too: no other will come.
  EXPECT_EQ(sockets_and_end(message({}, SOCK_DIAG_BY_FAMILY, 0)), std::pair(1UZ, true));
}

TEST(SocketAnswer, HasNothingOfOtherRequests) {
  const Data others =
      joined({message(unix_content(33), SOCK_DIAG_BY_FAMILY, 0, kOtherNumber),
              message({}, NLMSG_ERROR, 0, kOtherNumber), message({}, NLMSG_DONE, 0, kOtherNumber)});
  const auto found = unix_sockets_in(joined({others, message(unix_content(kInode))}), kNumber);
  EXPECT_EQ(found.sockets, (UnixSockets{{kInode, {.state = kEstablished}}}));
  EXPECT_FALSE(found.is_last);
}

TEST(SocketAnswer, HasNothingOfMessagesOfAnotherType) {
  const auto found = unix_sockets_in(
      joined({message(unix_content(33), NLMSG_NOOP), message(unix_content(kInode))}), kNumber);
  EXPECT_EQ(found.sockets, (UnixSockets{{kInode, {.state = kEstablished}}}));
}

TEST(SocketAnswer, LeavesOutAMessageThatIsTooShort) {
  for (std::size_t size = 0; size < sizeof(unix_diag_msg); ++size) {
    Data content = unix_content(33);
    content.resize(size);
    const auto found =
        unix_sockets_in(joined({message(content), message(unix_content(kInode))}), kNumber);
    EXPECT_EQ(found.sockets, (UnixSockets{{kInode, {.state = kEstablished}}})) << size;
  }
}

TEST(SocketAnswer, EndsWithAMessageThatIsCutShort) {
  const Data first = message(unix_content(kPeer));
  const Data second = message(unix_content(kInode, peer()));
  for (std::size_t size = 1; size < second.size(); ++size) {
    // A vector of its own, so that a sanitizer sees a read behind its end.
    const Data cut = joined({first, {second.begin(), second.begin() + static_cast<long>(size)}});
    const auto found = unix_sockets_in(cut, kNumber);
    EXPECT_EQ(found.sockets.size(), 1U) << size;
    EXPECT_TRUE(found.is_last) << size;
  }
}

TEST(SocketAnswer, EndsWithALengthThatCannotBe) {
  for (const std::uint32_t length : {0U, 1U, 15U, ~0U}) {
    Data wrong = message(unix_content(kInode));
    const Data bytes = bytes_of(length);
    std::ranges::copy(bytes, wrong.begin());
    const auto found = unix_sockets_in(joined({message(unix_content(kPeer)), wrong}), kNumber);
    EXPECT_EQ(found.sockets.size(), 1U) << length;
    EXPECT_TRUE(found.is_last) << length;
  }
}

TEST(SocketAnswer, LeavesOutAnAttributeThatIsCutShort) {
  const Data whole = peer();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const Data cut(whole.begin(), whole.begin() + static_cast<long>(size));
    const auto found = unix_sockets_in(message(unix_content(kInode, cut)), kNumber);
    EXPECT_EQ(found.sockets, (UnixSockets{{kInode, {.state = kEstablished}}})) << size;
  }
  for (const int length : {0, 3, 7, 0xffff}) {
    Data wrong = whole;
    const Data bytes = bytes_of(static_cast<std::uint16_t>(length));
    std::ranges::copy(bytes, wrong.begin());
    const auto found = unix_sockets_in(message(unix_content(kInode, wrong)), kNumber);
    EXPECT_EQ(found.sockets, (UnixSockets{{kInode, {.state = kEstablished}}})) << length;
  }
}

}  // namespace
}  // namespace gpemu::skip
