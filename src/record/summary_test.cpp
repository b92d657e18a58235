// SPDX-License-Identifier: Apache-2.0
#include "gpemu/record/summary.hpp"

#include <gtest/gtest.h>

namespace gpemu::record {
namespace {

constexpr std::int64_t kMs = 1'000'000;

/// A process whose GPU had 100 ms from the first operation to the last.
RecordedProcess process_with(std::int64_t busy_ns, std::int64_t computing_ns,
                             std::int64_t blocked_ns) {
  RecordedProcess process{};
  process.totals.classes[0] = {.count = 1, .time_ns = busy_ns};
  process::RecordedDevice& device = process.totals.devices[0];
  device.used = 1;
  device.operations = 1;
  device.last_ns = 100 * kMs;
  device.busy_ns = busy_ns;
  device.unasked_ns = computing_ns + blocked_ns;
  device.computing_ns = computing_ns;
  device.blocked_ns = blocked_ns;
  return process;
}

std::string verdict_of(const RecordedProcess& process) {
  return program_verdict(summarise({process}));
}

TEST(ProgramVerdict, NamesWhatLimitsTheProgram) {
  EXPECT_EQ(verdict_of(process_with(80 * kMs, 20 * kMs, 0)),
            "limited by the GPU: it is busy 80.0 % of the time");
  EXPECT_EQ(verdict_of(process_with(10 * kMs, 60 * kMs, 30 * kMs)),
            "limited by the program's own computing: it gives the GPU too little work at a time; "
            "the GPU is busy 10.0 % of the time");
  EXPECT_EQ(verdict_of(process_with(10 * kMs, 30 * kMs, 60 * kMs)),
            "limited by waiting: the program is blocked by its data, files, workers or locks; the "
            "GPU is busy 10.0 % of the time");
  EXPECT_EQ(verdict_of(process_with(10 * kMs, 5 * kMs, 5 * kMs)),
            "limited by ordering: work waits for other streams, devices or processes; the GPU is "
            "busy 10.0 % of the time");
  EXPECT_EQ(program_verdict(summarise({})), "no CUDA call gave the emulated GPU work");
}

TEST(ProgramVerdict, NamesCommunicationIfItIsMostOfTheOrdering) {
  RecordedProcess process = process_with(10 * kMs, 5 * kMs, 5 * kMs);
  process::RecordedDevice& device = process.totals.devices[0];
  device.ranks = 2;
  device.collective_ns = 60 * kMs;
  device.collective_hidden_ns = 20 * kMs;
  EXPECT_EQ(verdict_of(process),
            "limited by communication: work waits for collectives, or for the slowest rank; the "
            "GPU is busy 10.0 % of the time");
  device.collective_hidden_ns = 21 * kMs;
  EXPECT_TRUE(verdict_of(process).starts_with("limited by ordering: "));
}

TEST(ProgramVerdict, SaysThatWorkOfDevicesIsLeftOut) {
  RecordedProcess process = process_with(80 * kMs, 20 * kMs, 0);
  process.totals.classes[1].count = 3;
  const nlohmann::ordered_json summary = summarise({process});
  EXPECT_EQ(summary["operations_of_devices_left_out"], 3);
  EXPECT_EQ(summary["verdict"],
            "limited by the GPU: it is busy 80.0 % of the time; 3 operations on GPUs beyond the "
            "first 256 of a process are not included");
}

TEST(Summary, KernelsRunForAllOfTheRunAtMost) {
  EXPECT_DOUBLE_EQ(summarise({process_with(40 * kMs, 0, 0)})["utilization"], 0.4);
  EXPECT_EQ(summarise({process_with(25'000 * kMs, 0, 0)})["utilization"], 1);
}

TEST(Summary, HasTheTimeOfCollectivesWithoutOperations) {
  RecordedProcess process = process_with(0, 0, 0);
  process.totals.devices[0].operations = 0;
  process.totals.devices[0].first_ns = 40 * kMs;
  const nlohmann::ordered_json summary = summarise({process});
  EXPECT_EQ(summary["first_ns"], 40 * kMs);
  EXPECT_EQ(summary["last_ns"], 100 * kMs);
  EXPECT_EQ(summary["devices"][0]["idle_ns"], 60 * kMs);
}

TEST(Summary, KnowsThatAProgramOfCollectivesUsesItsGpus) {
  RecordedProcess process{};
  process.totals.devices[0].used = 1;
  const std::vector<LoadedLibrary> loaded{{.process = 7, .program = "p", .library = "l"}};
  EXPECT_EQ(summarise({process}, loaded)["without_work"].size(), 1U);
  process.totals.devices[0].ranks = 2;
  EXPECT_TRUE(summarise({process}, loaded)["without_work"].empty());
}

TEST(Summary, KnowsThatAProgramThatAllocatesUsesItsGpus) {
  RecordedProcess process{};
  process.totals.process = 7;
  process.totals.devices[0].used = 1;
  const std::vector<LoadedLibrary> loaded{{.process = 7, .program = "p", .library = "l"}};
  EXPECT_EQ(summarise({process}, loaded)["without_work"].size(), 1U);
  process.totals.devices[0].peak_memory_bytes = 4096;
  const nlohmann::ordered_json summary = summarise({process}, loaded);
  EXPECT_TRUE(summary["without_work"].empty());
  EXPECT_EQ(summary["verdict"], "the program allocated memory, but gave the emulated GPU no work");
}

TEST(ProgramVerdict, IsInTheSummary) {
  const nlohmann::ordered_json summary = summarise({process_with(80 * kMs, 20 * kMs, 0)});
  EXPECT_EQ(summary["verdict"], program_verdict(summary));
}

}  // namespace
}  // namespace gpemu::record
