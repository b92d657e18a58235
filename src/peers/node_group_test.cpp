// SPDX-License-Identifier: Apache-2.0
#include "gpemu/peers/node_group.hpp"

#include <array>
#include <functional>
#include <latch>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/base/packing.hpp"
#include "gpemu/net/connection.hpp"

#include "sample_server.hpp"

namespace gpemu::peers {
namespace {

using namespace std::chrono_literals;

const std::atomic<bool> kRuns = false;

/// Returns an address of this machine at which nobody listens.
std::string free_address() {
  const auto listener = net::listen_at({.host = "127.0.0.1", .port = 0});
  EXPECT_TRUE(listener);
  return net::own_of(*listener).str();
}

NodeGroup::Cached nothing_cached() {
  return {.all = [] { return std::vector<pipeline::FileId>{}; },
          .find = [](pipeline::FileId) { return data::SampleBytes{}; }};
}

TEST(NodeGroupTest, ReadsWhichNodeThisIs) {
  const auto place = parse_group_place("1/3@10.77.0.1:29500");
  ASSERT_TRUE(place);
  EXPECT_EQ(place->rank, 1);
  EXPECT_EQ(place->nodes, 3);
  EXPECT_EQ(place->address, "10.77.0.1:29500");
  for (const char* wrong : {"", "1", "1/2", "1@a:1", "2/2@a:1", "-1/2@a:1", "0/2@a", "0/2@a:0",
                            "0/2@a:70000", "0/2@:1", "0/65@a:1", "0x/2@a:1", "0/2@a:1x"}) {
    EXPECT_FALSE(parse_group_place(wrong)) << wrong;
  }
}

TEST(NodeGroupTest, ReadsNumbersAndTexts) {
  Packer packer;
  const std::array<std::uint32_t, 2> numbers = {3, 4};
  packer.add(std::uint16_t{7}).add_text("abc").add_all(std::span<const std::uint32_t>(numbers));
  for (std::size_t size = 0; size <= packer.bytes().size(); ++size) {
    Unpacker unpacker(std::span(packer.bytes()).first(size));
    std::uint16_t seven = 0;
    std::string text;
    std::vector<std::uint32_t> read;
    unpacker.take(seven);
    unpacker.take_text(text);
    unpacker.take_all(read);
    EXPECT_EQ(unpacker.done(), size == packer.bytes().size()) << size;
  }
}

TEST(NodeGroupTest, NodesJoinAgreeAndSendEachOtherSamples) {
  sim::RealClock clock;
  const std::string address = free_address();
  std::array<int, 3> steps{};
  std::array<std::uint64_t, 3> fetched{};
  const auto node = [&](int rank) {
    NodeGroup::Cached cached = nothing_cached();
    cached.find = [rank](pipeline::FileId sample) {
      auto memory = std::make_unique<std::byte[]>(100'000);
      memory[99'999] = static_cast<std::byte>(10 * rank);
      return sample == 1 ? data::SampleBytes{.memory = std::move(memory), .size = 100'000}
                         : data::SampleBytes{};
    };
    auto group =
        NodeGroup::join({.place = {.rank = rank, .nodes = 3, .address = address}, .patience = 20s},
                        cached, clock, kRuns);
    ASSERT_TRUE(group) << group.error().message;
    const auto self = static_cast<std::size_t>(rank);
    for (int step = 0; step < 20; ++step) {
      const auto outcome = (*group)->agree({static_cast<pipeline::FileId>(100 * rank + step)});
      ASSERT_TRUE(outcome) << outcome.error().message;
      if (outcome->done && outcome->files.size() == 3) ++steps[self];
    }
    const int next = (rank + 1) % 3;
    for (int i = 0; i < 2; ++i) {
      const auto sample = (*group)->fetch(next, 1, 100'000);
      ASSERT_TRUE(sample) << sample.error().message;
      fetched[self] += static_cast<std::uint64_t>(sample->memory[99'999]);
      EXPECT_FALSE((*group)->fetch(next, 2, 100'000)->memory);
    }
    EXPECT_FALSE((*group)->fetch(next, 1, 99'999));  // It is larger than said.
    (*group)->finish();
  };
  {
    std::vector<std::jthread> threads;
    for (int rank = 2; rank >= 0; --rank) threads.emplace_back(node, rank);
  }
  EXPECT_EQ(steps, (std::array{20, 20, 20}));
  EXPECT_EQ(fetched, (std::array<std::uint64_t, 3>{20, 40, 0}));
}

TEST(NodeGroupTest, NodesWithOtherSettingsAreRefused) {
  sim::RealClock clock;
  const std::string address = free_address();
  std::array<std::string, 2> messages;
  const auto node = [&](int rank) {
    const auto group = NodeGroup::join({.place = {.rank = rank, .nodes = 2, .address = address},
                                        .settings = rank == 0 ? "--seed 1" : "--seed 2",
                                        .patience = 20s},
                                       nothing_cached(), clock, kRuns);
    ASSERT_FALSE(group);
    EXPECT_EQ(group.error().code, ErrorCode::kInvalidArgument);
    messages[static_cast<std::size_t>(rank)] = group.error().message;
  };
  {
    const std::jthread first(node, 0);
    const std::jthread second(node, 1);
  }
  EXPECT_NE(messages[0].find("--seed 2"), std::string::npos) << messages[0];
  EXPECT_EQ(messages[0], messages[1]);
}

TEST(NodeGroupTest, ConnectionsThatSayNothingKeepNobodyWaiting) {
  sim::RealClock clock;
  const std::string address = free_address();
  std::array<bool, 2> joined{};
  const auto node = [&](int rank) {
    joined[static_cast<std::size_t>(rank)] =
        NodeGroup::join({.place = {.rank = rank, .nodes = 2, .address = address}, .patience = 20s},
                        nothing_cached(), clock, kRuns)
            .has_value();
  };
  {
    const std::jthread first(node, 0);
    // Each would take the whole patience.
    std::vector<FileDescriptor> silent;
    for (int i = 0; i < 3; ++i) {
      auto socket = net::connect_to(*net::parse_host_port(address),
                                    {.clock = clock, .until = clock.now() + 20s, .stop = kRuns});
      ASSERT_TRUE(socket) << socket.error().message;
      silent.push_back(std::move(*socket));
    }
    node(1);
  }
  EXPECT_EQ(joined, (std::array{true, true}));
}

/// A member of a group that says what no node says.
class HostileMember {
 public:
  /// Joins as the last of three nodes, at most at the end of the patience.
  HostileMember(const std::string& address, sim::Clock& clock)
      : clock_(clock), listener_(net::listen_at({.host = "127.0.0.1", .port = 0}).value()) {
    const sim::Wait wait = wait_for(1h);
    sockets_.push_back(net::connect_to(*net::parse_host_port(address), wait).value());
    const Hello join{.purpose = Purpose::kJoin,
                     .rank = 2,
                     .nodes = 3,
                     .port = net::own_of(listener_).port,
                     .settings = {}};
    EXPECT_TRUE(send_hello(sockets_[0], join, wait));
    const auto welcome = net::receive_message(sockets_[0], kMiB, wait).value();
    Unpacker unpacker(welcome);
    std::string refusal;
    std::uint64_t group = 0;
    std::uint32_t count = 0;
    std::array<net::HostPort, 3> addresses;
    unpacker.take_text(refusal);
    unpacker.take(group);
    unpacker.take(count);
    for (net::HostPort& place : addresses) {
      unpacker.take_text(place.host);
      unpacker.take(place.port);
    }
    EXPECT_TRUE(unpacker.done());
    sockets_.push_back(net::connect_to(addresses[1], wait).value());
    const Hello control{
        .purpose = Purpose::kControl, .group = group, .rank = 2, .nodes = 3, .settings = {}};
    EXPECT_TRUE(send_hello(sockets_[1], control, wait));
  }

  [[nodiscard]] sim::Wait wait_for(Duration time) const {
    return {.clock = clock_, .until = clock_.now() + time, .stop = kRuns};
  }
  /// Tells both nodes; false if one of them does not listen any more.
  [[nodiscard]] bool say(std::span<const std::byte> message) const {
    return net::send_message(sockets_[0], message, wait_for(1h)).has_value() &&
           net::send_message(sockets_[1], message, wait_for(1h)).has_value();
  }
  /// Sends the first half of the sample that a node asks for.
  [[nodiscard]] FileDescriptor send_half_a_sample() const {
    net::Greeter greeter(kMostHello);
    auto greeting = greeter.next(listener_, wait_for(1h));
    std::array<std::byte, sizeof(pipeline::FileId)> request{};
    EXPECT_TRUE(net::receive_all(greeting->socket, request, wait_for(1h)));
    const std::uint64_t size = 100;
    const std::array<std::byte, 50> half{};
    EXPECT_TRUE(net::send_all(greeting->socket, std::as_bytes(std::span(&size, 1)), wait_for(1h)));
    EXPECT_TRUE(net::send_all(greeting->socket, half, wait_for(1h)));
    return std::move(greeting->socket);
  }

 private:
  sim::Clock& clock_;
  FileDescriptor listener_;
  std::vector<FileDescriptor> sockets_;
};

/// Two nodes and a hostile one, on a clock that a thread moves.
class HostileMemberTest : public testing::Test {
 protected:
  static constexpr std::byte kFinished{3};

  /// Has both nodes join, and then agree on a step while `act` goes on. Expects that the nodes go
  /// on by themselves.
  void expect_to_go_on_without(const std::function<void(const HostileMember&)>& act) {
    std::array<std::vector<int>, 2> members;
    std::latch joined(2), agreed(2);
    const std::string address = free_address();
    const auto node = [&](int rank) {
      const auto group =
          NodeGroup::join({.place = {.rank = rank, .nodes = 3, .address = address}, .patience = 1h},
                          nothing_cached(), clock_, kRuns);
      ASSERT_TRUE(group) << group.error().message;
      joined.count_down();
      const auto outcome = (*group)->agree({});
      ASSERT_TRUE(outcome) << outcome.error().message;
      EXPECT_TRUE(outcome->changed);
      EXPECT_FALSE(outcome->done);
      members[static_cast<std::size_t>(rank)] = (*group)->members();
      agreed.arrive_and_wait();
    };
    {
      std::jthread first(node, 0);
      std::jthread second(node, 1);
      const HostileMember member(address, clock_);
      joined.wait();
      const std::jthread moves([this](const std::stop_token& token) { move_clock(token); });
      act(member);
      // Only then does the member end.
      first.join();
      second.join();
    }
    EXPECT_EQ(members, (std::array{std::vector{0, 1}, std::vector{0, 1}}));
  }

  void move_clock(const std::stop_token& token) {
    sim::RealClock real;
    while (!token.stop_requested()) {
      // Slow enough for the nodes to tell each other who has left.
      clock_.wait_until(clock_.now() + 1min);
      real.wait_until(real.now() + 5ms);
    }
  }

  sim::VirtualClock clock_;
};

TEST_F(HostileMemberTest, IsLeftBehindIfItIsSilent) {
  expect_to_go_on_without([](const HostileMember& /*member*/) {});
}

TEST_F(HostileMemberTest, IsLeftBehindIfItSaysThatItHasFinished) {
  expect_to_go_on_without(
      [](const HostileMember& member) { EXPECT_TRUE(member.say(std::span(&kFinished, 1))); });
}

TEST_F(HostileMemberTest, IsLeftBehindWhateverItSays) {
  expect_to_go_on_without([](const HostileMember& member) {
    while (member.say(std::span(&kFinished, 1))) {
    }
  });
}

TEST_F(HostileMemberTest, IsAskedForNoMoreSamplesIfItSendsAHalf) {
  std::latch joined(2);
  const std::string address = free_address();
  std::jthread other([&] {
    const auto group =
        NodeGroup::join({.place = {.rank = 1, .nodes = 3, .address = address}, .patience = 1h},
                        nothing_cached(), clock_, kRuns);
    joined.arrive_and_wait();
  });
  std::jthread asks([&] {
    const auto group =
        NodeGroup::join({.place = {.rank = 0, .nodes = 3, .address = address}, .patience = 1h},
                        nothing_cached(), clock_, kRuns);
    ASSERT_TRUE(group) << group.error().message;
    joined.arrive_and_wait();
    const auto half = (*group)->fetch(2, 7, 100);
    ASSERT_FALSE(half);
    EXPECT_EQ(half.error().code, ErrorCode::kUnavailable);
    EXPECT_NE(half.error().message.find("has not sent 50 more bytes"), std::string::npos)
        << half.error().message;
    // At once: the clock stands still for it.
    const auto again = (*group)->fetch(2, 8, 100);
    ASSERT_FALSE(again);
    EXPECT_NE(again.error().message.find("node 2 has sent no samples"), std::string::npos)
        << again.error().message;
  });
  const HostileMember member(address, clock_);
  const FileDescriptor socket = member.send_half_a_sample();
  const std::jthread moves([this](const std::stop_token& token) { move_clock(token); });
  asks.join();
}

TEST(NodeGroupTest, NamesTheNodeThatDoesNotCome) {
  sim::RealClock clock;
  for (const int rank : {0, 1}) {
    const auto group = NodeGroup::join(
        {.place = {.rank = rank, .nodes = 2, .address = free_address()}, .patience = 1ms},
        nothing_cached(), clock, kRuns);
    ASSERT_FALSE(group);
    EXPECT_EQ(group.error().code, ErrorCode::kUnavailable);
    EXPECT_NE(group.error().message.find(rank == 0 ? "node 1 of 2" : "node 0 of 2"),
              std::string::npos)
        << group.error().message;
  }
}

}  // namespace
}  // namespace gpemu::peers
