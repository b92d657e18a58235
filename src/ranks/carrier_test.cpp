// SPDX-License-Identifier: Apache-2.0
// The carrier's thread moves bytes between pairs of sockets; nothing depends on how long that
// takes.
#include "gpemu/ranks/carrier.hpp"

#include <array>
#include <atomic>
#include <future>
#include <sys/socket.h>
#include <utility>

#include <gtest/gtest.h>

namespace gpemu::ranks {
namespace {

/// Two hosts, whose wires one carrier has.
class CarrierTest : public testing::Test {
 protected:
  CarrierTest() {
    std::array<int, 2> there{}, back{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, there.data()), 0);
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, back.data()), 0);
    first_ = carrier_.add(Wire(FileDescriptor(there[0]), FileDescriptor(back[1]))).value();
    second_ = carrier_.add(Wire(FileDescriptor(back[0]), FileDescriptor(there[1]))).value();
  }

  /// Carries a transfer; the future says whether it is through.
  std::future<bool> carry(Carrier::Number wire, const Transfer& transfer, TimePoint start = {}) {
    auto promise = std::make_shared<std::promise<bool>>();
    carrier_.carry(wire, start, transfer,
                   [promise](bool is_through) { promise->set_value(is_through); });
    return promise->get_future();
  }

  sim::RealClock clock_;
  Carrier carrier_{clock_};
  Carrier::Number first_ = 0, second_ = 0;
};

constexpr Transfer kBoth{.sent = 3'000'000, .own = 1'500'000, .received = 3'000'000};

TEST_F(CarrierTest, CarriesTransfersOneAfterTheOther) {
  auto one = carry(first_, kBoth), two = carry(first_, kBoth);
  auto other = carry(second_, kBoth), last = carry(second_, kBoth);
  for (auto* const transfer : {&one, &two, &other, &last}) EXPECT_TRUE(transfer->get());
}

TEST_F(CarrierTest, BeginsATransferAtItsTime) {
  const TimePoint start = clock_.now() + std::chrono::milliseconds(20);
  EXPECT_TRUE(carry(first_, {.sent = 1, .own = 1}, start).get());
  EXPECT_GE(clock_.now(), start);
}

TEST_F(CarrierTest, TellsThatAConnectionHasEnded) {
  auto one = carry(first_, kBoth);
  carrier_.remove(second_);
  EXPECT_FALSE(one.get());
  EXPECT_FALSE(carry(first_, kBoth).get());
}

TEST_F(CarrierTest, ForgetsTheTransfersOfARemovedWire) {
  std::atomic<int> calls{0};
  carrier_.carry(first_, {}, kBoth, [&calls](bool) { ++calls; });
  carrier_.remove(first_);
  carrier_.remove(first_);
  carrier_.carry(first_, {}, {}, [&calls](bool) { ++calls; });
  // The thread has looked at everything before this is through or fails.
  static_cast<void>(carry(second_, {}).get());
  EXPECT_EQ(calls, 0);
}

}  // namespace
}  // namespace gpemu::ranks
