// SPDX-License-Identifier: Apache-2.0
#include "gpemu/record/trace.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gpemu/base/file.hpp"

namespace gpemu::record {
namespace {

using Json = nlohmann::json;

std::string name_line(int number, const std::string& text) {
  return fmt::format(R"({{"name":{},"text":"{}"}})", number, text);
}

std::string operation_line(int device, int stream, int start_ns, int end_ns) {
  return fmt::format(
      R"({{"op":"matmul","name":0,"device":{},"stream":{},"start_ns":{},"end_ns":{},)"
      R"("duration_ns":1,"class":"matmul","evidence":"analytic","type":"fp32","shape":[1,2]}})",
      device, stream, start_ns, end_ns);
}

std::string mark_line(const std::string& mark, int time_ns, const std::string& text) {
  return fmt::format(R"({{"mark":"{}","time_ns":{},"thread":5,"text":"{}"}})", mark, time_ns, text);
}

std::string collective_line(int id, const std::string& more) {
  return fmt::format(
      R"({{"collective":{},"name":0,"device":1,"stream":7,"communicator":"0a","number":3,"rank":1,)"
      R"("ranks":2,"type":"fp32","bytes":6000,"bus_factor":0.5,"asked_ns":500{}}})",
      id, more);
}

std::string end_line(int id, int arrived_ns, int start_ns, int end_ns) {
  return fmt::format(R"({{"ended":{},"arrived_ns":{},"start_ns":{},"end_ns":{},"waited_for":6}})",
                     id, arrived_ns, start_ns, end_ns);
}

/// Writes the records of made-up processes, and reads what is made of them.
class TraceTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// Makes the records of a process with a V100.
  RecordedProcess process_with(int number, const std::vector<std::string>& lines) {
    RecordedProcess process{};
    process.totals.process = number;
    process.totals.lines = static_cast<std::int64_t>(lines.size());
    process.totals.devices[1].used = 1;
    process.totals.devices[1].index = 3;
    std::ranges::copy(std::string_view("V100"), process.totals.devices[1].gpu);
    process.lines = folder_ / fmt::format("{}.lines", number);
    std::ofstream(process.lines) << fmt::format("{}\n", fmt::join(lines, "\n"));
    return process;
  }

  /// Returns the events of a trace with a phase, or with all phases.
  std::vector<Json> events_of(const std::vector<RecordedProcess>& processes,
                              std::string_view phase = "") {
    const auto written = write_trace(folder_ / "trace", processes, {{"program", "p"}});
    EXPECT_TRUE(written) << written.error().message;
    const Json trace = Json::parse(read_file(folder_ / "trace").value());
    EXPECT_EQ(trace["otherData"]["run"], (Json{{"program", "p"}}));
    std::vector<Json> events;
    std::ranges::copy_if(
        trace["traceEvents"], std::back_inserter(events),
        [phase](const Json& event) { return phase.empty() || event["ph"] == std::string(phase); });
    return events;
  }

