// SPDX-License-Identifier: Apache-2.0
#include "gpemu/net/connection.hpp"

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace gpemu::net {
namespace {

using namespace std::chrono_literals;

/// On a clock that only the test moves.
class ConnectionTest : public testing::Test {
 protected:
  FileDescriptor call() { return connect_to(own_of(listener), wait(1h)).value(); }
  /// Returns both ends of a connection.
  std::array<FileDescriptor, 2> connect() {
    std::array<FileDescriptor, 2> ends;
    ends[0] = call();
    EXPECT_TRUE(send_message(ends[0], {}, wait(1h)));
    ends[1] = Greeter(0).next(listener, wait(1h)).value().socket;
    return ends;
  }
  Wait wait(Duration time) { return {.clock = clock, .until = clock.now() + time, .stop = stop}; }

  sim::VirtualClock clock;
  std::atomic<bool> stop = false;
  FileDescriptor listener = listen_at({.host = "127.0.0.1", .port = 0}).value();
};

TEST_F(ConnectionTest, WhatComesByteByByteIsNotWaitedForAnyLonger) {
  const auto ends = connect();
  const Wait patience = wait(10s);  // Before the clock moves: later, it would stand still too soon.
  std::jthread drips([&] {
    const std::byte one{1};
    // A byte in each second; the last ones after the time is over.
    for (int second = 0; second < 20; ++second) {
      if (!send_all(ends[0], std::span(&one, 1), wait(1h))) return;
      clock.wait_until(clock.now() + 1s);
    }
  });
  std::array<std::byte, 100> all{};
  const auto received = receive_all(ends[1], all, patience);
  ASSERT_FALSE(received);
  EXPECT_EQ(received.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(received.error().message.find("in time"), std::string::npos)
      << received.error().message;
}

TEST_F(ConnectionTest, WhoTakesNothingIsNotWaitedForAnyLonger) {
  const auto ends = connect();
  const std::vector<std::byte> much(64 << 20);  // More than the buffers of both sides hold.
  std::jthread moves([&](const std::stop_token& token) {
    while (!token.stop_requested()) {
      clock.wait_until(clock.now() + 1ms);
    }
  });
  const auto sent = send_all(ends[0], much, wait(10s));
  ASSERT_FALSE(sent);
  EXPECT_NE(sent.error().message.find("has not taken"), std::string::npos) << sent.error().message;
}

TEST_F(ConnectionTest, AStopEndsAWait) {
  const auto ends = connect();
  stop = true;
  std::byte one{1};
  const auto received = receive_all(ends[1], std::span(&one, 1), wait(1h));
  ASSERT_FALSE(received);
  EXPECT_EQ(received.error().code, ErrorCode::kInterrupted);
}

TEST_F(ConnectionTest, RefusesAMessageThatIsTooLargeBeforeItComes) {
  const auto ends = connect();
  const std::uint32_t size = 1001;
  ASSERT_TRUE(send_all(ends[0], std::as_bytes(std::span(&size, 1)), wait(1h)));
  const auto received = receive_message(ends[1], 1000, wait(1h));
  ASSERT_FALSE(received);
  EXPECT_EQ(received.error().code, ErrorCode::kCorruptData);
}

TEST_F(ConnectionTest, CallersThatSayAPartKeepNobodyWaiting) {
  Greeter greeter(100);
  std::vector<FileDescriptor> callers;
  // Nothing, a part of the size, the size, a part of the message, and too large a size.
  const std::array<std::uint32_t, 2> half = {8, 1};
  for (const std::size_t bytes : {0, 2, 4, 7}) {
    callers.push_back(call());
    ASSERT_TRUE(send_all(callers.back(), std::as_bytes(std::span(half)).first(bytes), wait(1h)));
  }
  callers.push_back(call());
  const std::uint32_t too_much = 101;
  ASSERT_TRUE(send_all(callers.back(), std::as_bytes(std::span(&too_much, 1)), wait(1h)));
  const FileDescriptor speaker = call();
  const std::array<std::byte, 3> message = {std::byte{1}, std::byte{2}, std::byte{3}};
  ASSERT_TRUE(send_message(speaker, message, wait(1h)));
  auto greeting = greeter.next(listener, wait(1h));
  ASSERT_TRUE(greeting && greeting->socket.valid());
  EXPECT_EQ(greeting->message, (std::vector(message.begin(), message.end())));
  // One of the others goes on.
  ASSERT_TRUE(send_all(callers[3], std::as_bytes(std::span(half)).subspan(7), wait(1h)));
  ASSERT_TRUE(send_all(callers[3], std::as_bytes(std::span(half)), wait(1h)));
  greeting = greeter.next(listener, wait(1h));
  ASSERT_TRUE(greeting && greeting->socket.valid());
  EXPECT_EQ(greeting->message.size(), 8);
}

}  // namespace
}  // namespace gpemu::net
