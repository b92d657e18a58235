// SPDX-License-Identifier: Apache-2.0
#include "recorded_steps.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace gpemu::run {
namespace {

using Words = std::vector<std::string>;
using Kind = record::WorkEvent::Kind;

/// Work of operations that are named by a letter each.
record::ProgramWork work_of(std::string_view letters) {
  record::ProgramWork work;
  for (const char letter : letters) {
    step::RecordedOperation operation;
    operation.name = letter;
    const auto known = std::ranges::find(work.operations, operation);
    const auto index = static_cast<int>(known - work.operations.begin());
    if (known == work.operations.end()) work.operations.push_back(operation);
    work.events.push_back({.kind = Kind::kOperation, .index = index});
  }
  return work;
}

Result<predict::FoundSteps> found_until(std::size_t end) {
  return predict::FoundSteps{.steps = {{0, end / 2}, {end / 2, end}}};
}

TEST(WithBatch, ReplacesEachPlace) {
  EXPECT_EQ(with_batch({"train", "-b{batch}", "{batch}x{batch}", "{b}"}, 16),
            (Words{"train", "-b16", "16x16", "{b}"}));
  EXPECT_EQ(with_batch({"{batch}"}, 0), Words{"{batch}"});
}

TEST(NotComputedText, NamesTheKernelWithTheMostBytes) {
  std::vector<record::RecordedProcess> processes(2);
  EXPECT_EQ(not_computed_text(processes), "");
  const auto add = [](record::RecordedProcess& process, int at, std::string_view writer,
                      int bytes) {
    writer.copy(process.totals.reads[at].writer, writer.size());
    process.totals.reads[at].count = 1;
    process.totals.reads[at].bytes = bytes;
    process.totals.not_computed_bytes += bytes;
  };
  add(processes[0], 0, "exp", 4);
  add(processes[0], 1, "randn", 12);
  add(processes[1], 0, "sin", 8);
  EXPECT_EQ(not_computed_text(processes),
            "the program read 24 bytes that were not computed: zeros, or values from before an "
            "in-place update, most of randn; gpemu run lists them");
}

TEST(RecordedEnough, CountsSteps) {
  EXPECT_TRUE(recorded_enough(found_until(10), 12, 2));
  EXPECT_FALSE(recorded_enough(found_until(10), 12, 3));
  EXPECT_FALSE(recorded_enough(fail(ErrorCode::kNotFound, "none"), 12, 1));
}

TEST(RecordedEnough, GivesUpAProgramWithoutFurtherSteps) {
  constexpr std::size_t kMany = 1'000'000;
  EXPECT_FALSE(recorded_enough(found_until(10), kMany + 9, 3));
  EXPECT_TRUE(recorded_enough(found_until(10), kMany + 10, 3));
  const auto none = [](std::size_t events) {
    return recorded_enough(fail(ErrorCode::kNotFound, "none"), events, 3);
  };
  EXPECT_FALSE(none(kMany - 1));
  EXPECT_TRUE(none(kMany));
}

class StepsOfRunTest : public testing::Test {
 protected:
  static std::string error_of(const Result<predict::FoundSteps>& found) {
    EXPECT_FALSE(found);
    EXPECT_EQ(found.error().code, ErrorCode::kNotFound);
    return found.error().message;
  }

  const predict::NamePattern pattern_ = predict::NamePattern::read("s").value();
  const record::ProgramWork work_ = work_of("saasaasaasa");
};

TEST_F(StepsOfRunTest, AreTheFirstOfThoseWanted) {
  const auto three = steps_of_run(&work_, &pattern_, 5, {});
  ASSERT_TRUE(three);
  EXPECT_EQ(three->steps.size(), 3U);
  const auto two = steps_of_run(&work_, &pattern_, 2, {});
  ASSERT_TRUE(two);
  ASSERT_EQ(two->steps.size(), 2U);
  EXPECT_EQ(two->steps[0].begin, 0U);
  EXPECT_EQ(two->steps[1].end, 6U);
}

TEST_F(StepsOfRunTest, CountAlsoIfTheProgramFailedLater) {
  EXPECT_TRUE(steps_of_run(&work_, &pattern_, 5, {.exit_code = 1, .output = {}}));
}

TEST_F(StepsOfRunTest, AFewRepetitionsCountOnlyIfTheProgramEnded) {
  const record::ProgramWork work = work_of("abcabcabcabc");
  EXPECT_TRUE(steps_of_run(&work, nullptr, 5, {.exit_code = 0, .output = {}}));
  EXPECT_FALSE(steps_of_run(&work, nullptr, 5, {.exit_code = {}, .output = {}}));
  EXPECT_FALSE(steps_of_run(&work, nullptr, 5, {.exit_code = 1, .output = {}}));
}

TEST_F(StepsOfRunTest, NoneWithoutTheGpu) {
  EXPECT_EQ(error_of(steps_of_run(nullptr, &pattern_, 5, {.exit_code = 0, .output = "hello\n"})),
            "the program ended without using the GPU\n  | hello");
  EXPECT_EQ(error_of(steps_of_run(nullptr, &pattern_, 5, {.exit_code = 2, .output = "oh\n"})),
            "the program ended with exit code 2 without using the GPU\n  | oh");
}

TEST_F(StepsOfRunTest, NoneOfAProgramThatFailedEarly) {
  const record::ProgramWork work = work_of("sa");
  const RunEnd failed{.exit_code = 137, .output = "killed"};
  EXPECT_EQ(error_of(steps_of_run(&work, &pattern_, 5, failed)),
            "the program ended with exit code 137 before its second step\n  | killed");
  const RunEnd misled{.exit_code = 1, .output = "Error: x", .not_computed = "the program read 4"};
  EXPECT_EQ(error_of(steps_of_run(&work, &pattern_, 5, misled)),
            "the program ended with exit code 1 before its second step; the program read 4\n"
            "  | Error: x");
  // If it did not fail, its output does not help.
  const RunEnd ended{.exit_code = 0, .output = "done"};
  EXPECT_EQ(error_of(steps_of_run(&work, &pattern_, 5, ended)).find("done"), std::string::npos);
}

TEST(LastLines, AreAtMostFifteen) {
  std::string output, shown;
  for (int i = 1; i <= 20; ++i) output += "line " + std::to_string(i) + "\n";
  for (int i = 6; i <= 20; ++i) shown += "\n  | line " + std::to_string(i);
  EXPECT_EQ(last_lines(output), shown);
}

TEST(LastLines, KeepEmptyOnesExceptAtTheEnd) {
  EXPECT_EQ(last_lines("a\n\nb\n\n"), "\n  | a\n  | \n  | b");
  EXPECT_EQ(last_lines("a"), "\n  | a");
  EXPECT_EQ(last_lines("\n\n"), "");
  EXPECT_EQ(last_lines(""), "");
}

}  // namespace
}  // namespace gpemu::run