  /// Returns the lines of write_operations().
  std::vector<Json> operations_of(const std::vector<RecordedProcess>& processes) {
    EXPECT_TRUE(write_operations(folder_ / "operations", processes, {{"program", "p"}}));
    std::vector<Json> lines;
    std::ifstream file(folder_ / "operations");
    for (std::string line; std::getline(file, line);) lines.push_back(Json::parse(line));
    return lines;
  }

  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / fmt::format("gpemu_trace_{}", ::getpid());
};

TEST_F(TraceTest, ShowsAnOperationInTheRowOfItsDeviceAndStream) {
  const auto events =
      events_of({process_with(42, {name_line(0, "_Z3addi"), operation_line(1, 7, 1500, 4000)})});
  EXPECT_EQ(events,
            (std::vector<Json>{
                {{"ph", "M"},
                 {"name", "process_name"},
                 {"pid", 1},
                 {"tid", 0},
                 {"args", {{"name", "program, process 42"}}}},
                {{"ph", "M"},
                 {"name", "process_name"},
                 {"pid", 2},
                 {"tid", 0},
                 {"args", {{"name", "GPU 3 V100, process 42"}}}},
                {{"ph", "M"},
                 {"name", "thread_name"},
                 {"pid", 2},
                 {"tid", 7},
                 {"args", {{"name", "stream 7"}}}},
                {{"ph", "X"},
                 {"name", "add(int)"},
                 {"cat", "matmul"},
                 {"pid", 2},
                 {"tid", 7},
                 {"ts", 1.5},
                 {"dur", 2.5},
                 {"args", {{"evidence", "analytic"}, {"type", "fp32"}, {"shape", {1, 2}}}}}}));
}

TEST_F(TraceTest, NamesAStreamOnceAndGivesEachProcessItsOwnRows) {
  const std::vector<std::string> lines{name_line(0, "a"), operation_line(1, 7, 1, 2),
                                       operation_line(1, 7, 3, 4), operation_line(1, 8, 5, 6)};
  const auto processes = {process_with(42, lines), process_with(43, lines)};
  EXPECT_EQ(events_of(processes, "M").size(), 8U);
  std::set<std::pair<int, int>> rows;
  for (const Json& event : events_of(processes, "X"))
    rows.emplace(event["pid"].get<int>(), event["tid"].get<int>());
  EXPECT_EQ(rows, (std::set<std::pair<int, int>>{{2, 7}, {2, 8}, {4, 7}, {4, 8}}));
}

TEST_F(TraceTest, LeavesOutWorkOfDevicesThatAreNotRecorded) {
  EXPECT_TRUE(
      events_of({process_with(42, {name_line(0, "a"), operation_line(2, 7, 1, 2)})}, "X").empty());
}

TEST_F(TraceTest, EndsRangesThatTheProgramLeftOpen) {
  const auto ends =
      events_of({process_with(42, {mark_line("push", 1000, "outer"),
                                   mark_line("push", 2000, "inner"), mark_line("pop", 3000, ""),
                                   name_line(0, "a"), operation_line(1, 7, 4000, 9000)})},
                "E");
  ASSERT_EQ(ends.size(), 2U);
  EXPECT_EQ(ends[0]["ts"], 3);
  EXPECT_EQ(ends[1], (Json{{"ph", "E"}, {"pid", 1}, {"tid", 5}, {"ts", 9.0}}));
}

TEST_F(TraceTest, AnEndWithoutABeginningIsNotShown) {
  const auto process =
      process_with(42, {mark_line("pop", 1000, ""), mark_line("end", 1000, "range"),
                        mark_line("push", 2000, "step"), mark_line("wait", 3000, "")});
  EXPECT_TRUE(events_of({process}, "e").empty());
  const auto ends = events_of({process}, "E");
  ASSERT_EQ(ends.size(), 1U);
  EXPECT_EQ(ends[0]["ts"], 2) << "that of the step, which is left open";
}

TEST_F(TraceTest, TellsOverlappingRangesApart) {
  const auto process = process_with(42, {mark_line("start", 1, "a"), mark_line("start", 2, "b"),
                                         mark_line("end", 3, "a"), mark_line("end", 4, "b")});
  const auto begins = events_of({process}, "b");
  const auto ends = events_of({process}, "e");
  ASSERT_EQ(begins.size(), 2U);
  ASSERT_EQ(ends.size(), 2U);
  EXPECT_NE(begins[0]["id"], begins[1]["id"]);
  EXPECT_EQ(ends[0]["id"], begins[0]["id"]);
  EXPECT_EQ(ends[1]["id"], begins[1]["id"]);
}

TEST_F(TraceTest, ShowsInstantsAndTheProfiler) {
  const auto events = events_of(
      {process_with(42, {mark_line("instant", 1, "here"), mark_line("profiler_start", 2, "")})},
      "i");
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0]["name"], "here");
  EXPECT_EQ(events[1]["name"], "profiler_start");
}

TEST_F(TraceTest, ShowsACollectiveAndItsWaitOnItsStream) {
  const auto events =
      events_of({process_with(42, {name_line(0, "ncclAllReduce"), collective_line(5, ""),
                                   end_line(5, 1000, 4000, 6000)})},
                "X");
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0], (Json{{"ph", "X"},
                             {"name", "ncclAllReduce"},
                             {"cat", "collective"},
                             {"pid", 2},
                             {"tid", 7},
                             {"ts", 1.0},
                             {"dur", 5.0},
                             {"args",
                              {{"CommHash", "0a"},
                               {"SeqNum", 3},
                               {"Rank", 1},
                               {"Ranks", 2},
                               {"Datatype", "fp32"},
                               {"Bytes", 6000},
                               {"waiting (us)", 3.0},
                               {"moving (us)", 2.0},
                               {"algbw (GB/s)", 3.0},
                               {"busbw (GB/s)", 1.5}}}}));
  EXPECT_EQ(events[1], (Json{{"ph", "X"},
                             {"name", "waiting for other ranks"},
                             {"cat", "collective"},
                             {"pid", 2},
                             {"tid", 7},
                             {"ts", 1.0},
                             {"dur", 3.0},
                             {"args", {{"last GPU", 6}}}}));
}

TEST_F(TraceTest, ShowsACollectiveThatDidNotEndAsAnInstant) {
  const auto events =
      events_of({process_with(42, {name_line(0, "ncclAllReduce"), collective_line(5, "")})}, "i");
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0]["name"], "ncclAllReduce that did not end");
  EXPECT_EQ(events[0]["ts"], 0.5);
}

