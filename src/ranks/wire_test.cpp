// SPDX-License-Identifier: Apache-2.0
#include "gpemu/ranks/wire.hpp"

#include <array>
#include <cstddef>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace gpemu::ranks {
namespace {

/// Hosts in a ring, whose connections are pairs of sockets.
std::vector<Wire> ring_of(std::size_t hosts) {
  std::vector<FileDescriptor> next(hosts), previous(hosts);
  for (std::size_t host = 0; host < hosts; ++host) {
    std::array<int, 2> pair{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()), 0);
    next[host] = FileDescriptor(pair[0]);
    previous[(host + 1) % hosts] = FileDescriptor(pair[1]);
  }
  std::vector<Wire> wires;
  for (std::size_t host = 0; host < hosts; ++host) {
    wires.emplace_back(std::move(next[host]), std::move(previous[host]));
  }
  return wires;
}

/// Lets all go on in turn, for as long as it takes at most.
bool are_through(std::vector<Wire>& wires) {
  for (int turn = 0; turn < 100000; ++turn) {
    bool are_idle = true;
    for (Wire& wire : wires) are_idle &= wire.go_on() == Wire::State::kIdle;
    if (are_idle) return true;
  }
  return false;
}

/// Returns how many bytes wait in a socket.
Bytes waiting_in(int socket) {
  std::vector<std::byte> bytes(1 << 20);
  const ssize_t got = ::recv(socket, bytes.data(), bytes.size(), MSG_PEEK | MSG_DONTWAIT);
  return got < 0 ? 0 : static_cast<Bytes>(got);
}

TEST(Wire, ARingMovesMoreThanSocketsHold) {
  for (const std::size_t hosts : {2, 3, 5}) {
    std::vector<Wire> wires = ring_of(hosts);
    for (Wire& wire : wires)
      wire.begin({.sent = 30'000'001, .own = 7'000'000, .received = 30'000'001});
    EXPECT_TRUE(are_through(wires)) << hosts;
    for (Wire& wire : wires) wire.begin({.sent = 1, .own = 1, .received = 1});
    EXPECT_TRUE(are_through(wires)) << hosts;
  }
}

TEST(Wire, AHostThatOnlyPassesOnWaitsForWhatComes) {
  std::vector<Wire> wires = ring_of(3);
  wires[1].begin({.sent = 1000, .own = 0, .received = 1000});
  EXPECT_EQ(wires[1].go_on(), Wire::State::kBusy);
  const auto [sends, receives] = wires[1].awaited();
  EXPECT_EQ(sends.fd, -1) << "there is nothing that it may send";
  EXPECT_NE(receives.fd, -1);
  wires[2].begin({.received = 1000});
  EXPECT_EQ(waiting_in(wires[2].awaited()[1].fd), 0U);
  wires[0].begin({.sent = 1000, .own = 1000});
  EXPECT_EQ(wires[0].go_on(), Wire::State::kIdle);
  EXPECT_EQ(wires[1].go_on(), Wire::State::kIdle);
  EXPECT_EQ(waiting_in(wires[2].awaited()[1].fd), 1000U);
  EXPECT_EQ(wires[2].go_on(), Wire::State::kIdle);
}

TEST(Wire, SendsItsOwnBeforeAnythingComes) {
  std::vector<Wire> wires = ring_of(2);
  wires[0].begin({.sent = 5000, .own = 2000, .received = 5000});
  wires[1].begin({.sent = 5000, .own = 2000, .received = 5000});
  EXPECT_EQ(wires[0].go_on(), Wire::State::kBusy);
  EXPECT_EQ(waiting_in(wires[1].awaited()[1].fd), 2000U);
  EXPECT_TRUE(are_through(wires));
}

TEST(Wire, OfNothingIsThroughAtOnce) {
  std::vector<Wire> wires = ring_of(2);
  wires[0].begin({});
  EXPECT_EQ(wires[0].go_on(), Wire::State::kIdle);
}

TEST(Wire, BreaksWhenAHostGoes) {
  std::vector<Wire> wires = ring_of(2);
  wires[0].begin({.sent = 10, .own = 10, .received = 10});
  EXPECT_EQ(wires[0].go_on(), Wire::State::kBusy);
  wires.pop_back();
  EXPECT_EQ(wires[0].go_on(), Wire::State::kBroken);
  wires[0].begin({});
  EXPECT_EQ(wires[0].go_on(), Wire::State::kBroken) << "it stays broken";
}

}  // namespace
}  // namespace gpemu::ranks
