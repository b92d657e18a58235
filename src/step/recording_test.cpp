// SPDX-License-Identifier: Apache-2.0
#include "gpemu/step/recording.hpp"

#include <filesystem>
#include <initializer_list>
#include <string>
#include <unistd.h>

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "gpemu/base/file.hpp"
#include "gpemu/kernels/described_operation.hpp"

namespace gpemu::step {
namespace {

constexpr const char* kHead =
    R"({"format":"gpemu-operations-2","gpus":["V100-PCIE-32GB"],"exit_code":0})"
    "\n"
    R"({"process":7,"devices":[],"lines":9,"lines_left_out":0})"
    "\n"
    R"({"name":0,"text":"_ZN2at6native12_GLOBAL__N_1L11relu_kernelIfEEvi"})"
    "\n"
    R"({"name":1,"text":"cublasSgemm_v2"})"
    "\n"
    R"({"name":2,"text":"_ZN2at6native13reduce_kernelILi512ELi1EEEvT1_"})"
    "\n";

std::string range(const std::string& text, const std::string& operations) {
  return fmt::format(R"({{"mark":"push","time_ns":1,"thread":5,"text":"{}"}})"
                     "\n{}"
                     R"({{"mark":"pop","time_ns":2,"thread":5,"text":""}})"
                     "\n",
                     text, operations);
}

std::string relu(std::initializer_list<std::int64_t> shape) {
  return fmt::format(R"({{"op":"elementwise","name":0,"device":0,"stream":1,"duration_ns":9,)"
                     R"("class":"elementwise","evidence":"analytic","type":"fp32",)"
                     R"("compute_type":"fp32","shape":[{}],"access":"strided"}})"
                     "\n",
                     fmt::join(shape, ","));
}

std::string matmul(std::int64_t m) {
  return fmt::format(R"({{"op":"matmul","name":1,"class":"matmul","type":"fp32",)"
                     R"("compute_type":"tf32","shape":[1,{},8,4]}})"
                     "\n",
                     m);
}

class RecordingTest : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }

  [[nodiscard]] Result<std::vector<Recording>> condensed(const std::string& content) const {
    GPEMU_TRY(write_file_atomically(path_, content));
    return condense({path_});
  }

  [[nodiscard]] std::string complaint(const std::string& content) const {
    const auto result = condensed(content);
    return result ? "none" : result.error().message.substr(result.error().message.rfind('/') + 1);
  }

  std::filesystem::path path_ =
      testing::TempDir() + "/gpemu_recording_test." + std::to_string(::getpid());
  std::string name_ = path_.filename().string();
};

/// A model at a batch: two equal operations forward, one backward.
std::string step(std::int64_t batch) {
  const std::string prefix = fmt::format("toy batch={} ", batch);
  const std::string forward =
      relu({10 * batch + 3, 10 * batch}) + matmul(batch) + relu({10 * batch + 3, 10 * batch});
  return matmul(999) + range(prefix + "forward", range("layer 1", forward)) +
         range(prefix + "backward", relu({64, 64}));
}

TEST_F(RecordingTest, JoinsTheBatches) {
  const auto recordings = condensed(kHead + step(16) + step(48) + step(32));
  ASSERT_TRUE(recordings.has_value()) << recordings.error().message;
  ASSERT_EQ(recordings->size(), 1U);
  const Recording& toy = recordings->front();
  EXPECT_EQ(toy.model, "toy");
  EXPECT_EQ(toy.gpu, "V100-PCIE-32GB");
  EXPECT_EQ(toy.batches, (std::vector{16, 32, 48}));
  ASSERT_EQ(toy.phases.size(), 2U);
  EXPECT_EQ(toy.phases[0].name, "forward");
  EXPECT_EQ(toy.phases[0].operations, (std::vector{0, 1, 0}));
  EXPECT_EQ(toy.phases[1].operations, (std::vector{2}));
  ASSERT_EQ(toy.operations.size(), 3U);
  EXPECT_EQ(toy.operations[0].name, "relu_kernel");
  EXPECT_EQ(toy.operations[0].shape[0], (AffineEntry{3, 10}));
  EXPECT_EQ(toy.operations[2].shape[0], (AffineEntry{64, 0}));
  const kernels::DescribedOperation at = toy.operations[0].at(100);
  EXPECT_EQ(at.operation.kind, GPEMU_OPERATION_ELEMENTWISE);
  EXPECT_EQ(at.operation.shape[0], 1003);
  EXPECT_EQ(at.operation.access, GPEMU_ACCESS_STRIDED);
  EXPECT_EQ(toy.operations[1].at(1).operation.compute_type, GPEMU_TYPE_TF32);
}

