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
  add(R"({"collective":1,"name":0})");
  add(R"({"ended":1,"arrived_ns":1,"start_ns":2,"end_ns":3})");
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
