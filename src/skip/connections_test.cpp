// SPDX-License-Identifier: Apache-2.0
#include "connections.hpp"

#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "test_process_view.hpp"

namespace gpemu::skip {
namespace {

/// Two processes of a run, and one that is not.
constexpr pid_t kWaiter = 10, kFellow = 20, kStranger = 30;

constexpr std::string_view kReadEnd = "pos:\t0\nflags:\t02000000\n";
constexpr std::string_view kWriteEnd = "pos:\t0\nflags:\t02000001\n";
constexpr std::string_view kIdleRing =
    "pos:\t0\nSqTail:\t5\nCachedSqHead:\t5\nCqHead:\t5\nCachedCqTail:\t5\nSqThread:\t-1\n"
    "PollList:\nCqOverflowList:\n";
constexpr std::string_view kBusyRing =
    "pos:\t0\nSqTail:\t5\nCachedSqHead:\t5\nCqHead:\t4\nCachedCqTail:\t4\nSqThread:\t-1\n"
    "PollList:\nCqOverflowList:\n";

class ConnectionsTest : public testing::Test {
 protected:
  ConnectionsTest() {
    view_.texts["/proc/net/snmp"] =
        "Ip: 1\nTcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens\nTcp: 1 200 120000 -1 5375\n";
    view_.texts["/proc/sys/fs/aio-nr"] = "0\n";
  }

  /// Returns whether a descriptor of kWaiter leads inside, as a command sees it that begins now.
  bool leads_inside(int descriptor, Direction direction = Direction::kRead) {
    Connections connections(view_);
    connections.set_inside({kWaiter, kFellow});
    return leads_inside(connections, descriptor, direction);
  }
  static bool leads_inside(Connections& connections, int descriptor, Direction direction) {
    Connections::Carriers carriers;
    if (!connections.is_inside(kWaiter, {descriptor, direction}, carriers)) return false;
    connections.look_again(carriers);
    return connections.are_quiet(carriers);
  }

  /// Adds a TCP connection between socket 7, which kWaiter has as descriptor 3, and socket 8.
  void connect_tcp() {
    view_.tcp = {tcp_end(7, 40001, 29500), tcp_end(8, 29500, 40001)};
    view_.has_open(kWaiter, 3, "socket:[7]");
  }
  static TcpRecord tcp_end(std::uint64_t inode, std::uint16_t own, std::uint16_t other) {
    TcpRecord record{.name = {.family = AF_INET},
                     .state = socket_state::kEstablished,
                     .inode = inode,
                     .counts = TcpRecord::Counts{.sent = 5, .not_sent = 0, .received = 5}};
    record.name.id.idiag_sport = own;
    record.name.id.idiag_dport = other;
    record.name.id.idiag_src[0] = record.name.id.idiag_dst[0] = htonl(INADDR_LOOPBACK);
    record.name.id.idiag_cookie[0] = static_cast<std::uint32_t>(inode);
    return record;
  }