TEST_F(RecordingTest, LeavesTheCountersOfReductionsOut) {
  const std::string set = R"({"op":"set","name":1,"class":"set","shape":[256]})"
                          "\n";
  const std::string sum = R"({"op":"reduction","name":2,"class":"reduction","shape":[64,8]})"
                          "\n";
  const auto recordings =
      condensed(kHead + range("toy batch=1 all", sum + set) +
                range("toy batch=2 all", set + sum + set) + range("toy batch=3 all", sum + set));
  ASSERT_TRUE(recordings.has_value()) << recordings.error().message;
  EXPECT_EQ(recordings->front().phases.front().operations, (std::vector{0, 1}));
  EXPECT_EQ(recordings->front().operations.front().kind, GPEMU_OPERATION_REDUCTION);
}

std::string change(std::int64_t address, std::int64_t bytes) {
  return fmt::format(R"({{"memory":{},"address":{},"device":0}})"
                     "\n",
                     bytes, address);
}

/// A step that holds 10 bytes an image, then 300 more, then 20 bytes an image instead of both, then
/// nothing. Two of its operations have scratch memory.
std::string memory_step(std::int64_t batch, std::int64_t second = 8, std::int64_t last = 8) {
  const std::string operation = relu({batch, batch});
  const auto with_scratch = [&operation](std::int64_t bytes) {
    return change(9, bytes) + operation + change(9, -bytes);
  };
  return range(fmt::format("toy batch={} all", batch),
               change(5, 10 * batch) + operation + change(7, 292) + with_scratch(second) +
                   change(7, -292) + change(5, -10 * batch) + change(5, 20 * batch) + operation +
                   change(5, -20 * batch) + with_scratch(last));
}

TEST_F(RecordingTest, KeepsTheTensorsOfTheFullestMoments) {
  const std::string model = kHead + change(1, 500) + change(2, 500);
  const auto recordings = condensed(model + memory_step(16) + memory_step(32) + memory_step(48));
  ASSERT_TRUE(recordings.has_value()) << recordings.error().message;
  ASSERT_TRUE(recordings->front().memory.has_value());
  const RecordedMemory memory = recordings->front().memory.value_or(RecordedMemory());
  using Groups = std::vector<TensorGroup>;
  // From batch 31 on the third operation has more.
  ASSERT_EQ(memory.fullest.size(), 2U);
  EXPECT_EQ(memory.fullest[0], (Groups{{1, {0, 10}}, {1, {8, 0}}, {1, {292, 0}}, {2, {500, 0}}}));
  EXPECT_EQ(memory.fullest[1], (Groups{{1, {0, 20}}, {2, {500, 0}}}));
  EXPECT_EQ(memory.after, (Groups{{2, {500, 0}}}));
}

TEST_F(RecordingTest, KeepsNoMemoryThatIsNoFunctionOfTheBatch) {
  const auto has_memory = [this](std::int64_t second, std::int64_t last) {
    const auto recordings =
        condensed(kHead + memory_step(2) + memory_step(3, second, last) + memory_step(4));
    return recordings.has_value() && recordings->front().memory.has_value();
  };
  EXPECT_TRUE(has_memory(8, 8));
  EXPECT_FALSE(has_memory(9, 8));
  // Nothing is lost where there is little anyway.
  EXPECT_TRUE(has_memory(8, 40));
  EXPECT_FALSE(has_memory(8, 4000));
}

