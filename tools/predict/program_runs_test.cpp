// SPDX-License-Identifier: Apache-2.0
#include "predict/program_runs.hpp"

#include <atomic>
#include <barrier>
#include <mutex>

#include <gtest/gtest.h>

namespace gpemu::tools {
namespace {

profile::GpuSpec gpu(std::string name, int major, int minor) {
  profile::GpuSpec spec;
  spec.name = std::move(name);
  spec.compute_capability_major = major;
  spec.compute_capability_minor = minor;
  return spec;
}

const profile::GpuSpec kOld = gpu("K80", 3, 7);
const profile::GpuSpec kVolta = gpu("V100", 7, 0);
const profile::GpuSpec kAmpere = gpu("A100-SXM4-80GB", 8, 0);
const profile::GpuSpec kHopper = gpu("H100", 9, 0);

/// A program that runs from a compute capability on, with as many elements as its batch.
class ProgramRunsTest : public testing::Test {
 protected:
  ProgramRuns runs() {
    return {{.words = {"program"}},
            {.gpu = [](const std::string& name) { return find(name); },
             .gpu_names = [] { return std::vector<std::string>{"K80", "V100", "H100"}; },
             .record = [this](const run::ProgramRunOptions& options,
                              const std::string& label) { return record(options, label); },
             .at_once = at_once_}};
  }

  std::vector<std::string> recorded_;  ///< by label, in their order.
  int least_major_ = 3;
  bool takes_batch_ = true;
  Bytes least_memory_ = 0;
  Bytes peak_memory_ = 0;  ///< with plenty of memory; a GiB within that of a GPU.
  int at_once_ = 1;
  std::function<bool(const std::string& label)> may_run_ = [](const auto&) { return true; };

 private:
  static Result<profile::GpuSpec> find(const std::string& name) {
    for (const profile::GpuSpec& known : {kOld, kVolta, kAmpere, kHopper}) {
      if (known.name == name) return known;
    }
    return fail(ErrorCode::kNotFound, "no such GPU");
  }

  Result<run::ProgramRun> record(const run::ProgramRunOptions& options, const std::string& label) {
    {
      const std::scoped_lock lock(mutex_);
      recorded_.push_back(label);
    }
    if (!may_run_(label)) return fail(ErrorCode::kNotFound, "the port is in use");
    if (options.gpu.compute_capability_major < least_major_) {
      return fail(ErrorCode::kNotFound, "Traceback:\n  | RuntimeError: no kernel\n  | bye");
    }
    if (options.memory > 0 && options.memory < least_memory_) {
      return fail(ErrorCode::kNotFound, "out of memory");
    }
    run::ProgramRun seen{.gpu = options.gpu, .batch = options.batch};
    seen.peak_memory = options.memory > 0 ? kGiB : peak_memory_;
    step::RecordedOperation operation;
    operation.shape[0].constant = takes_batch_ ? options.batch : 1;
    seen.work.operations = {operation};
    seen.work.events = {{.kind = record::WorkEvent::Kind::kOperation}};
    seen.step = {.begin = 0, .end = 1};
    return seen;
  }

