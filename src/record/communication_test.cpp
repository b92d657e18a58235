// SPDX-License-Identifier: Apache-2.0
#include "gpemu/record/communication.hpp"

#include <algorithm>
#include <string_view>

#include <gtest/gtest.h>

namespace gpemu::record {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::int64_t kMillisecond = 1'000'000;

/// A process with one rank, which uses the GPU of that number.
RecordedProcess rank_of(int rank, int ranks) {
  RecordedProcess process{};
  process.totals.process = 100 + rank;
  process::RecordedDevice& device = process.totals.devices[0];
  device.used = 1;
  device.index = rank;
  device.rank = rank;
  device.ranks = ranks;
  return process;
}

void add_kind(RecordedProcess& process, std::string_view name, std::int64_t waiting_ns) {
  auto* const kind =
      std::ranges::find(process.totals.collectives, 0, &process::RecordedCollectiveKind::count);
  std::ranges::copy(name, kind->name);
  kind->ranks = 2;
  kind->count = 4;
  kind->bytes = 4'000'000;
  kind->bus_bytes = 3'000'000;
  kind->waiting_ns = waiting_ns;
  kind->moving_ns = 2 * kMillisecond;
}

TEST(Communication, OfADeviceHasItsPartsWhichAddUp) {
  process::RecordedDevice device;
  EXPECT_EQ(collectives_of(device), nullptr) << "it has no ranks";
  device.rank = 1;
  device.ranks = 2;
  device.collectives = 5;
  device.collectives_open = 1;
  device.collective_bytes = 400;
  device.collective_ns = 100;
  device.collective_moving_ns = 30;
  device.collective_hidden_ns = 60;
  EXPECT_EQ(collectives_of(device), (OrderedJson{{"rank", 1},
                                                 {"ranks", 2},
                                                 {"count", 5},
                                                 {"not_ended", 1},
                                                 {"bytes", 400},
                                                 {"time_ns", 100},
                                                 {"waiting_ns", 70},
                                                 {"moving_ns", 30},
                                                 {"hidden_ns", 60},
                                                 {"exposed_ns", 40}}));
}

TEST(Communication, IsSummedOverRanksByKind) {
  std::vector<RecordedProcess> processes{rank_of(0, 2), rank_of(1, 2)};
  add_kind(processes[0], "ncclAllReduce", 5 * kMillisecond);
  add_kind(processes[1], "ncclAllGather", 1 * kMillisecond);
  add_kind(processes[1], "ncclAllReduce", 0);
  const OrderedJson kinds = communication_of(processes)["kinds"];
  ASSERT_EQ(kinds.size(), 2U);
  EXPECT_EQ(kinds[0], (OrderedJson{{"name", "ncclAllReduce"},
                                   {"ranks", 2},
                                   {"count", 8},
                                   {"bytes", 8'000'000},
                                   {"waiting_ns", 5 * kMillisecond},
                                   {"moving_ns", 4 * kMillisecond},
                                   {"algorithm_bytes_per_s", 2e9},
                                   {"bus_bytes_per_s", 1.5e9}}));
  EXPECT_EQ(kinds[1]["name"], "ncclAllGather");
}

TEST(Communication, NamesTheRankForWhichTheOthersWaitedMost) {
  std::vector<RecordedProcess> processes{rank_of(0, 4), rank_of(1, 4), rank_of(2, 4),
                                         rank_of(3, 4)};
  processes[0].totals.waited_for_ns[2] = 6 * kMillisecond;
  processes[1].totals.waited_for_ns[2] = 4 * kMillisecond;
  processes[2].totals.waited_for_ns[0] = 1 * kMillisecond;
  const OrderedJson waited_for = communication_of(processes)["waited_for"];
  ASSERT_EQ(waited_for.size(), 2U);
  EXPECT_EQ(waited_for[0], (OrderedJson{{"index", 2},
                                        {"pid", 102},
                                        {"rank", 2},
                                        {"time_ns", 10 * kMillisecond},
                                        {"mean_ns", 5 * kMillisecond}}))
      << "rank 3 did not wait";
  EXPECT_EQ(waited_for[1]["rank"], 0);
}

TEST(Communication, HasARankWithoutARecord) {
  RecordedProcess process = rank_of(0, 2);
  process.totals.waited_for_ns[7] = 3 * kMillisecond;
  const OrderedJson waited_for = communication_of({process})["waited_for"];
  ASSERT_EQ(waited_for.size(), 1U);
  EXPECT_EQ(waited_for[0], (OrderedJson{{"index", 7},
                                        {"pid", nullptr},
                                        {"rank", nullptr},
                                        {"time_ns", 3 * kMillisecond},
                                        {"mean_ns", 3 * kMillisecond}}));
}

}  // namespace
}  // namespace gpemu::record