TEST_F(RecordingTest, ReadsWhatItWrites) {
  for (const auto& content :
       {step(16) + step(32) + step(48), memory_step(16) + memory_step(32) + memory_step(48)}) {
    const auto recordings = condensed(kHead + content);
    ASSERT_TRUE(recordings.has_value()) << recordings.error().message;
    const std::string text = write_recording(recordings->front());
    const auto read = parse_recording(text, "toy.json");
    ASSERT_TRUE(read.has_value()) << read.error().message;
    EXPECT_EQ(read->operations, recordings->front().operations);
    EXPECT_EQ(read->memory, recordings->front().memory);
    EXPECT_EQ(write_recording(*read), text);
  }
}

TEST_F(RecordingTest, SaysWhatIsNoFunctionOfTheBatch) {
  const auto at = [](int batch, const std::string& operations) {
    return range(fmt::format("toy batch={} forward", batch), operations);
  };
  EXPECT_EQ(complaint(kHead + at(16, relu({5})) + at(32, relu({9})) + at(48, relu({13}))),
            "toy forward operation 0: relu_kernel (elementwise): shape[0] is 5, 9, 13 at batches "
            "16, 32, 48: not affine");
  EXPECT_EQ(complaint(kHead + at(1, relu({5})) + at(2, relu({6})) + at(3, relu({8}))),
            "toy forward operation 0: relu_kernel (elementwise): shape[0] is 5, 6, 8 at batches "
            "1, 2, 3: not affine");
  // A slope of 2^62 times 100 exceeds 64 bits.
  constexpr std::int64_t kMost = std::int64_t{1} << 62;
  EXPECT_EQ(complaint(kHead + at(100, relu({0})) + at(101, relu({kMost})) + at(102, relu({0}))),
            "toy forward operation 0: relu_kernel (elementwise): shape[0] is 0, "
            "4611686018427387904, 0 at batches 100, 101, 102: not affine");
  EXPECT_EQ(complaint(kHead + at(1, relu({5})) + at(2, matmul(3)) + at(3, relu({8}))),
            "toy forward operation 0: relu_kernel (elementwise) at one batch and cublasSgemm_v2 "
            "(matmul) at another, or they differ in type or access");
  EXPECT_EQ(complaint(kHead + at(1, relu({5})) + at(2, "") + at(3, relu({5}))),
            "toy forward: 1 operations at batch 1, 0 at batch 2");
  EXPECT_EQ(complaint(kHead + at(1, relu({5})) + at(2, relu({5}))),
            "toy forward: recorded at batches 1, 2; needs 3 or more, the same for each phase");
}

TEST_F(RecordingTest, SaysWhereAFileOfOperationsIsWrong) {
  EXPECT_EQ(complaint(""), name_ + ":0: is empty");
  EXPECT_EQ(complaint("{"), name_ + ":1: is not a JSON object");
  EXPECT_EQ(complaint(R"({"format":"gpemu-operations-1"})"),
            name_ + R"(:1: format is "gpemu-operations-1"; this gpemu reads "gpemu-operations-2")");
  EXPECT_EQ(complaint(kHead), R"(the recording contains no range "MODEL batch=BATCH PHASE")");
  EXPECT_EQ(complaint(kHead + step(16) + step(16)),
            name_ + R"(:18: range "toy batch=16 forward" occurs twice)");
  EXPECT_EQ(complaint(kHead + range("a batch=1 x", range("b batch=1 x", ""))),
            name_ + R"(:7: range "b batch=1 x" lies inside another range)");
  EXPECT_EQ(complaint(kHead + range("a batch=1 x", R"({"op":"dance"})"
                                                   "\n")),
            name_ + R"(:7: the line.op has the unknown value "dance")");
  EXPECT_EQ(complaint(kHead + range("a batch=1 x", R"({"op":"copy_to_peer"})"
                                                   "\n")),
            name_ +
                ":7: a copy_to_peer lies in a recorded range; begin ranges after copies over the "
                "link and end them before the next");
  EXPECT_EQ(complaint(R"({"format":"gpemu-operations-2","gpus":["A"]})"
                      "\n"
                      R"({"process":7,"lines_left_out":3})"),
            name_ + ":2: 3 lines were left out because there was no space");
  EXPECT_EQ(condense({"/nonexistent.ops"}).error().code, ErrorCode::kNotFound);
}