  std::mutex mutex_;
};

TEST_F(ProgramRunsTest, RecordsOnceForEachCapabilityTheNewestFirst) {
  ProgramRuns all = runs();
  ASSERT_TRUE(all.record({kVolta, kHopper, gpu("V100-SXM2", 7, 0)}, {0}));
  EXPECT_EQ(recorded_, (std::vector<std::string>{"H100", "V100"}));
  EXPECT_EQ(all.find(kVolta, 0).first->gpu.name, "V100");
  EXPECT_EQ(all.find(kVolta, 0).second, "");
}

TEST_F(ProgramRunsTest, RecordsSideBySideAfterTheFirstThatSucceeds) {
  at_once_ = 2;
  std::barrier both(2);
  may_run_ = [&both](const std::string& label) {
    if (label != "H100, batch 8") both.arrive_and_wait();  // It would hang if it were alone.
    return true;
  };
  ProgramRuns all = runs();
  ASSERT_TRUE(all.record({kVolta, kHopper, kOld}, {8}));
  EXPECT_EQ(recorded_.front(), "H100, batch 8");
  EXPECT_EQ(recorded_.size(), 3U);
  EXPECT_EQ(all.find(kOld, 8).first->gpu.name, "K80");
}

TEST_F(ProgramRunsTest, RepeatsAloneWhatFailsBesideAnother) {
  at_once_ = 2;
  may_run_ = [](const std::string& label) { return label != "V100, batch 8"; };
  ProgramRuns all = runs();
  ASSERT_TRUE(all.record({kVolta, kHopper, kOld}, {8}));
  EXPECT_EQ(recorded_.back(), "V100, batch 8, alone");
  EXPECT_EQ(all.find(kVolta, 8).first->gpu.name, "V100");
  EXPECT_EQ(all.find(kVolta, 8).second, "");
}

TEST_F(ProgramRunsTest, TriesACommonGpuForABatchThatFailsLater) {
  at_once_ = 2;
  may_run_ = [](const std::string& label) {
    return !label.contains("batch 16") || label.starts_with("A100");
  };
  ProgramRuns all = runs();
  ASSERT_TRUE(all.record({kVolta, kHopper}, {8, 16}));
  EXPECT_EQ(recorded_.back(), "A100-SXM4-80GB, batch 16");
  EXPECT_EQ(all.find(kVolta, 16).first->gpu.name, "A100-SXM4-80GB");
}

TEST_F(ProgramRunsTest, RepeatsAloneWhatDidNotFitBesideAnother) {
  std::atomic<int> calls = 0;
  ProgramRuns all({.words = {"program"}},
                  {.gpu = [](const std::string&) -> Result<profile::GpuSpec> { return kVolta; },
                   .gpu_names = {},
                   .record = [&calls](const run::ProgramRunOptions& options,
                                      const std::string& label) -> Result<run::ProgramRun> {
                     ++calls;
                     const bool fits = options.batch == 8 || label.ends_with(", alone");
                     if (!fits) return fail(ErrorCode::kIo, "no space for records");
                     return run::ProgramRun{.gpu = options.gpu, .batch = options.batch};
                   },
                   .at_once = 2});
  ASSERT_TRUE(all.record({kVolta}, {8, 16, 32, 64, 128}));
  for (const int batch : {16, 32, 64, 128}) EXPECT_NE(all.find(kVolta, batch).first, nullptr);
  EXPECT_LE(calls, 1 + 2 + 4) << "after the first fault, no more start side by side";
}

TEST_F(ProgramRunsTest, EndsWithAFaultThatIsNotThePrograms) {
  ProgramRuns all({.words = {"program"}},
                  {.gpu = [](const std::string&) -> Result<profile::GpuSpec> { return kVolta; },
                   .gpu_names = {},
                   .record = [](const run::ProgramRunOptions& options,
                                const std::string&) -> Result<run::ProgramRun> {
                     if (options.batch > 8) return fail(ErrorCode::kInterrupted, "stopped");
                     return run::ProgramRun{.gpu = options.gpu, .batch = options.batch};
                   },
                   .at_once = 2});
  EXPECT_EQ(all.record({kVolta}, {8, 16, 32, 64}).error().code, ErrorCode::kInterrupted);
}

TEST_F(ProgramRunsTest, TakesANewerGpuWhereTheProgramDoesNotRun) {
  least_major_ = 7;
  ProgramRuns all = runs();
  ASSERT_TRUE(all.record({kOld, kHopper, kVolta}, {32}));
  const auto [seen, reason] = all.find(kOld, 32);
  EXPECT_EQ(seen->gpu.name, "V100");
  EXPECT_EQ(reason, "fails at compute capability 3.7: RuntimeError: no kernel");
}

TEST_F(ProgramRunsTest, TriesACommonGpuWhereTheProgramRunsOnNone) {
  least_major_ = 8;
  ProgramRuns all = runs();
  ASSERT_TRUE(all.record({kOld, kVolta}, {0}));
  EXPECT_EQ(recorded_, (std::vector<std::string>{"V100", "K80", "A100-SXM4-80GB"}));
  EXPECT_EQ(all.find(kOld, 0).first->gpu.name, "A100-SXM4-80GB");
}

TEST_F(ProgramRunsTest, FailsAsTheFirstRecordingDidWhereThereIsNone) {
  least_major_ = 10;
  ProgramRuns all = runs();
  const auto recorded = all.record({kVolta}, {0});
  ASSERT_FALSE(recorded);
  EXPECT_TRUE(recorded.error().message.starts_with("Traceback:"));
}

TEST_F(ProgramRunsTest, EmulatesTheNearestKnownGpuForOneThatAFileDescribes) {
  ProgramRuns all = runs();
  ASSERT_TRUE(all.record({gpu("my-gpu", 7, 5)}, {0}));
  EXPECT_EQ(recorded_, std::vector<std::string>{"V100"});
}

TEST_F(ProgramRunsTest, RecordsWithinTheMemoryOfAGpuThatSeemsTooSmall) {
  profile::GpuSpec small = kVolta;
  small.memory_bytes = 4 * kGiB;
  ProgramRuns all = runs();
  ASSERT_TRUE(all.record({small}, {8}));
  peak_memory_ = 2 * kGiB;
  const auto fits = all.find_within(small, 8);
  ASSERT_TRUE(fits);
  EXPECT_EQ(fits->asked_for, 0);
  EXPECT_EQ(recorded_.size(), 1U) << "it need not run again";

  peak_memory_ = 20 * kGiB;  // As an allocator that keeps what is freed.
  ProgramRuns large = runs();
  ASSERT_TRUE(large.record({small}, {8}));
  const auto again = large.find_within(small, 8);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->asked_for, 20 * kGiB);
  EXPECT_EQ(again->run->peak_memory, kGiB);
  EXPECT_LE(needed_memory(*again->run, small), small.memory_bytes);
  EXPECT_EQ(recorded_.size(), 3U);

  least_memory_ = 5 * kGiB;
  const auto never = large.find_within(small, 8);
  ASSERT_TRUE(never);
  EXPECT_EQ(never->asked_for, 0);
  EXPECT_EQ(never->run->peak_memory, 20 * kGiB);
}

TEST_F(ProgramRunsTest, RefusesAProgramThatDoesTheSameAtEachBatch) {
  ProgramRuns all = runs();
  ASSERT_TRUE(all.record({kVolta}, {8, 16}));
  EXPECT_TRUE(all.check_batches());
  takes_batch_ = false;
  ProgramRuns same = runs();
  ASSERT_TRUE(same.record({kVolta}, {8, 16}));
  EXPECT_EQ(same.check_batches().error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace gpemu::tools
