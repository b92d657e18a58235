// SPDX-License-Identifier: Apache-2.0
#include "gpemu/record/program_work.hpp"

#include <gtest/gtest.h>

namespace gpemu::record {
namespace {

using Kind = WorkEvent::Kind;

class WorkReaderTest : public testing::Test {
 protected:
  void add(std::string_view line) {
    const auto added = reader_.add_line(line);
    ASSERT_TRUE(added) << added.error().message;
  }
  WorkReader reader_{"work"};
};

TEST_F(WorkReaderTest, ReadsOperationsAndKnowsThemAgain) {
  add(R"({"name":0,"text":"cublasSgemm_v2"})");
  for (const char* const end : {"150", "350"}) {
    add(std::string(R"({"op":"matmul","name":0,"device":0,"stream":7,"thread":42,"asked_ns":0,)") +
        R"("start_ns":0,"end_ns":)" + end +
        R"(,"duration_ns":50,"class":"matmul","evidence":"analytic","type":"fp32",)"
        R"("compute_type":"tf32","shape":[1,512,256,128]})");
  }
  add(R"({"op":"matmul","name":0,"end_ns":400,"duration_ns":50,"class":"matmul","shape":[2]})");
  const ProgramWork& work = reader_.work();
  ASSERT_EQ(work.operations.size(), 2u);
  EXPECT_EQ(work.operations[0].kind, GPEMU_OPERATION_MATMUL);
  EXPECT_EQ(work.operations[0].compute_type, GPEMU_TYPE_TF32);
  EXPECT_EQ(work.operations[0].shape[1].constant, 512);
  ASSERT_EQ(work.events.size(), 3u);
  EXPECT_EQ(work.events[1].index, 0);
  EXPECT_EQ(work.events[2].index, 1);
  EXPECT_EQ(work.events[0].stream, 7);
  EXPECT_EQ(work.events[0].thread, 42);
  EXPECT_EQ(work.events[1].time, at_ns(350));
  EXPECT_EQ(work.events[1].duration, Duration(50));
}

TEST_F(WorkReaderTest, TellsCopiesOverTheLinkFromThoseOnTheDevice) {
  add(R"({"name":0,"text":"copy"})");
  for (const char* const kind : {"copy_host_to_device", "copy_device_to_host", "copy_on_device"}) {
    add(std::string(R"({"op":")") + kind +
        R"(","name":0,"end_ns":9,"duration_ns":9,"class":"copy","bytes":64})");
  }
  const auto& events = reader_.work().events;
  EXPECT_EQ(events[0].kind, Kind::kCopyToDevice);
  EXPECT_EQ(events[1].kind, Kind::kCopyFromDevice);
  EXPECT_EQ(events[2].kind, Kind::kOperation);
  EXPECT_EQ(reader_.work().operations[events[2].index].shape[0].constant, 64);
}

TEST_F(WorkReaderTest, KeepsRangesThatLieInNoOther) {
  add(R"({"mark":"push","time_ns":1,"thread":5,"text":"step 0"})");
  add(R"({"mark":"push","time_ns":1,"thread":5,"text":"forward"})");
  add(R"({"mark":"push","time_ns":1,"thread":6,"text":"other thread"})");
  add(R"({"memory":512,"address":4096,"device":0})");
  add(R"({"moved":9,"start_ns":2,"end_ns":3})");
  add(R"({"mark":"pop","time_ns":1,"thread":5,"text":""})");
  add(R"({"mark":"pop","time_ns":1,"thread":5,"text":""})");
  add(R"({"mark":"wait","time_ns":30,"thread":5,"text":""})");
  add(R"({"mark":"push","time_ns":2,"thread":5,"text":"step 1"})");
  add(R"({"mark":"start","time_ns":2,"thread":5,"text":"open"})");
  EXPECT_EQ(reader_.work().names,
            (std::vector<std::string>{"step 0", "other thread", "step 1", "open"}));
  EXPECT_EQ(reader_.work().events[2].kind, Kind::kWait);
  EXPECT_EQ(reader_.work().events[2].time, at_ns(30));
}

TEST_F(WorkReaderTest, KeepsCollectivesWithTheirEnds) {
  add(R"({"name":0,"text":"ncclAllReduce"})");
  const std::string start = R"({"collective":)";
  const std::string rest =
      R"(,"name":0,"device":0,"stream":7,"thread":5,"communicator":"1","number":0,"rank":0,)"
      R"("ranks":4,"type":"fp32","bytes":64,"bus_factor":1.5,"asked_ns":1})";
  add(start + "1" + rest);
  add(start + "2" + rest);
  add(R"({"ended":1,"arrived_ns":10,"start_ns":20,"end_ns":50})");
  const ProgramWork& work = reader_.work();
  ASSERT_EQ(work.collectives.size(), 1U);
  EXPECT_EQ(work.collectives[0],
            (CollectiveWork{.function = "ncclAllReduce", .bytes = 64, .ranks = 4}));
  ASSERT_EQ(work.events.size(), 2U);
  EXPECT_EQ(work.events[0].kind, Kind::kCollective);
  EXPECT_EQ(work.events[0].stream, 7);
  EXPECT_EQ(work.events[0].time, at_ns(50));
  EXPECT_EQ(work.events[0].duration, Duration(30));
  EXPECT_EQ(work.events[1].time, at_ns(1)) << "it has not ended";
}

TEST_F(WorkReaderTest, KeepsUsesOfEvents) {
  const std::string rest = R"(,"thread":5,"text":"","event":)";
  add(R"({"mark":"event_record","time_ns":1)" + rest + R"(4096,"stream":1})");
  add(R"({"mark":"event_wait","time_ns":2)" + rest + R"(512,"stream":2})");
  add(R"({"mark":"event_wait","time_ns":2)" + rest + R"(4096,"stream":2})");
  const auto& events = reader_.work().events;
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0].kind, Kind::kEventRecord);
  EXPECT_EQ(events[0].stream, 1);
  EXPECT_EQ(events[1].kind, Kind::kEventWait);
  EXPECT_EQ(events[1].stream, 2);
  EXPECT_NE(events[1].index, events[0].index);
  EXPECT_EQ(events[2].index, events[0].index);
}

TEST_F(WorkReaderTest, RefusesWhatIsNoLineAndNamesIt) {
  add(R"({"name":0,"text":"f"})");
  for (const char* const line :
       {"", "[1]", "{}", R"({"op":"matmul","name":1,"end_ns":1,"duration_ns":1,"class":"matmul"})",
        R"({"op":"matmul","name":0,"end_ns":1,"class":"matmul"})",
        R"({"op":"dance","name":0,"end_ns":1,"duration_ns":1,"class":"matmul"})",
        R"({"op":"matmul","name":0,"end_ns":1,"duration_ns":1,"class":"song"})",
        R"({"op":"set","name":0,"end_ns":1,"duration_ns":1,"class":"set","shape":["x"]})",
        R"({"mark":"push","text":"step"})"}) {
    const auto added = reader_.add_line(line);
    ASSERT_FALSE(added) << line;
    EXPECT_EQ(added.error().code, ErrorCode::kCorruptData);
  }
  EXPECT_EQ(reader_.add_line("").error().message, "work:11: not a line of operations");
  EXPECT_TRUE(reader_.work().events.empty());
}

}  // namespace
}  // namespace gpemu::record
