// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/test_world.hpp"

namespace gpemu::tools {
namespace {

class PredictCommandTest : public testing::Test {
 protected:
  PredictCommandTest() {
    made_up_.variables["PATH"] = "/bin";
    made_up_.recording = [this](const run::ProgramRunOptions& options) { return record(options); };
  }

  /// Returns the outcome of `gpemu predict OPTIONS -- sh`.
  [[nodiscard]] Outcome predict(std::vector<std::string> options) const {
    options.insert(options.begin(), "predict");
    options.insert(options.end(), {"--", "sh"});
    return made_up_.run(std::move(options));
  }

  TestWorld made_up_;
  std::vector<run::ProgramRunOptions> recorded_;
  Bytes peak_memory_ = kGiB;
  bool takes_batch_ = true;
  std::optional<Error> fault_;

 private:
  /// Records a step of one operation, on as many elements as the batch.
  Result<run::ProgramRun> record(const run::ProgramRunOptions& options) {
    recorded_.push_back(options);
    made_up_.clock.wait_until(made_up_.clock.now() + std::chrono::seconds(2));
    if (fault_) return std::unexpected(*fault_);
    step::RecordedOperation operation;
    operation.shape[0].constant = takes_batch_ ? options.batch : 1;
    run::ProgramRun seen{.gpu = options.gpu, .batch = options.batch};
    seen.work.operations = {operation};
    seen.work.events = {{.kind = record::WorkEvent::Kind::kOperation}};
    seen.found.steps = {{0, 1}};
    seen.step = {.begin = 0, .end = 1};
    seen.peak_memory = peak_memory_;
    return seen;
  }
};

TEST_F(PredictCommandTest, RecordsOnceForEachCapabilityAndBatch) {
  const Outcome outcome =
      predict({"--gpu", "T4,V100", "--batch", "8,16", "--steps", "3", "--json", "-"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.errors,
            "gpemu: T4, batch 8: recording\ngpemu: T4, batch 8: 1 steps in 2.0 s\n"
            "gpemu: V100-PCIE-32GB, batch 8: recording\n"
            "gpemu: V100-PCIE-32GB, batch 8: 1 steps in 2.0 s\n"
            "gpemu: T4, batch 16: recording\ngpemu: T4, batch 16: 1 steps in 2.0 s\n"
            "gpemu: V100-PCIE-32GB, batch 16: recording\n"
            "gpemu: V100-PCIE-32GB, batch 16: 1 steps in 2.0 s\n");
  ASSERT_EQ(recorded_.size(), 4U);
  EXPECT_EQ(recorded_.front().words, std::vector<std::string>{"sh"});
  EXPECT_EQ(recorded_.front().steps, 3);
  EXPECT_EQ(recorded_.front().memory, 0);
  EXPECT_EQ(recorded_.front().pattern, nullptr);
  EXPECT_EQ(parsed(outcome.output)["format"], "gpemu-predict-1");
}

TEST_F(PredictCommandTest, RecordsAgainWithTheMemoryOfAGpuThatIsTooSmall) {
  peak_memory_ = 20 * kGiB;
  const Outcome outcome = predict({"--gpu", "T4", "--step-pattern", "gemm"});
  EXPECT_EQ(outcome.code, 0);
  ASSERT_EQ(recorded_.size(), 2U);
  EXPECT_EQ(recorded_[1].memory, recorded_[1].gpu.memory_bytes);
  EXPECT_NE(recorded_[1].pattern, nullptr);
  EXPECT_TRUE(outcome.errors.contains("recording with its 15095 MiB\n")) << outcome.errors;
}

TEST_F(PredictCommandTest, RecordsRankZeroOfEachNumberOfGpus) {
  const std::string torchrun = (made_up_.folder / "torchrun").string();
  std::filesystem::copy_file("/bin/true", torchrun);
  const Outcome outcome = made_up_.run(
      {"predict", "--gpu", "T4", "--gpus", "8,2", "--json", "-", "--", torchrun, "train.py"});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  ASSERT_EQ(recorded_.size(), 3U) << "one GPU, too";
  EXPECT_EQ(
      recorded_.back().words,
      (std::vector<std::string>{torchrun, "--standalone", "--nproc-per-node", "8", "train.py"}));
  EXPECT_EQ(recorded_.back().real_ranks, 1);
  EXPECT_TRUE(outcome.errors.contains("gpemu: T4, 8 GPUs: recording\n")) << outcome.errors;
  EXPECT_EQ(parsed(outcome.output)["topology"], nullptr);
  EXPECT_EQ(parsed(outcome.output)["answers"].size(), 3U);
}

TEST_F(PredictCommandTest, RecordsEachOfTheProgramsThatShareAGpu) {
  const Outcome outcome = predict({"--gpu", "T4,V100", "--batch", "8,16", "--with", "sh other.sh",
                                   "--with", "sh", "--json", "-"});
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  ASSERT_EQ(recorded_.size(), 8U) << "two batches of the first, on two capabilities";
  EXPECT_EQ(recorded_[4].words, (std::vector<std::string>{"sh", "other.sh"}));
  EXPECT_EQ(recorded_[4].batch, 0);
  EXPECT_TRUE(outcome.errors.contains("gpemu: T4, other.sh: recording\n")) << outcome.errors;
  const nlohmann::json json = parsed(outcome.output);
  EXPECT_EQ(json["format"], "gpemu-sharing-1");
  ASSERT_EQ(json["answers"].size(), 4U);
  EXPECT_EQ(json["answers"][3]["gpu"], "V100-PCIE-32GB");
  ASSERT_EQ(json["answers"][3]["programs"].size(), 3U);
  EXPECT_EQ(json["answers"][3]["programs"][0]["batch"], 16);
}

TEST_F(PredictCommandTest, RefusesOptionsThatSharingDoesNotKnow) {
  EXPECT_EQ(predict({"--gpu", "T4", "--with", "sh", "--gpus", "2"}).code, 2);
  EXPECT_EQ(predict({"--gpu", "T4", "--with", "sh", "--plot", "x.svg"}).code, 2);
  EXPECT_EQ(predict({"--gpu", "T4", "--sharing", "mps"}).code, 2);
  EXPECT_EQ(predict({"--gpu", "T4", "--with", " "}),
            (Outcome{2, "", "gpemu: --with: a program was expected\n"}));
  EXPECT_TRUE(predict({"--gpu", "T4", "--with", "none.py"}).code == 0)
      << "sh runs the script: it is the first program's interpreter";
  EXPECT_NE(predict({"--gpu", "T4", "--with", "no-such-program x"}).code, 0);
}

TEST_F(PredictCommandTest, RefusesGpusBeforeItRunsTheProgram) {
  EXPECT_EQ(predict({"--gpu", "T4", "--topology", "no-such-machine", "--gpus", "8"}).code, 3);
  EXPECT_TRUE(
      predict({"--gpu", "T4", "--gpus", "2"}).errors.contains("neither Python nor torchrun"));
  EXPECT_EQ(predict({"--gpu", "T4", "--topology", "dgx-1v"}).code, 2);
  EXPECT_TRUE(recorded_.empty());
}

TEST_F(PredictCommandTest, RefusesAProgramThatDoesNotTakeItsBatch) {
  takes_batch_ = false;
  const Outcome outcome = predict({"--gpu", "T4", "--batch", "8,16"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_TRUE(
      outcome.errors.contains("gpemu: the program does the same work at batches 8 and 16: "))
      << outcome.errors;
}

TEST_F(PredictCommandTest, FailsAsItsRecordingDid) {
  const std::string start = "gpemu: T4: recording\n";
  fault_ = Error{ErrorCode::kInterrupted, "stopped; the program was ended"};
  EXPECT_EQ(predict({"--gpu", "T4"}),
            (Outcome{130, "", start + "gpemu: stopped; the program was ended\n"}));
  fault_ = Error{ErrorCode::kIo, "no space for records"};
  EXPECT_EQ(predict({"--gpu", "T4"}), (Outcome{7, "", start + "gpemu: no space for records\n"}));
  made_up_.recording = [](const auto&) { return fail(ErrorCode::kNotFound, "no steps"); };
  const Outcome none = predict({"--gpu", "T4"});
  EXPECT_EQ(none.code, 3);
  EXPECT_TRUE(none.errors.starts_with(start + "gpemu: T4: no steps after 0.0 s\n")) << none.errors;
}

TEST_F(PredictCommandTest, RefusesOptionsBeforeItRunsTheProgram) {
  EXPECT_EQ(predict({"--gpu", "T4", "--plot", "x.png"}),
            (Outcome{2, "",
                     "gpemu: --plot x.png: plots are SVG, so the name must end in .svg; "
                     "rsvg-convert converts one to PNG\n"}));
  const Outcome pattern = predict({"--gpu", "T4", "--step-pattern", "("});
  EXPECT_EQ(pattern.code, 2);
  EXPECT_TRUE(pattern.errors.starts_with("gpemu: --step-pattern (: ")) << pattern.errors;
  const Outcome gpu = predict({"--gpu", "T5"});
  EXPECT_EQ(gpu.code, 3);
  EXPECT_TRUE(gpu.errors.contains("T5")) << gpu.errors;
  EXPECT_TRUE(recorded_.empty());
}

}  // namespace
}  // namespace gpemu::tools