  TestProcessView view_;
};

TEST_F(ConnectionsTest, APipeLeadsInsideIfAProcessOfTheRunHoldsTheOtherEnd) {
  view_.has_open(kWaiter, 3, "pipe:[7]", kReadEnd);
  view_.has_open(kWaiter, 4, "pipe:[8]", kWriteEnd);
  view_.has_open(kStranger, 3, "pipe:[7]", kWriteEnd);
  view_.has_open(kStranger, 4, "pipe:[8]", kReadEnd);
  view_.has_open(kFellow, 3, "pipe:[7]", kReadEnd);
  view_.has_open(kFellow, 4, "pipe:[8]", kWriteEnd);
  EXPECT_FALSE(leads_inside(3));
  EXPECT_FALSE(leads_inside(4, Direction::kWrite));
  view_.has_open(kFellow, 5, "pipe:[7]", kWriteEnd);
  view_.has_open(kFellow, 6, "pipe:[8]", kReadEnd);
  EXPECT_TRUE(leads_inside(3));
  EXPECT_TRUE(leads_inside(4, Direction::kWrite));
}

TEST_F(ConnectionsTest, AUnixSocketLeadsInsideIfAProcessOfTheRunHoldsThePeer) {
  view_.has_open(kWaiter, 3, "socket:[7]");
  view_.unix_by_inode = {{7, {socket_state::kEstablished, 8}},
                         {8, {socket_state::kEstablished, 7}}};
  view_.has_open(kStranger, 3, "socket:[8]");
  EXPECT_FALSE(leads_inside(3));
  view_.has_open(kFellow, 3, "socket:[8]");
  EXPECT_TRUE(leads_inside(3));
}

TEST_F(ConnectionsTest, AUnixSocketLeadsInsideIfItListens) {
  view_.has_open(kWaiter, 3, "socket:[7]");
  view_.unix_by_inode = {{7, {socket_state::kEstablished, 0}}};
  EXPECT_FALSE(leads_inside(3));
  view_.unix_by_inode = {{7, {socket_state::kListening, 0}}};
  EXPECT_TRUE(leads_inside(3));
}

TEST_F(ConnectionsTest, ATcpSocketLeadsInsideIfAProcessOfTheRunHoldsThePeer) {
  connect_tcp();
  view_.has_open(kStranger, 3, "socket:[8]");
  EXPECT_FALSE(leads_inside(3));
  view_.has_open(kFellow, 3, "socket:[8]");
  EXPECT_TRUE(leads_inside(3));
  view_.tcp.pop_back();
  EXPECT_FALSE(leads_inside(3)) << "the peer is on another host";
}

TEST_F(ConnectionsTest, ATcpSocketLeadsInsideOnceAllBytesOfThePeerHaveArrived) {
  connect_tcp();
  view_.has_open(kFellow, 3, "socket:[8]");
  Connections connections(view_);
  connections.set_inside({kWaiter, kFellow});
  const auto leads = [&] { return leads_inside(connections, 3, Direction::kRead); };
  EXPECT_TRUE(leads());
  view_.tcp[1].counts = TcpRecord::Counts{.sent = 6, .not_sent = 0, .received = 5};
  EXPECT_FALSE(leads());
  view_.tcp[0].counts = TcpRecord::Counts{.sent = 5, .not_sent = 0, .received = 6};
  EXPECT_TRUE(leads());
}

TEST_F(ConnectionsTest, ATcpSocketHasRoomToSendOnceAllBytesAreAcknowledged) {
  connect_tcp();
  view_.has_open(kFellow, 3, "socket:[8]");
  view_.tcp[0].unacknowledged = 1;
  EXPECT_TRUE(leads_inside(3));
  EXPECT_FALSE(leads_inside(3, Direction::kWrite));
  EXPECT_FALSE(leads_inside(3, Direction::kBoth));
  view_.tcp[0].unacknowledged = 0;
  EXPECT_TRUE(leads_inside(3, Direction::kWrite));
}

TEST_F(ConnectionsTest, ATcpSocketLeadsInsideIfItListensAndNoConnectionIsBeingEstablished) {
  view_.tcp = {tcp_end(7, 29500, 0)};
  view_.tcp[0].state = socket_state::kListening;
  view_.has_open(kWaiter, 3, "socket:[7]");
  EXPECT_TRUE(leads_inside(3));
  view_.tcp.push_back(tcp_end(0, 29500, 40001));
  view_.tcp[1].state = socket_state::kSynReceived;
  EXPECT_FALSE(leads_inside(3));
}

TEST_F(ConnectionsTest, AnEventfdLeadsInsideIfItsProcessHasNoAioContext) {
  view_.has_open(kWaiter, 3, "anon_inode:[eventfd]", "eventfd-id: 17\n");
  view_.texts["/proc/10/maps"] = "7f00-7f10 rw-s 00000000 00:0d 12 /[aio] (deleted)\n";
  EXPECT_TRUE(leads_inside(3)) << "no process of the host has reserved events";
  view_.texts["/proc/sys/fs/aio-nr"] = "128\n";
  EXPECT_FALSE(leads_inside(3));
  view_.texts["/proc/10/maps"] = "7f00-7f10 rw-p 00000000 00:00 0\n";
  EXPECT_TRUE(leads_inside(3));
}

TEST_F(ConnectionsTest, AnEventfdLeadsInsideIfAllRequestsToRingsAreComplete) {
  view_.has_open(kWaiter, 3, "anon_inode:[eventfd]", "eventfd-id: 17\n");
  view_.has_open(kWaiter, 4, "anon_inode:[io_uring]", kIdleRing);
  view_.has_open(kFellow, 4, "anon_inode:[io_uring]", kBusyRing);
  EXPECT_TRUE(leads_inside(3));
  view_.has_open(kWaiter, 5, "anon_inode:[io_uring]", kBusyRing);
  EXPECT_FALSE(leads_inside(3));
}

TEST_F(ConnectionsTest, ATimerfdLeadsInsideIfItIsNotRunning) {
  view_.has_open(kWaiter, 3, "anon_inode:[timerfd]", "it_value: (0, 0)\nit_interval: (0, 0)\n");
  EXPECT_TRUE(leads_inside(3));
  view_.has_open(kWaiter, 3, "anon_inode:[timerfd]", "it_value: (3599, 9)\nit_interval: (0, 0)\n");
  EXPECT_FALSE(leads_inside(3));
}

TEST_F(ConnectionsTest, ASignalfdLeadsInside) {
  view_.has_open(kWaiter, 3, "anon_inode:[signalfd]");
  EXPECT_TRUE(leads_inside(3));
}

TEST_F(ConnectionsTest, APidfdLeadsInsideIfItIsOfAProcessOfTheRun) {
  for (const pid_t process : {kFellow, kStranger, -1}) {
    view_.has_open(kWaiter, 3, "anon_inode:[pidfd]", fmt::format("pos:\t0\nPid:\t{}\n", process));
    EXPECT_EQ(leads_inside(3), process == kFellow) << process;
  }
}

TEST_F(ConnectionsTest, AnEpollSetLeadsInsideIfAllItsDescriptorsDo) {
  const std::string with_signals = "pos:\t0\ntfd: 4 events: 19 data: 4 pos:0 ino:1 sdev:f\n";
  view_.has_open(kWaiter, 3, "anon_inode:[eventpoll]", with_signals);
  view_.has_open(kWaiter, 4, "anon_inode:[signalfd]");
  EXPECT_TRUE(leads_inside(3));
  view_.has_open(kWaiter, 5, "/dev/pts/0");
  view_.has_open(kWaiter, 3, "anon_inode:[eventpoll]",
                 with_signals + "tfd: 5 events: 19 data: 5 pos:0 ino:2 sdev:f\n");
  EXPECT_FALSE(leads_inside(3));
  view_.has_open(kWaiter, 3, "anon_inode:[eventpoll]", "");
  EXPECT_FALSE(leads_inside(3)) << "its files are not known";
}

TEST_F(ConnectionsTest, AnEpollSetWaitsForWhatWasPutIntoIt) {
  connect_tcp();
  view_.has_open(kFellow, 3, "socket:[8]");
  view_.tcp[0].unacknowledged = 1;
  const auto put = [this](std::uint32_t events, std::uint64_t inode) {
    view_.has_open(
        kWaiter, 4, "anon_inode:[eventpoll]",
        fmt::format("pos:\t0\ntfd: 3 events: {:x} data: 3 pos:0 ino:{:x} sdev:f\n", events, inode));
  };
  put(EPOLLIN, 7);
  EXPECT_TRUE(leads_inside(4));
  put(EPOLLIN | EPOLLOUT, 7);
  EXPECT_FALSE(leads_inside(4)) << "an acknowledgement may arrive";
  put(EPOLLIN, 99);
  EXPECT_FALSE(leads_inside(4)) << "the descriptor now belongs to another file";
}

TEST_F(ConnectionsTest, AnEpollSetThatContainsItselfIsNotInside) {
  view_.has_open(kWaiter, 3, "anon_inode:[eventpoll]",
                 "pos:\t0\ntfd: 3 events: 1 data: 3 pos:0 ino:1 sdev:f\n");
  EXPECT_FALSE(leads_inside(3));
}

TEST_F(ConnectionsTest, WhatTheCommandHadOpenLeadsOutside) {
  connect_tcp();
  view_.has_open(kFellow, 3, "socket:[8]");
  view_.has_open(kWaiter, 4, "pipe:[9]", kReadEnd);
  view_.has_open(kFellow, 4, "pipe:[9]", kWriteEnd);
  view_.has_open(kWaiter, 5, "anon_inode:[signalfd]");
  view_.has_open(kWaiter, 6, "anon_inode:[eventfd]", "eventfd-id: 17\n");
  view_.has_open(kWaiter, 7, "anon_inode:[eventfd]", "eventfd-id: 18\n");
  const std::set<int> all = {3, 4, 5, 6, 7};
  for (const int descriptor : all) EXPECT_TRUE(leads_inside(descriptor)) << descriptor;
  for (const int descriptor : {3, 4, 5, 6}) {
    view_.has_open(::getpid(), descriptor,
                   view_.link_text(fmt::format("/proc/{}/fd/{}", kWaiter, descriptor)),
                   view_.text_of(fmt::format("/proc/{}/fdinfo/{}", kWaiter, descriptor)));
  }
  for (const int descriptor : all) {
    EXPECT_EQ(leads_inside(descriptor), descriptor == 7) << descriptor;
  }
}

TEST_F(ConnectionsTest, AllOtherFilesLeadOutside) {
  for (const std::string_view link :
       {"/dev/pts/0", "/tmp/file", "/tmp/fifo", "/dev/fuse", "anon_inode:inotify",
        "anon_inode:[userfaultfd]", "socket:[77]", "socket:[", ""}) {
    view_.has_open(kWaiter, 3, link);
    view_.has_open(kFellow, 3, link);
    EXPECT_FALSE(leads_inside(3)) << link;
  }
}

}  // namespace
}  // namespace gpemu::skip
