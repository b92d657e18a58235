// SPDX-License-Identifier: Apache-2.0
#include "predict/sharing.hpp"

#include <chrono>
#include <memory>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "gpemu/device/device_config.hpp"

namespace gpemu::tools {
namespace {

using std::chrono::milliseconds;

/// A program that computes for a part of its step and waits for the host in the rest.
PredictAnswer program(int step_ms, int compute_ms, Bytes memory = kGiB) {
  PredictAnswer answer{.gpu = {}, .program_run = nullptr, .step = {}, .why_other = {}};
  answer.gpu.name = "GPU";
  answer.gpu.generation = profile::generation_facts(8, 0).value();
  answer.gpu.memory_bytes = 4 * kGiB;
  run::ProgramRun seen;
  seen.peak_memory = memory;
  answer.program_run = std::make_shared<const run::ProgramRun>(std::move(seen));
  answer.step.time = {.time = milliseconds(step_ms), .relative_error = 0.1};
  answer.step.busy = milliseconds(compute_ms);
  answer.step.kernels = 10;
  answer.step.parts[static_cast<std::size_t>(predict::StepLimit::kCompute)] =
      milliseconds(compute_ms);
  answer.step.parts[static_cast<std::size_t>(predict::StepLimit::kHost)] =
      milliseconds(step_ms - compute_ms);
  return answer;
}

SharingReport report_of(std::vector<PredictAnswer> programs, const std::string& sharing) {
  SharingReport report{.programs = {{"python", "train.py"}, {"python", "other.py"}},
                       .sharing = sharing,
                       .provenance = {},
                       .answers = {{.programs = std::move(programs), .speeds = {}}}};
  SharingAnswer& answer = report.answers.front();
  answer.speeds = speeds_together(answer.programs, sharing);
  return report;
}

TEST(Sharing, BusyProgramsGetHalfOfTheTimeLessSwitches) {
  const SharingReport report = report_of({program(10, 10), program(20, 20)}, "time-slices");
  const double half = 2 / 2.145 / 2;
  EXPECT_NEAR(report.answers[0].speeds[0].speed, half, 1e-9);
  EXPECT_NEAR(report.answers[0].speeds[1].speed, half, 1e-9);
  const nlohmann::ordered_json json = sharing_json(report);
  const auto& together = json["answers"][0]["programs"][1]["together"];
  EXPECT_NEAR(together["ms"], 20 / half, 1e-5);
  EXPECT_EQ(together["limit"], "the other programs");
  EXPECT_NEAR(together["relative_error"], 1.1 * (1 + cost::kTimeSlicesBar) - 1, 1e-9)
      << "both are always busy, however wrong the times are";
}

TEST(Sharing, BarsIncludeThoseOfTheTimesAlone) {
  PredictAnswer half = program(10, 5);
  half.step.host = milliseconds(10);
  const double sure = speeds_together({half, half}, "time-slices")[0].relative_error;
  half.step.kernel_error = 0.5;
  EXPECT_GT(speeds_together({half, half}, "time-slices")[0].relative_error, sure);
  EXPECT_GT(sure, cost::kTimeSlicesBar) << "another host may be twice as slow or as fast";
}

TEST(Sharing, ProgramsThatWaitForTheHostHardlyDisturbEachOther) {
  const SharingReport report = report_of({program(10, 1), program(10, 2)}, "time-slices");
  const nlohmann::ordered_json json = sharing_json(report);
  EXPECT_GT(json["answers"][0]["programs"][0]["together"]["speed"], 0.97);
  EXPECT_EQ(json["answers"][0]["programs"][0]["together"]["limit"], "host launch");
}

TEST(Sharing, SideBySideNarrowKernelsFitBesideEachOther) {
  PredictAnswer narrow = program(10, 5);
  narrow.step.busy = milliseconds(10);  // Half of it in kernels that fill nothing.
  EXPECT_NEAR(speeds_together({narrow, narrow}, "mps")[0].speed, 1, 1e-9);
  EXPECT_LT(speeds_together({narrow, narrow}, "time-slices")[0].speed, 0.5);
}

TEST(Sharing, MemoryIsSharedToo) {
  const SharingReport report =
      report_of({program(10, 5, 2 * kGiB), program(10, 5, 2 * kGiB)}, "time-slices");
  EXPECT_EQ(report.answers[0].needed_memory(), 4 * kGiB + 2 * 400 * kMiB);
  EXPECT_FALSE(report.answers[0].fits());
  EXPECT_EQ(sharing_json(report)["answers"][0]["programs"][0]["together"], nullptr);
  EXPECT_TRUE(sharing_text(report, {}).contains("need 4896 of 4096 MiB together: they do not fit"));
  EXPECT_TRUE(sharing_text(report_of({program(10, 5), program(10, 5)}, "mps"), {})
                  .contains("together: they fit"));
}

TEST(Sharing, AScriptRunsLikeTheFirstProgram) {
  const std::vector<std::string> first = {"python3", "train.py", "--size", "8"};
  EXPECT_EQ(*words_beside("other.py", first), (std::vector<std::string>{"python3", "other.py"}));
  EXPECT_EQ(*words_beside("  ./other  --size 8 ", first),
            (std::vector<std::string>{"./other", "--size", "8"}));
  EXPECT_FALSE(words_beside(" ", first));
}

}  // namespace
}  // namespace gpemu::tools
