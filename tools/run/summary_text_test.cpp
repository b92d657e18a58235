// SPDX-License-Identifier: Apache-2.0
#include "run/summary_text.hpp"

#include <gtest/gtest.h>

#include "gpemu/record/summary.hpp"

namespace gpemu::tools {
namespace {

TEST(SummaryText, BeginsWithTheVerdict) {
  const nlohmann::ordered_json summary = record::summarise({});
  EXPECT_TRUE(
      summary_text(summary, 80).starts_with("gpemu: no CUDA call gave the emulated GPU work\n"));
}

/// The records of two ranks, the second of which came 1.3 s late once.
std::vector<record::RecordedProcess> two_ranks() {
  std::vector<record::RecordedProcess> processes(2);
  for (int rank = 0; rank < 2; ++rank) {
    process::ProcessRecord& totals = processes[static_cast<std::size_t>(rank)].totals;
    totals.process = 50 + rank;
    const std::int64_t waiting_ns = rank == 0 ? 1'300'000'000 : 0;
    process::RecordedDevice& device = totals.devices[0];
    device.used = 1;
    device.index = rank;
    device.rank = rank;
    device.ranks = 2;
    device.collectives = 10;
    device.collective_bytes = 10 << 20;
    device.collective_moving_ns = 10'000'000;
    device.collective_ns = device.collective_moving_ns + waiting_ns;
    device.collective_hidden_ns = 4'000'000;
    totals.collectives[0] = {.name = "ncclAllReduce",
                             .ranks = 2,
                             .count = 10,
                             .bytes = 10 << 20,
                             .bus_bytes = 10 << 20,
                             .waiting_ns = waiting_ns,
                             .moving_ns = 10'000'000};
    if (rank == 0) totals.waited_for_ns[1] = waiting_ns;
  }
  return processes;
}

TEST(SummaryText, ShowsWhatCommunicationCosts) {
  const std::string text = summary_text(record::summarise(two_ranks()), 120);
  EXPECT_TRUE(
      text.contains("  NCCL    rank 0 of 2: 10 collectives took 1.310 s: 1.300 s waiting for other "
                    "ranks, 10.00 ms "
                    "moving 10.0 MiB; meanwhile no kernel ran for 1.306 s\n"))
      << text;
  EXPECT_TRUE(text.contains("ncclAllReduce"));
  EXPECT_TRUE(text.contains("65000.0"));
  EXPECT_TRUE(text.contains("ranks     rank 1 (GPU 1, process 51) made the others wait 1.300 s\n"));
}

TEST(SummaryText, SaysThatCollectivesDidNotEnd) {
  auto processes = two_ranks();
  processes[0].totals.devices[0].collectives_open = 10;
  processes[1].totals.devices[0].collectives_open = 1;
  const std::string text = summary_text(record::summarise(processes), 120);
  EXPECT_TRUE(text.contains("  NCCL    rank 0 of 2: 10 did not end\n")) << text;
  EXPECT_TRUE(text.contains("for 6.000 ms; 1 did not end\n")) << text;
}

TEST(WaitedForText, NamesTheSlowestRank) {
  nlohmann::ordered_json most = {
      {"index", 2}, {"pid", 7}, {"rank", 2}, {"time_ns", 3'000'000}, {"mean_ns", 1'000'000}};
  EXPECT_EQ(waited_for_text({{"waited_for", nlohmann::ordered_json::array()}}), "");
  EXPECT_EQ(waited_for_text({{"waited_for", {most}}}),
            "rank 2 (GPU 2, process 7) made the others wait 1.000 ms on average");
  most["rank"] = most["pid"] = nullptr;
  EXPECT_EQ(waited_for_text({{"waited_for", {most}}}),
            "the rank on GPU 2 made the others wait 1.000 ms on average");
}

TEST(TimeText, HasFourSignificantDigits) {
  EXPECT_EQ(time_text(1'234'567'890), "1.235 s");
  EXPECT_EQ(time_text(1'234'567'890'000), "1235 s");
  EXPECT_EQ(time_text(12'345'678), "12.35 ms");
  EXPECT_EQ(time_text(1'234), "1.234 us");
  EXPECT_EQ(time_text(0), "0 us");
}

}  // namespace
}  // namespace gpemu::tools
