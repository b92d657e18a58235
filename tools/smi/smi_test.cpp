// SPDX-License-Identifier: Apache-2.0
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "smi/smi_query.hpp"
#include "smi/smi_table.hpp"

namespace gpemu::tools {
namespace {

using Subject = SmiQuery::Subject;

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

SmiSample sample() {
  SmiDevice device{.node = "n0"};
  device.now.index = 0;
  device.now.gpu = "V100-PCIE-32GB";
  device.now.uuid = "GPU-1";
  device.now.pci_bus_id = "00000000:0a:00.0";
  device.now.memory_total = 32510 * kMiB;
  device.now.memory_used = 6650 * kMiB + kMiB / 2;
  device.now.max_power_w = 250;
  device.now.power.limit_w = 250;
  const std::string name = "Tesla V100-PCIE-32GB";
  name.copy(device.now.facts.product_name, name.size());
  device.load.compute = 0.806;
  device.load.power_w = 211.0625;
  device.load.temperature_c = 72.4;
  device.load.sm_clock_mhz = 1380;
  device.now.processes = {{.pid = 42, .name = "python", .memory_held = 6650 * kMiB},
                          {.pid = 43, .name = "other", .memory_held = kMiB / 2}};
  SmiDevice idle = device;
  idle.now.index = 1;
  idle.now.processes.clear();
  idle.load = {};
  idle.load.performance_state = 8;
  return {.time = "2026/01/31 23:59:59.123",
          .date = "Sat Jan 31 23:59:59 2026",
          .devices = {device, idle}};
}

std::string answer(Subject subject, std::string_view fields, CsvFormat format) {
  const auto query = SmiQuery::read(subject, fields, format);
  return query ? query->header() + query->lines(sample()) : query.error().message;
}

TEST(SampleTimeTest, IsTheLastThatThereIsWhereThePeriodsLieBeyond) {
  const TimePoint start{Duration(7)};
  EXPECT_EQ(sample_time(start, 0.5, 3), start + std::chrono::milliseconds(1500));
  EXPECT_EQ(sample_time(start, 1e10, 1), TimePoint::max());
  EXPECT_EQ(sample_time(start, 1e300, 1'000'000'000), TimePoint::max());
}

TEST(SmiQueryTest, AnswersAsNvidiaSmiDoes) {
  EXPECT_EQ(answer(Subject::kDevices, "index, name,utilization.gpu,memory.used,power.draw", {}),
            "index, name, utilization.gpu [%], memory.used [MiB], power.draw [W]\n"
            "0, Tesla V100-PCIE-32GB, 81 %, 6651 MiB, 211.06 W\n"
            "1, Tesla V100-PCIE-32GB, 0 %, 6651 MiB, [N/A]\n");
}

TEST(SmiQueryTest, PowerIsThatOfNvmlInMilliwatts) {
  EXPECT_EQ(watts_text(18.625), "18.62");
  EXPECT_EQ(watts_text(18.6250001), "18.62") << "NVML says 18625";
  EXPECT_EQ(watts_text(18.6256), "18.63");
}

TEST(SmiQueryTest, LeavesOutUnitsAndHeader) {
  EXPECT_EQ(answer(Subject::kDevices, "temperature.gpu,clocks.sm,fan.speed",
                   {.header = false, .units = false}),
            "72, 1380, [N/A]\n0, [N/A], [N/A]\n");
  EXPECT_EQ(answer(Subject::kDevices, "clocks.gr", {.header = true, .units = false}),
            "clocks.current.graphics [MHz]\n1380\n[N/A]\n");
}

TEST(SmiQueryTest, AnswersALineForEachProcess) {
  EXPECT_EQ(answer(Subject::kProcesses, "pid,name,used_memory,gpu_uuid", {}),
            "pid, process_name, used_gpu_memory [MiB], gpu_uuid\n"
            "42, python, 6650 MiB, GPU-1\n"
            "43, other, 1 MiB, GPU-1\n");
}

TEST(SmiQueryTest, RefusesFieldsThatAreNotKnownAndNamesThoseThatAre) {
  const std::string message = answer(Subject::kDevices, "index,utilization.gpus", {});
  EXPECT_TRUE(message.starts_with("Field \"utilization.gpus\" is not a valid field to query.\n"))
      << message;
  EXPECT_TRUE(contains(message, "\n  utilization.gpu\n")) << message;
  EXPECT_FALSE(SmiQuery::read(Subject::kDevices, "index,", {}));
  EXPECT_FALSE(SmiQuery::read(Subject::kProcesses, "index", {}));
}

TEST(SmiQueryTest, ReadsFormats) {
  const auto format = read_csv_format("csv, noheader,nounits");
  ASSERT_TRUE(format);
  EXPECT_FALSE(format->header);
  EXPECT_FALSE(format->units);
  EXPECT_TRUE(read_csv_format("csv")->header);
  EXPECT_FALSE(read_csv_format("noheader"));
  EXPECT_FALSE(read_csv_format("csv,xml"));
}

TEST(SmiTableTest, KeepsItsColumns) {
  SmiSample wide = sample();
  wide.devices[0].now.processes[0].name = std::string(100, 'x');
  wide.devices[1].node = std::string(60, 'n');
  std::istringstream lines(smi_table(wide, SmiProgram::kGpemuSmi));
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line, wide.time);
  while (std::getline(lines, line)) {
    EXPECT_TRUE(line.empty() || line.size() == 91) << line;
  }
}

TEST(SmiTableTest, ShowsLoadMemoryAndProcesses) {
  const std::string table = smi_table(sample(), SmiProgram::kGpemuSmi);
  EXPECT_TRUE(
      contains(table, "|   0  Tesla V100-PCIE-32GB           On  |   00000000:0A:00.0 Off |"))
      << table;
  EXPECT_TRUE(contains(table, "| N/A   72C    P0            211W /  250W |")) << table;
  EXPECT_TRUE(contains(table, "|    6651MiB /  32510MiB |     81%      Default |")) << table;
  EXPECT_TRUE(contains(table, "python                                 6650MiB |")) << table;
  EXPECT_FALSE(contains(table, "No running processes"));
}

TEST(SmiTableTest, ShowsWhatFaultsDo) {
  SmiSample faulty = sample();
  faulty.devices[0].now.health.clock = 0.5;
  faulty.devices[1].now.health.lost = true;
  const std::string table = smi_table(faulty, SmiProgram::kGpemuSmi);
  EXPECT_TRUE(contains(table, "| slow: 50 % of its clock                 |")) << table;
  EXPECT_TRUE(contains(table, "| lost: fell off the bus (Xid 79)         |")) << table;
  EXPECT_TRUE(contains(table, "| ERR! ERR!   ERR!")) << table;
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_TRUE(line.empty() || line.size() == 91 || line == faulty.time) << line;
  }
}

TEST(SmiQueryTest, SaysThatADeviceIsLostOrSlow) {
  SmiSample faulty = sample();
  faulty.devices[0].now.health.clock = 0.5;
  faulty.devices[1].now.health.lost = true;
  const auto query = SmiQuery::read(
      Subject::kDevices, "index,memory.used,clocks_event_reasons.hw_slowdown", {.header = false});
  ASSERT_TRUE(query);
  EXPECT_EQ(query->lines(faulty),
            "0, 6651 MiB, Active\n"
            "1, [GPU is lost], [GPU is lost]\n");
}

TEST(SmiTableTest, SaysThatNothingRuns) {
  SmiSample idle = sample();
  idle.devices.erase(idle.devices.begin());
  EXPECT_TRUE(contains(smi_table(idle, SmiProgram::kGpemuSmi), "No running processes found"))
      << smi_table(idle, SmiProgram::kGpemuSmi);
}

TEST(SmiListTest, NamesTheNodesOfSeveral) {
  SmiSample one = sample();
  EXPECT_EQ(
      smi_list(one),
      "GPU 0: Tesla V100-PCIE-32GB (UUID: GPU-1)\nGPU 1: Tesla V100-PCIE-32GB (UUID: GPU-1)\n");
  one.devices[1].node = "n1";
  EXPECT_EQ(smi_list(one),
            "GPU 0: Tesla V100-PCIE-32GB (UUID: GPU-1) (node: n0)\n"
            "GPU 1: Tesla V100-PCIE-32GB (UUID: GPU-1) (node: n1)\n");
}

TEST(SmiTableTest, KeepsItsShapeWhateverAProcessIsCalled) {
  for (const std::string name : {"\x1b[2J\n", "p\xff", "\u6570", "x\u00f6\u00f6\u00f6"}) {
    SmiSample strange = sample();
    std::string longest;
    while (longest.size() < 100) longest += name;
    strange.devices[0].now.processes[0].name = longest;
    std::istringstream lines(smi_table(strange, SmiProgram::kGpemuSmi));
    for (std::string line; std::getline(lines, line);) {
      EXPECT_EQ(line.find('\x1b'), std::string::npos);
      if (line.contains("...")) {
        EXPECT_TRUE(line.ends_with("6650MiB |")) << line;
      }
    }
  }
}

}  // namespace
}  // namespace gpemu::tools