TEST_F(TraceTest, GivesEachDirectionOfTransfersARow) {
  const auto process = process_with(
      42, {name_line(0, "ncclSend"), collective_line(5, R"(,"peer":0)"), end_line(5, 1, 1, 9),
           collective_line(6, R"(,"peer":2)"), end_line(6, 1, 1, 9),
           collective_line(7, R"(,"peer":0)"), end_line(7, 9, 9, 20)});
  std::vector<std::int64_t> rows;
  for (const Json& event : events_of({process}, "X")) rows.push_back(event["tid"]);
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_NE(rows[0], rows[1]);
  EXPECT_EQ(rows[0], rows[2]);
}

TEST_F(TraceTest, HasTheRanksSideBySide) {
  std::vector<RecordedProcess> processes{process_with(42, {}), process_with(43, {}),
                                         process_with(44, {})};
  for (const int i : {1, 2}) {
    processes[static_cast<std::size_t>(i)].totals.devices[1].rank = 2 - i;
    processes[static_cast<std::size_t>(i)].totals.devices[1].ranks = 2;
  }
  std::vector<std::string> names;
  std::vector<int> order;
  for (const Json& event : events_of(processes, "M")) {
    if (event["name"] == "process_name") names.push_back(event["args"]["name"]);
    if (event["name"] == "process_sort_index") order.push_back(event["args"]["sort_index"]);
  }
  EXPECT_EQ(names,
            (std::vector<std::string>{"program, process 44", "GPU 3 V100, process 44, rank 0 of 2",
                                      "program, process 43", "GPU 3 V100, process 43, rank 1 of 2",
                                      "program, process 42", "GPU 3 V100, process 42"}));
  EXPECT_EQ(order, (std::vector<int>{-2, -1}));
}

TEST_F(TraceTest, IsJsonWithoutEvents) {
  EXPECT_TRUE(events_of({}).empty());
}

TEST_F(TraceTest, OfDamagedRecordsIsNotWritten) {
  const auto damaged = process_with(42, {"damaged"});
  const auto written = write_trace(folder_ / "trace", {damaged}, {});
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ErrorCode::kCorruptData);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "trace"));
}

TEST_F(TraceTest, OperationsFollowTheirProcessAndTheRun) {
  RecordedProcess process =
      process_with(42, {name_line(0, "a"), operation_line(1, 7, 1, 2), "{\"memory\":1}"});
  process.totals.lines_left_out = 5;
  const auto lines = operations_of({process});
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_EQ(lines[0], (Json{{"format", "gpemu-operations-2"}, {"program", "p"}}));
  const Json device = {{"device", 1}, {"index", 3}, {"gpu", "V100"}};
  EXPECT_EQ(lines[1], (Json{{"process", 42},
                            {"devices", Json::array({device})},
                            {"lines", 3},
                            {"lines_left_out", 5}}));
  EXPECT_EQ(lines[2], Json::parse(name_line(0, "a")));
  EXPECT_EQ(lines[3], Json::parse(operation_line(1, 7, 1, 2)));
  EXPECT_EQ(lines[4], (Json{{"memory", 1}}));
}

TEST_F(TraceTest, OperationsHaveTheTimesThatBecameKnownLater) {
  std::string operation = operation_line(1, 7, 1, 2);
  operation.insert(operation.find(R"(,"device")"), R"(,"id":9)");
  const auto lines = operations_of(
      {process_with(42, {name_line(0, "a"), operation, R"({"moved":9,"start_ns":5,"end_ns":7})",
                         collective_line(4, ""), end_line(4, 10, 20, 30)})});
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_EQ(lines[1]["lines"], 3);
  EXPECT_EQ(lines[3]["start_ns"], 5);
  EXPECT_EQ(lines[3]["end_ns"], 7);
  Json collective = Json::parse(collective_line(4, ""));
  collective.update({{"arrived_ns", 10}, {"start_ns", 20}, {"end_ns", 30}, {"waited_for", 6}});
  EXPECT_EQ(lines[4], collective);
}

TEST(Demangled, IsTheNameInTheSource) {
  EXPECT_EQ(demangled("_ZN2at6native3addIfEEvT_"), "void at::native::add<float>(float)");
  EXPECT_EQ(demangled("cublasSgemm_v2"), "cublasSgemm_v2");
  EXPECT_EQ(demangled("i"), "i") << "the name of a type to the demangler";
  EXPECT_EQ(demangled("_Znot mangled"), "_Znot mangled");
}

}  // namespace
}  // namespace gpemu::record