TEST(Recording, SaysWhatIsWrongInAFile) {
  const std::string good =
      R"({"format":"gpemu-recording-2","model":"m","gpu":"g","batches":[1,2,3],"calls":[)"
      R"({"op":"set","name":"n","class":"set"}],"shapes":[[[4,1]]],"operations":[[0,0]],)"
      R"("phases":[{"name":"forward","operations":[0,0,0]}],)"
      R"("memory":{"fullest":[[[1,[8,4]]],[[3,16]]],"after":[]}})";
  ASSERT_TRUE(parse_recording(good, "f").has_value());
  const auto complaint = [&good](const std::string& part, const std::string& other) {
    std::string text = good;
    text.replace(text.find(part), part.size(), other);
    const auto result = parse_recording(text, "f");
    return result ? "none" : result.error().message;
  };
  EXPECT_EQ(complaint("{", "["), "f: the file is not JSON");
  EXPECT_EQ(complaint("recording-2", "recording-9"),
            "f: format is \"gpemu-recording-9\"; this gpemu reads \"gpemu-recording-2\"");
  EXPECT_EQ(complaint("\"gpu\":\"g\",", ""), "f: the file.gpu is not a string");
  EXPECT_EQ(complaint("\"gpu\"", "\"colour\":1,\"gpu\""), "f: the file.colour is not known");
  EXPECT_EQ(complaint("[1,2,3]", "[1,3,3]"), "f: batches are not three or more, ascending");
  EXPECT_EQ(complaint("[4,1]", "[4,1,2]"), "f: shapes[0][0] is neither one number nor two");
  EXPECT_EQ(complaint("[4,1]", "4.5"),
            "f: shapes[0][0] is not a whole number in the possible range");
  EXPECT_EQ(complaint("[4,1]", "[9223372036854775807,1]"),
            "f: shapes[0][0] is not a whole number in the possible range");
  EXPECT_EQ(complaint("\"set\"", "\"sit\""), "f: calls[0].op has the unknown value \"sit\"");
  EXPECT_EQ(complaint("[[0,0]]", "[[0,1]]"), "f: operations[0] does not name a call and a shape");
  EXPECT_EQ(complaint("[[0,0]]", "[[-1,0]]"), "f: operations[0] does not name a call and a shape");
  EXPECT_EQ(complaint("[[0,0]]", "[7]"), "f: operations[0] does not name a call and a shape");
  EXPECT_EQ(complaint("[0,0,0]", "[0,1]"), "f: phases[0].operations has a number outside 0 to 0");
  EXPECT_EQ(complaint("[0,0,0]", "[-1]"), "f: phases[0].operations has a number outside 0 to 0");
  EXPECT_EQ(complaint("\"class\"", "\"channels_last\":0,\"class\""),
            "f: calls[0].channels_last is not true");
  EXPECT_EQ(complaint("{\"fullest\"", "[\"fullest\""), "f: the file is not JSON");
  EXPECT_EQ(complaint("\"fullest\":[[", "\"fullest\":[7,["), "f: memory.fullest is not a list");
  EXPECT_EQ(complaint("[3,16]", "[-3,16]"), "f: memory.fullest[0] is not a count and a size");
  EXPECT_EQ(complaint("[3,16]", "[3]"), "f: memory.fullest[0] is not a count and a size");
  EXPECT_EQ(complaint("[3,16]", "[3,\"16\"]"),
            "f: memory.fullest is not a whole number in the possible range");
  EXPECT_EQ(complaint("\"after\":[]", "\"later\":[]"), "f: memory.after is not a list");
}

}  // namespace
}  // namespace gpemu::step
