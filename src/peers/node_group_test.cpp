// SPDX-License-Identifier: Apache-2.0
#include "gpemu/peers/node_group.hpp"

#include <array>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/base/packing.hpp"

#include "connection.hpp"

namespace gpemu::peers {
namespace {

using namespace std::chrono_literals;

const std::atomic<bool> kRuns = false;

/// Returns an address of this machine at which nobody listens.
std::string free_address() {
  const auto listener = listen_at({.host = "127.0.0.1", .port = 0});
  EXPECT_TRUE(listener);
  return own_of(*listener).str();
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

TEST(NodeGroupTest, ReadsNumbersAddressesAndTexts) {
  EXPECT_EQ(parse_address("[::1]:5")->str(), "[::1]:5");
  EXPECT_EQ(parse_address("node-1:5")->str(), "node-1:5");
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
      const auto outcome =
          (*group)->agree({static_cast<pipeline::FileId>(100 * rank + step)}, kRuns);
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
    // Each would take kPatienceS, and all together more than the patience.
    std::vector<FileDescriptor> silent;
    for (int i = 0; i < 3; ++i) {
      auto socket = connect_to(*parse_address(address),
                               {.clock = clock, .until = clock.now() + 20s, .stop = kRuns});
      ASSERT_TRUE(socket) << socket.error().message;
      silent.push_back(std::move(*socket));
    }
    node(1);
  }
  EXPECT_EQ(joined, (std::array{true, true}));
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
