// SPDX-License-Identifier: Apache-2.0
#include "gpemu/step/step_cost.hpp"

#include <algorithm>
#include <limits>

#include <gtest/gtest.h>

#include "gpemu/kernels/described_operation.hpp"
#include "gpemu/profile/database_writer.hpp"
#include "gpemu/step/step_bar.hpp"

#include "test_evidence.hpp"

namespace gpemu::step {
namespace {

using profile::Quantity;

StepCostModel make_model(StepEvidence known) {
  Result<StepCostModel> model = StepCostModel::from_evidence(std::move(known));
  EXPECT_TRUE(model) << model.error().message;
  return *std::move(model);
}

profile::MemoryLimit limit_for_test(int largest, std::optional<int> first_out_of_memory) {
  return {.model = "toynet",
          .gpu = "TOY",
          .precision = "fp32",
          .pack = "test",
          .largest_batch_measured = largest,
          .first_batch_out_of_memory = first_out_of_memory};
}

StepEvidence records_with_limit(int largest, std::optional<int> first_out_of_memory) {
  StepEvidence known = evidence_for_test();
  known.limit = limit_for_test(largest, first_out_of_memory);
  return known;
}

/// Checks that step() and the device's ledger have their boundary at largest_batch().
void expect_one_boundary(const StepCostModel& model) {
  const int largest = model.largest_batch();
  for (int batch = 1; batch <= largest; ++batch) {
    const Result<StepCost> cost = model.step(batch);
    ASSERT_TRUE(cost) << cost.error().message;
    EXPECT_LE(cost->memory.peak + cost->memory.reserved, model.gpu().memory_bytes) << batch;
    EXPECT_LE(cost->memory.persistent, cost->memory.peak) << batch;
  }
  for (const int batch : {largest + 1, largest + 2, 10 * largest, 1 << 30}) {
    const Result<StepCost> cost = model.step(batch);
    ASSERT_FALSE(cost) << batch;
    EXPECT_EQ(cost.error().code, ErrorCode::kOutOfMemory);
  }
}

TEST(StepCostModel, AnswersMeasuredBatchesExactly) {
  const StepCostModel model = make_model(evidence_for_test());
  const Result<StepCost> cost = model.step(16);
  ASSERT_TRUE(cost);
  EXPECT_EQ(cost->batch, 16);
  EXPECT_EQ(cost->forward.time, from_milliseconds(18));
  EXPECT_EQ(cost->forward.evidence, cost::Evidence::kMeasured);
  EXPECT_EQ(cost->backward_optimizer.time, from_milliseconds(36));
  EXPECT_EQ(cost->compute(), from_milliseconds(54));
  EXPECT_EQ(cost->copy_pageable.time, from_milliseconds(8));
  EXPECT_EQ(cost->memory.peak, 260 * kMiB);
  EXPECT_EQ(cost->memory.persistent, 60 * kMiB);
  EXPECT_EQ(cost->memory.evidence, cost::Evidence::kMeasured);
}

TEST(StepCostModel, SaysWhatEachNumberRestsOn) {
  const StepCostModel model = make_model(evidence_for_test());
  const Result<StepCost> inside = model.step(12);
  ASSERT_TRUE(inside);
  EXPECT_EQ(inside->forward.time, from_milliseconds(14));
  EXPECT_EQ(inside->forward.evidence, cost::Evidence::kInterpolated);
  EXPECT_EQ(inside->forward.relative_error, 0.02);
  const Result<StepCost> beyond = model.step(40);
  ASSERT_TRUE(beyond);
  EXPECT_EQ(beyond->forward.evidence, cost::Evidence::kExtrapolated);
  EXPECT_GT(beyond->forward.relative_error, 0.06);
  EXPECT_EQ(beyond->memory.evidence, cost::Evidence::kExtrapolated);
  EXPECT_EQ(beyond->memory.peak, 500 * kMiB);
}

TEST(StepCostModel, CopiesPinnedInputAtTheLinksRate) {
  const StepCostModel model = make_model(evidence_for_test());
  const Result<StepCost> cost = model.step(10);
  ASSERT_TRUE(cost);
  EXPECT_EQ(cost->copy_pinned.time, from_milliseconds(0.010));
  EXPECT_EQ(cost->copy_pinned.evidence, cost::Evidence::kAnalytic);
  EXPECT_GT(cost->copy_pinned.relative_error, 0);
  EXPECT_EQ(cost->copy_pageable.time, from_milliseconds(5));
}

TEST(StepCostModel, StopsWhereItWasMeasuredToRunOutOfMemory) {
  const StepCostModel model = make_model(records_with_limit(40, 41));
  EXPECT_EQ(model.largest_batch(), 40);
  expect_one_boundary(model);
}

TEST(StepCostModel, RefusesTheGapBetweenTheLastThatRanAndTheFirstThatDidNot) {
  const StepCostModel model = make_model(records_with_limit(40, 48));
  EXPECT_EQ(model.largest_batch(), 40);
  expect_one_boundary(model);
}

TEST(StepCostModel, BelievesAMeasuredBoundaryBeforeThePeaks) {
  // 20 samples peak at 300 MiB: far below the capacity, but the next batch did not run.
  StepEvidence known = records_with_limit(20, 21);
  known.gpu.usable_memory_bytes = 900 * kMiB;
  const StepCostModel model = make_model(std::move(known));
  EXPECT_EQ(model.largest_batch(), 20);
  expect_one_boundary(model);
}

TEST(StepCostModel, UsesTheCalibratedMemoryWhereEverythingRan) {
  StepEvidence known = records_with_limit(32, std::nullopt);
  known.gpu.usable_memory_bytes = 800 * kMiB;
  const StepCostModel model = make_model(std::move(known));
  EXPECT_EQ(model.largest_batch(), 70);  // 100 MiB and 10 MiB a sample.
  EXPECT_EQ(model.step(1)->memory.reserved, 200 * kMiB);
  expect_one_boundary(model);
}

TEST(StepCostModel, KeepsAShareFreeWhereNobodyCalibrated) {
  StepEvidence known = evidence_for_test();
  known.gpu.memory_bytes = 2000 * kMiB;
  const StepCostModel model = make_model(std::move(known));
  EXPECT_EQ(model.largest_batch(), 175);  // 93 % of 2000 MiB are 1860 MiB, and 1750 + 100 MiB fit.
  expect_one_boundary(model);
}

TEST(StepCostModel, AcceptsWhateverWasMeasuredToRun) {
  StepEvidence known = records_with_limit(32, std::nullopt);
  known.gpu.usable_memory_bytes = 400 * kMiB;  // below the peak of batch 32, which ran.
  const StepCostModel model = make_model(std::move(known));
  EXPECT_EQ(model.largest_batch(), 32);
  expect_one_boundary(model);
}

TEST(StepCostModel, NeverExceedsTheCapacityOfAnEditedGpu) {
  StepEvidence known = records_with_limit(40, 41);
  known.gpu.memory_bytes = 300 * kMiB;
  StepCostModel model = make_model(std::move(known));
  EXPECT_EQ(model.largest_batch(), 20);
  expect_one_boundary(model);

  known = evidence_for_test();
  known.gpu.memory_bytes = 50 * kMiB;
  model = make_model(std::move(known));
  EXPECT_EQ(model.largest_batch(), 0);
  EXPECT_EQ(model.step(1).error().code, ErrorCode::kOutOfMemory);
}

TEST(StepCostModel, SaysWhatABatchNeedsAndWhatThereIs) {
  StepEvidence known = records_with_limit(32, std::nullopt);
  known.gpu.usable_memory_bytes = 800 * kMiB;
  const StepCostModel model = make_model(std::move(known));
  EXPECT_EQ(model.step(100).error().message,
            "toynet with batch 100 does not fit in TOY: it needs about 1100 MiB, and 800 of 1000 "
            "MiB can be used; the largest batch that fits is 70");
}

TEST(StepCostModel, RefusesBatchesThatAreNone) {
  const StepCostModel model = make_model(evidence_for_test());
  for (const int batch : {0, -1, std::numeric_limits<int>::min()}) {
    ASSERT_FALSE(model.step(batch));
    EXPECT_EQ(model.step(batch).error().code, ErrorCode::kInvalidArgument);
  }
}

TEST(StepCostModel, MarksMemoryOfAnotherGpu) {
  StepEvidence known = evidence_for_test();
  known.curves[3].key.gpu = "OTHER";
  const StepCostModel model = make_model(std::move(known));
  const Result<StepCost> cost = model.step(16);
  ASSERT_TRUE(cost);
  EXPECT_EQ(cost->memory.evidence, cost::Evidence::kExtrapolated);
  EXPECT_GT(cost->memory.relative_error, 0);
  EXPECT_EQ(cost->forward.evidence, cost::Evidence::kMeasured);
}

TEST(StepCostModel, NamesTheQuantityThatNobodyMeasured) {
  StepEvidence known = evidence_for_test();
  known.curves.erase(known.curves.begin() + 3);
  const Result<StepCostModel> model = StepCostModel::from_evidence(std::move(known));
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(model.error().message, "no peak_memory of toynet at fp32 was measured for TOY");
}

TEST(StepCostModel, RefusesRecordsThatContradictThemselves) {
  for (StepEvidence known : {records_with_limit(40, 40), records_with_limit(0, 1)}) {
    const Result<StepCostModel> model = StepCostModel::from_evidence(std::move(known));
    ASSERT_FALSE(model);
    EXPECT_EQ(model.error().code, ErrorCode::kCorruptData);
  }
  StepEvidence shapeless = evidence_for_test();
  shapeless.model.input_shape = {};
  EXPECT_EQ(StepCostModel::from_evidence(std::move(shapeless)).error().code,
            ErrorCode::kCorruptData);
}

std::string gpu_toml(std::string_view name) {
  return fmt::format(R"(name = "{}"
product_name = "Toy"
architecture = "Toy"
[compute]
capability = {{ value = 7.0, source = "s" }}
multiprocessors = {{ value = 1, source = "s" }}
cuda_cores = {{ value = 64, source = "s" }}
boost_clock_mhz = {{ value = 1000, source = "s" }}
fp32_tflops = {{ value = 0.128, source = "s" }}
[memory]
capacity_mib = {{ value = 1000, source = "s" }}
bandwidth_gb_per_s = {{ value = 100, source = "s" }}
bus_bits = {{ value = 256, source = "s" }}
l2_cache_mib = {{ value = 1, source = "s" }}
[power]
max_w = {{ value = 100, source = "s" }}
[links]
pcie_generation = {{ value = 3, source = "s" }}
pcie_lanes = {{ value = 16, source = "s" }}
pinned_copy_gb_per_s = {{ value = 12, source = "s" }}
[sources]
s = "made up"
)",
                     name);
}

/// toynet on TOY at fp32 (everything) and at tf32 (of memory a single point), and on OTHER at tf32.
profile::Database toy_database() {
  profile::Pack pack;
  pack.info.name = "test";
  const StepEvidence known = evidence_for_test();
  pack.models.push_back(known.model);
  const auto add = [&](profile::Curve curve, std::string gpu, std::string precision) {
    curve.key.gpu = std::move(gpu);
    curve.key.precision = std::move(precision);
    pack.curves.push_back(std::move(curve));
  };
  for (const profile::Curve& curve : known.curves) {
    add(curve, "TOY", "fp32");
    add(curve, "OTHER", "tf32");
    profile::Curve part = curve;
    if (curve.key.quantity == Quantity::kPeakMemory) part.points = {{64, 1}};
    if (curve.key.quantity != Quantity::kPersistentMemory) add(part, "TOY", "tf32");
  }
  pack.limits.push_back(limit_for_test(32, 33));
  const std::vector<profile::GpuText> gpus = {{gpu_toml("TOY"), "TOY.toml"},
                                              {gpu_toml("OTHER"), "OTHER.toml"},
                                              {gpu_toml("NEW"), "NEW.toml"}};
  const Result<std::string> image = profile::build_database_image(gpus, {&pack, 1});
  EXPECT_TRUE(image) << image.error().message;
  Result<profile::Database> database = profile::Database::from_image(*image);
  EXPECT_TRUE(database) << database.error().message;
  return *std::move(database);
}

/// toynet as an operation that streams so many bytes per sample, forward and twice backward.
Recording recording_for_test(std::int64_t elements = 1 << 20) {
  RecordedOperation stream;
  stream.kind = GPEMU_OPERATION_ELEMENTWISE;
  stream.name = "stream";
  stream.operation_class = kernels::OperationClass::kElementwise;
  stream.type = GPEMU_TYPE_FP32;
  stream.shape[0] = stream.shape[1] = {0, elements};
  return {.model = "toynet",
          .gpu = "TOY",
          .batches = {16, 32, 48},
          .operations = {stream},
          .phases = {{"forward", {0}}, {"backward", {0, 0}}}};
}

/// A GPU that streams 1 TB/s, with parameters of its own or of another.
profile::GpuSpec calibrated_gpu(const std::string& measured) {
  profile::GpuSpec gpu = evidence_for_test().gpu;
  gpu.fp32_flops = 10e12;
  gpu.memory_bandwidth_bytes_per_s = 1e12;
  gpu.multiprocessors = 100;
  gpu.boost_clock_mhz = 1000;
  profile::Calibration& calibration = gpu.calibration.emplace();
  calibration.gpu = measured;
  calibration.bars = {.unseen_model = 0.2, .known_batch = 0.1, .other_gpu = 0.2};
  std::ranges::transform(profile::kOperationParameters, calibration.parameters.begin(),
                         &profile::Parameter::typical);
  return gpu;
}

StepEvidence without_times(StepEvidence known) {
  std::erase_if(known.curves, [](const profile::Curve& curve) {
    return curve.key.quantity == Quantity::kForward ||
           curve.key.quantity == Quantity::kBackwardOptimizer;
  });
  return known;
}

void expect_never_faster(const StepCostModel& model) {
  Duration last{};
  for (int batch = 1; batch <= model.largest_batch(); ++batch) {
    const Duration time = model.step(batch)->compute();
    EXPECT_GE(time, last) << batch;
    last = time;
  }
}

TEST(StepCostModelLadder, WhatWasMeasuredGoesFirst) {
  StepEvidence known = evidence_for_test();
  known.gpu = calibrated_gpu("TOY");
  known.recording = recording_for_test();
  const StepCostModel model = make_model(std::move(known));
  EXPECT_EQ(model.step(16)->forward.time, from_milliseconds(18));
  EXPECT_EQ(model.step(16)->forward.evidence, cost::Evidence::kMeasured);
  EXPECT_EQ(model.step(12)->forward.evidence, cost::Evidence::kInterpolated);
}

TEST(StepCostModelLadder, BeyondTheLastBatchTheModelIsCorrectedByIt) {
  StepEvidence known = evidence_for_test();
  known.gpu = calibrated_gpu("TOY");
  known.recording = recording_for_test();
  const StepCostModel model = make_model(std::move(known));
  const cost::Estimate measured = model.step(32)->backward_optimizer;
  const cost::Estimate beyond = model.step(33)->backward_optimizer;
  EXPECT_EQ(beyond.evidence, cost::Evidence::kScaled);
  EXPECT_EQ(beyond.relative_error, 0.1);
  EXPECT_GE(beyond.time, measured.time);
  EXPECT_LT(to_seconds(beyond.time), 1.06 * to_seconds(measured.time));  // There is no gap.
  ASSERT_GT(model.largest_batch(), 33);
  expect_never_faster(model);
}

/// Recorded models run in FP32 on this GPU.
TEST(StepCostModelLadder, ParametersFromPublishedStepsHaveTheBarOfTheArithmeticAndTheHost) {
  StepEvidence known = without_times(evidence_for_test());
  known.gpu = calibrated_gpu("TOY");
  known.recording = recording_for_test();
  profile::Calibration& calibration = *known.gpu.calibration;
  calibration.half = true;
  const auto forward = [&](int batch) {
    return make_model(known).step(batch).value_or(StepCost{}).forward;
  };
  EXPECT_EQ(forward(32).evidence, cost::Evidence::kTransferred) << "its steps were in 16 bits only";
  EXPECT_GT(forward(32).relative_error, calibration.bars->unseen_model);
  calibration.fp32 = calibration.parameters;
  calibration.bars->fp32 = 0.07;
  EXPECT_EQ(forward(32).evidence, cost::Evidence::kPublished);
  EXPECT_NEAR(forward(32).relative_error, 0.07, 1e-3);
  EXPECT_NEAR(forward(1).relative_error, kHostError, 0.05) << "which the host limits";
  const double few = (calibration.bars->fp32.reset(), forward(32).relative_error);
  calibration.gpu = "OTHER";
  EXPECT_EQ(forward(32).relative_error, few) << "too few steps tell no more than another GPU's";
}

TEST(StepCostModelLadder, AModelThatWasNotMeasuredHasTheGpusParameters) {
  StepEvidence known = without_times(evidence_for_test());
  known.gpu = calibrated_gpu("TOY");
  known.recording = recording_for_test();
  const StepCostModel model = make_model(std::move(known));
  const Result<StepCost> cost = model.step(32);
  ASSERT_TRUE(cost) << cost.error().message;
  EXPECT_EQ(cost->forward.evidence, cost::Evidence::kCalibrated);
  EXPECT_EQ(cost->forward.relative_error, 0.2);
  const double least = 8.0 * (1 << 20) * 32 / 1e12;  // At the full rate.
  EXPECT_GT(to_seconds(cost->forward.time), least);
  EXPECT_GT(to_seconds(cost->backward_optimizer.time), 2 * least);
  EXPECT_LT(to_seconds(cost->backward_optimizer.time), 4 * least);
  expect_never_faster(model);
}

TEST(StepCostModelLadder, AnotherGpusParametersHaveAnotherBar) {
  StepEvidence known = without_times(evidence_for_test());
  known.gpu = calibrated_gpu("OTHER");
  known.recording = recording_for_test();
  const StepCostModel model = make_model(std::move(known));
  EXPECT_EQ(model.step(32)->forward.evidence, cost::Evidence::kTransferred);
  EXPECT_NEAR(model.step(32)->forward.relative_error, 0.3, 0.01)
      << "published steps ask for more than 0.2";
  EXPECT_NEAR(model.step(1)->forward.relative_error, kHostError, 0.01) << "the host's";
}

TEST(StepCostModelLadder, WhatAnEmulatedGpuDidIsNeverMeasured) {
  StepEvidence known = evidence_for_test();
  for (profile::Curve& curve : known.curves) curve.emulated = true;
  const StepCostModel model = make_model(std::move(known));
  for (int batch = 1; batch <= model.largest_batch(); ++batch) {
    const Result<StepCost> cost = model.step(batch);
    ASSERT_TRUE(cost);
    EXPECT_EQ(cost->forward.evidence, cost::Evidence::kEmulated);
    EXPECT_EQ(cost->backward_optimizer.evidence, cost::Evidence::kEmulated);
    EXPECT_EQ(cost->copy_pageable.evidence, cost::Evidence::kEmulated);
    EXPECT_EQ(cost->memory.evidence, cost::Evidence::kEmulated);
  }
}

TEST(StepCostModelLadder, WithoutParametersTheDatasheetAnswers) {
  StepEvidence known = without_times(evidence_for_test());
  known.gpu = calibrated_gpu("TOY");
  known.gpu.calibration.reset();
  known.recording = recording_for_test();
  const StepCostModel model = make_model(std::move(known));
  EXPECT_EQ(model.step(32)->forward.evidence, cost::Evidence::kAnalytic);
  EXPECT_EQ(model.step(32)->forward.relative_error, 0.6);
}

TEST(StepCostModelLadder, WithoutARecordingNothingElseAnswers) {
  const auto model = StepCostModel::from_evidence(without_times(evidence_for_test()));
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, ErrorCode::kUnsupported);
}

