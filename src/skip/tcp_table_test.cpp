// SPDX-License-Identifier: Apache-2.0
#include "tcp_table.hpp"

#include <netinet/in.h>
#include <sys/socket.h>

#include <gtest/gtest.h>

namespace gpemu::skip {
namespace {

using socket_state::kCloseWait, socket_state::kEstablished, socket_state::kFinWait2,
    socket_state::kListening, socket_state::kSynReceived;
using Inodes = std::vector<std::uint64_t>;

constexpr std::uint64_t kOpened = 5375;
constexpr std::uint16_t kClientPort = 40001, kServerPort = 29500;
constexpr std::uint64_t kClient = 11, kServer = 22, kListener = 33;
constexpr int kFinWait1 = 4, kLastAck = 9;

/// A socket on the loopback address; its cookie is its inode, so that names are told apart.
TcpRecord record_of(std::uint64_t inode, std::uint16_t own_port, std::uint16_t other_port,
                    int state) {
  TcpRecord record{.name = {.family = AF_INET}, .state = state, .inode = inode};
  record.name.id.idiag_sport = own_port;
  record.name.id.idiag_dport = other_port;
  record.name.id.idiag_src[0] = htonl(INADDR_LOOPBACK);
  record.name.id.idiag_dst[0] = htonl(INADDR_LOOPBACK);
  record.name.id.idiag_cookie[0] = static_cast<std::uint32_t>(inode);
  return record;
}

TcpRecord client(int state, TcpRecord::Counts counts) {
  TcpRecord record = record_of(kClient, kClientPort, kServerPort, state);
  record.counts = counts;
  return record;
}

TcpRecord server(int state, TcpRecord::Counts counts) {
  TcpRecord record = record_of(kServer, kServerPort, kClientPort, state);
  record.counts = counts;
  return record;
}

TcpRecord listener() {
  return record_of(kListener, kServerPort, 0, kListening);
}

/// The same with the address in IPv6's form: ::ffff:127.0.0.1.
TcpRecord mapped(TcpRecord record) {
  record.name.family = AF_INET6;
  for (auto* const words : {record.name.id.idiag_src, record.name.id.idiag_dst}) {
    words[3] = words[0];
    words[2] = htonl(0xffff);
    words[0] = 0;
  }
  return record;
}

TcpTable table_of(const std::vector<TcpRecord>& records) {
  TcpTable table;
  table.restart(kOpened);
  for (const TcpRecord& record : records) table.add(record);
  return table;
}

std::uint64_t peer_in(const TcpTable& table, std::uint64_t inode) {
  const TcpTable::Socket* const peer = table.peer_of(*table.find(inode));
  return peer == nullptr ? 0 : peer->record.inode;
}

/// Returns the cookies of sockets that must be asked for again.
std::optional<Inodes> asked(TcpTable& table, const std::set<std::uint64_t>& sockets,
                            std::optional<std::uint64_t> opened = kOpened) {
  const auto names = table.ask_again(sockets, opened);
  if (!names) return std::nullopt;
  Inodes cookies;
  for (const TcpName& name : *names) cookies.push_back(name.id.idiag_cookie[0]);
  return cookies;
}

TEST(TcpTable, PeersHaveEachOthersAddresses) {
  const TcpTable table = table_of({client(kEstablished, {}), server(kEstablished, {}), listener(),
                                   record_of(44, 40002, kServerPort, kEstablished)});
  EXPECT_EQ(peer_in(table, kClient), kServer);
  EXPECT_EQ(peer_in(table, kServer), kClient);
  EXPECT_EQ(peer_in(table, 44), 0U) << "its peer is on another host, or not known";
  EXPECT_EQ(table.find(4711), nullptr);
}

TEST(TcpTable, PeersMayDifferInFamily) {
  const TcpTable table =
      table_of({client(kEstablished, {}), mapped(server(kEstablished, {})),
                mapped(record_of(44, kClientPort, kServerPort + 1, kEstablished))});
  EXPECT_EQ(peer_in(table, kClient), kServer);
  EXPECT_EQ(peer_in(table, kServer), kClient);
}

TEST(TcpTable, SocketsOfOtherAddressesAreNoPeers) {
  TcpRecord other = server(kEstablished, {});
  other.name.id.idiag_src[0] = htonl(INADDR_LOOPBACK + 1);
  EXPECT_EQ(peer_in(table_of({client(kEstablished, {}), other}), kClient), 0U);
}

TEST(TcpTable, KeepsTheLatestRecordOfASocket) {
  TcpTable table = table_of({client(kEstablished, {}), server(kEstablished, {})});
  table.add(server(kFinWait2, {.sent = 7}));
  EXPECT_EQ(table.find(kServer)->record.state, kFinWait2);
  EXPECT_EQ(table.find(kServer)->record.counts.value_or(TcpRecord::Counts{}).sent, 7U);
  EXPECT_EQ(peer_in(table, kClient), kServer);
}

TEST(TcpTable, IgnoresSocketsToWhichNoDescriptorLeads) {
  const TcpTable table =
      table_of({record_of(0, kServerPort, kClientPort, kEstablished), client(kEstablished, {})});
  EXPECT_EQ(table.find(0), nullptr);
  EXPECT_EQ(peer_in(table, kClient), 0U);
}

TEST(TcpTable, IsQuietOnceAllBytesOfThePeerHaveArrived) {
  const auto is_quiet = [](TcpRecord::Counts own, TcpRecord::Counts peers) {
    return table_of({client(kEstablished, own), server(kEstablished, peers)}).is_quiet(kClient);
  };
  EXPECT_TRUE(is_quiet({.received = 100}, {.sent = 100}));
  EXPECT_FALSE(is_quiet({.received = 99}, {.sent = 100})) << "a byte is in transit";
  EXPECT_FALSE(is_quiet({.received = 100}, {.sent = 100, .not_sent = 1})) << "one is to be sent";
  // Bytes in the other direction do not wake it.
  EXPECT_TRUE(is_quiet({.sent = 5, .not_sent = 3, .received = 100}, {.sent = 100, .received = 4}));
}

TEST(TcpTable, IsNotQuietIfCountsAreNotKnown) {
  for (const bool own : {false, true}) {
    TcpRecord one = client(kEstablished, {}), other = server(kEstablished, {});
    (own ? one : other).counts.reset();
    EXPECT_FALSE(table_of({one, other}).is_quiet(kClient)) << own;
  }
}

TEST(TcpTable, IsNotQuietWithoutItsPeer) {
  EXPECT_FALSE(table_of({client(kEstablished, {})}).is_quiet(kClient));
  EXPECT_FALSE(table_of({client(kEstablished, {})}).is_quiet(kServer)) << "not known itself";
}

TEST(TcpTable, IsQuietInTheStatesInWhichNothingIsUnderWay) {
  for (const int own : {kEstablished, kFinWait1, kFinWait2, kLastAck}) {
    for (const int peers : {kEstablished, kFinWait1, kFinWait2, kLastAck, kCloseWait}) {
      const bool expected = (own == kEstablished && peers == kEstablished) ||
                            (own == kFinWait2 && peers == kCloseWait);
      EXPECT_EQ(table_of({client(own, {}), server(peers, {})}).is_quiet(kClient), expected)
          << own << ' ' << peers;
    }
  }
}

TEST(TcpTable, AHalfClosedConnectionIsQuietOnceItsBytesHaveArrived) {
  EXPECT_TRUE(table_of({client(kFinWait2, {.received = 9}), server(kCloseWait, {.sent = 9})})
                  .is_quiet(kClient));
  EXPECT_FALSE(table_of({client(kFinWait2, {.received = 8}), server(kCloseWait, {.sent = 9})})
                   .is_quiet(kClient));
}

TEST(TcpTable, NothingMoreComesAfterThePeersEnd) {
  EXPECT_TRUE(table_of({client(kCloseWait, {.received = 1})}).is_quiet(kClient));
}

TEST(TcpTable, AListenerIsQuietUnlessAConnectionToItsPortIsBeingMade) {
  const TcpRecord to_other = record_of(0, kServerPort + 1, kClientPort, kSynReceived);
  const TcpRecord to_it = record_of(0, kServerPort, kClientPort, kSynReceived);
  EXPECT_TRUE(table_of({listener()}).is_quiet(kListener));
  EXPECT_TRUE(table_of({listener(), to_other}).is_quiet(kListener));
  EXPECT_FALSE(table_of({listener(), to_it}).is_quiet(kListener));
}

TEST(TcpTable, AsksForBothEndsOnce) {
  TcpTable table = table_of({client(kEstablished, {}), server(kEstablished, {}), listener(),
                             record_of(44, 40002, kServerPort, kEstablished)});
  EXPECT_EQ(asked(table, {kClient}), (Inodes{kClient, kServer}));
  EXPECT_EQ(asked(table, {kServer, kClient}), (Inodes{kClient, kServer}));
  EXPECT_EQ(asked(table, {44}), Inodes{44}) << "without a peer";
  EXPECT_EQ(asked(table, {kListener}), Inodes{}) << "no connection is being made";
}

TEST(TcpTable, ASocketThatDoesNotAnswerIsNotQuiet) {
  TcpTable table = table_of({client(kEstablished, {}), server(kEstablished, {})});
  ASSERT_TRUE(table.is_quiet(kClient));
  ASSERT_TRUE(table.ask_again({kClient}, kOpened));
  table.add(client(kEstablished, {}));
  EXPECT_FALSE(table.is_quiet(kClient));
  table.add(server(kEstablished, {}));
  EXPECT_TRUE(table.is_quiet(kClient));
}

TEST(TcpTable, AsksForAllIfASocketIsNotKnown) {
  TcpTable table = table_of({client(kEstablished, {}), server(kEstablished, {})});
  EXPECT_EQ(asked(table, {kClient, kListener}), std::nullopt);
}

TEST(TcpTable, AsksForAllOnceConnectionsWereOpened) {
  TcpTable table = table_of({client(kEstablished, {}), server(kEstablished, {})});
  EXPECT_EQ(asked(table, {kClient}, kOpened + 1), std::nullopt);
  EXPECT_EQ(asked(table, {kClient}, std::nullopt), std::nullopt);
  table.restart(std::nullopt);
  EXPECT_EQ(asked(table, {}, std::nullopt), std::nullopt) << "it was never known";
}

TEST(TcpTable, AsksForAllWhileAListenerMayGetAConnection) {
  TcpTable table = table_of({client(kEstablished, {}), server(kEstablished, {}), listener(),
                             record_of(0, kServerPort, 40002, kSynReceived)});
  EXPECT_EQ(asked(table, {kListener}), std::nullopt);
  EXPECT_EQ(asked(table, {kClient}), (Inodes{kClient, kServer}));
}

TEST(TcpTable, ForgetsAllWhenItIsRestarted) {
  TcpTable table = table_of({client(kEstablished, {}), server(kEstablished, {}), listener(),
                             record_of(0, kServerPort, 40002, kSynReceived)});
  table.restart(kOpened + 1);
  EXPECT_EQ(table.find(kClient), nullptr);
  table.add(listener());
  table.add(server(kEstablished, {}));
  EXPECT_TRUE(table.is_quiet(kListener));
  EXPECT_EQ(peer_in(table, kServer), 0U);
  EXPECT_EQ(asked(table, {kServer}, kOpened + 1), Inodes{kServer});
}

}  // namespace
}  // namespace gpemu::skip
