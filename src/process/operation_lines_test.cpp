// SPDX-License-Identifier: Apache-2.0
#include "operation_lines.hpp"

#include <gtest/gtest.h>

#include "gpemu/kernels/described_operation.hpp"

namespace gpemu::process {
namespace {

class OperationLine : public testing::Test {
 protected:
  OperationLine() {
    device_.ordinal = 1;
    work_ = {.device = &device_,
             .stream_id = 7,
             .queued = {.expected = {.start = at_ns(200), .end = at_ns(350)},
                        .busy = Duration(100),
                        .asked = at_ns(150)},
             .operation_class = kernels::OperationClass::kCopy,
             .evidence = cost::Evidence::kAnalytic,
             .name = "copy to peer",
             .bytes = 4096};
  }
  DeviceState device_;
  RecordedWork work_;
};

TEST_F(OperationLine, NamesACopyOverALinkByItsName) {
  EXPECT_EQ(operation_line(work_, 3, 42),
            R"({"op":"copy_to_peer","name":3,"device":1,"stream":7,"thread":42,"asked_ns":150,)"
            R"("start_ns":200,"end_ns":350,"duration_ns":100,"class":"copy",)"
            R"("evidence":"analytic","bytes":4096})");
}

TEST_F(OperationLine, HasANumberIfItsTimesMayChange) {
  work_.queued.number = 12;
  EXPECT_TRUE(operation_line(work_, 3, 42)
                  .starts_with(R"({"op":"copy_to_peer","name":3,"id":12,"device":1,)"));
  EXPECT_EQ(moved_line({.start = at_ns(250), .end = at_ns(400), .moved = 12}),
            R"({"moved":12,"start_ns":250,"end_ns":400})");
}

TEST_F(OperationLine, OfACollectiveHasItsPlaceAndThenItsTimes) {
  RecordedCollective work{.device = &device_,
                          .stream_id = 7,
                          .name = "ncclAllReduce",
                          .type = "fp32",
                          .bytes = 1024,
                          .bus_factor = 1.5,
                          .rank = 1,
                          .ranks = 4,
                          .communicator = 0xabc,
                          .number = 2,
                          .asked = at_ns(150)};
  const std::string line =
      R"({"collective":5,"name":3,"device":1,"stream":7,"thread":42,)"
      R"("communicator":"0000000000000abc","number":2,"rank":1,"ranks":4,"type":"fp32",)"
      R"("bytes":1024,"bus_factor":1.5,"asked_ns":150)";
  EXPECT_EQ(collective_line(work, 5, 3, 42), line + "}");
  work.peer = 3;
  EXPECT_EQ(collective_line(work, 5, 3, 42), line + R"(,"peer":3})");
  device::RoundTimes times{.arrived = at_ns(200), .start = at_ns(300), .end = at_ns(350)};
  EXPECT_EQ(collective_end_line(5, times, 6),
            R"({"ended":5,"arrived_ns":200,"start_ns":300,"end_ns":350,"waited_for":6})");
  times.arrived = times.start;
  EXPECT_EQ(collective_end_line(5, times, 6),
            R"({"ended":5,"arrived_ns":300,"start_ns":300,"end_ns":350})");
}

/// Returns what a line says of the operation itself.
std::string described(const std::string& line) {
  const std::string end_of_common = R"("evidence":"analytic")";
  return line.substr(line.find(end_of_common) + end_of_common.size());
}

TEST_F(OperationLine, LeavesOutZerosAtTheEndOfAShape) {
  const gpemu_operation operation{.kind = GPEMU_OPERATION_MATMUL,
                                  .type = GPEMU_TYPE_FP16,
                                  .compute_type = GPEMU_TYPE_FP32,
                                  .shape = {2, 0, 8}};
  work_.operation = &operation;
  work_.bytes = 0;
  const std::string line = operation_line(work_, 0, 1);
  EXPECT_TRUE(line.starts_with(R"({"op":"matmul",)"));
  EXPECT_EQ(described(line), R"(,"type":"fp16","compute_type":"fp32","shape":[2,0,8]})");
}

TEST_F(OperationLine, ComputesInTheTypeOfTheOperandsUnlessToldOtherwise) {
  const gpemu_operation operation{.kind = GPEMU_OPERATION_FFT, .type = GPEMU_TYPE_COMPLEX64};
  work_.operation = &operation;
  work_.bytes = 0;
  EXPECT_EQ(described(operation_line(work_, 0, 1)),
            R"(,"type":"complex64","compute_type":"complex64","shape":[]})");
}

TEST_F(OperationLine, HasLayoutAndAccessOnlyWhereTheyAreNotTheUsual) {
  const gpemu_operation operation{.kind = GPEMU_OPERATION_ELEMENTWISE,
                                  .channels_last = 1,
                                  .shape = {1},
                                  .access = GPEMU_ACCESS_STRIDED};
  work_.operation = &operation;
  work_.bytes = 0;
  EXPECT_EQ(described(operation_line(work_, 0, 1)),
            R"(,"shape":[1],"channels_last":true,"access":"strided"})");
}

TEST_F(OperationLine, CallsAKindOfALaterVersionUnknown) {
  const gpemu_operation operation{.kind = static_cast<gpemu_operation_kind>(31)};
  work_.operation = &operation;
  EXPECT_TRUE(operation_line(work_, 0, 1).starts_with(R"({"op":"unknown",)"));
}

TEST(NameLine, IsJsonWhateverTheName) {
  EXPECT_EQ(name_line(0, "a\"b\\c\n"), R"({"name":0,"text":"a\"b\\c\u000a"})");
  EXPECT_EQ(name_line(1, "gr\xC3\xBC\xC3\x9F"), "{\"name\":1,\"text\":\"gr\xC3\xBC\xC3\x9F\"}");
}

TEST(NameLine, HasAQuestionMarkForEachByteThatIsNotUtf8) {
  EXPECT_EQ(name_line(0, "\xC3\xBC\xFF"), R"({"name":0,"text":"???"})");
  EXPECT_EQ(name_line(0, "cut\xC3"), R"({"name":0,"text":"cut?"})");
}

TEST(MarkLine, NamesTheKind) {
  EXPECT_EQ(mark_line(mark_name(GPEMU_CUDA_MARK_PUSH), "step", at_ns(5), 42),
            R"({"mark":"push","time_ns":5,"thread":42,"text":"step"})");
  EXPECT_EQ(mark_name(static_cast<gpemu_cuda_mark_kind>(7)), "unknown");
}

TEST(MemoryLine, IsNegativeWhereMemoryIsGivenBack) {
  EXPECT_EQ(memory_line(-512, 4096, 1), R"({"memory":-512,"address":4096,"device":1})");
}

TEST(EventLine, NamesTheEventAndTheStream) {
  EXPECT_EQ(event_line("event_wait", 4096, 3, at_ns(7), 5),
            R"({"mark":"event_wait","time_ns":7,"thread":5,"text":"","event":4096,"stream":3})");
}

}  // namespace
}  // namespace gpemu::process