TEST(StepCostModelFromDatabase, FindsItsRecords) {
  const Result<StepCostModel> model =
      StepCostModel::create(toy_database(), "toynet", "toy", "fp32");
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->gpu().name, "TOY");
  EXPECT_EQ(model->model().parameters, 1000U);
  EXPECT_EQ(model->precision(), "fp32");
  EXPECT_EQ(model->largest_batch(), 32);
  EXPECT_EQ(model->step(16)->memory.evidence, cost::Evidence::kMeasured);
}

TEST(StepCostModelFromDatabase, TakesTheOnlyPrecisionUnasked) {
  const Result<StepCostModel> model = StepCostModel::create(toy_database(), "toynet", "OTHER");
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->precision(), "tf32");
}

TEST(StepCostModelFromDatabase, BorrowsMemoryFromAnotherGpu) {
  const Result<StepCostModel> model =
      StepCostModel::create(toy_database(), "toynet", "TOY", "tf32");
  ASSERT_TRUE(model) << model.error().message;
  const Result<StepCost> cost = model->step(16);
  ASSERT_TRUE(cost);
  EXPECT_EQ(cost->memory.peak, 260 * kMiB);
  EXPECT_EQ(cost->memory.evidence, cost::Evidence::kExtrapolated);
}

TEST(StepCostModelFromDatabase, SaysWhatWasMeasuredWhereItCannotAnswer) {
  const profile::Database database = toy_database();
  const auto error_of = [&](std::string_view model, std::string_view gpu,
                            std::string_view precision) {
    const Result<StepCostModel> created = StepCostModel::create(database, model, gpu, precision);
    return created ? Error{} : created.error();
  };
  const Error several = error_of("toynet", "TOY", "");
  EXPECT_EQ(several.code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(several.message,
            "toynet on TOY was measured at several precisions; name one: fp32, tf32");
  const Error precision = error_of("toynet", "TOY", "int8");
  EXPECT_EQ(precision.code, ErrorCode::kUnsupported);
  EXPECT_EQ(precision.message,
            "toynet on TOY was not measured at precision int8, only at: fp32, tf32");
  const Error pair = error_of("toynet", "NEW", "");
  EXPECT_EQ(pair.code, ErrorCode::kUnsupported);
  EXPECT_EQ(pair.message, "toynet was not measured on NEW, only on: OTHER, TOY");
  EXPECT_EQ(error_of("toynet", "NONE", "").code, ErrorCode::kNotFound);
  EXPECT_EQ(error_of("nonet", "TOY", "").code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace gpemu::step
