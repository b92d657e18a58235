// SPDX-License-Identifier: Apache-2.0
#include "gpemu/predict/step_prediction.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/cost/operation_time.hpp"
#include "gpemu/kernels/described_operation.hpp"
#include "gpemu/step/rank_slowdown.hpp"
#include "gpemu/step/step_bar.hpp"

#include "test_work.hpp"

namespace gpemu::predict {
namespace {

using kernels::OperationClass;
using Kind = record::WorkEvent::Kind;

profile::GpuSpec gpu_for_test() {
  profile::GpuSpec gpu;
  gpu.name = "TOY";
  gpu.generation = profile::generation_facts(7, 0).value();
  gpu.multiprocessors = 80;
  gpu.cuda_cores = 5120;
  gpu.boost_clock_mhz = 1000;
  gpu.fp32_flops = 10e12;
  gpu.memory_bandwidth_bytes_per_s = 1e12;
  gpu.pinned_copy_bytes_per_s = 1e10;
  return gpu;
}

/// An operation that does nothing for some milliseconds of a clock of 1 GHz.
step::RecordedOperation busy(int milliseconds) {
  step::RecordedOperation operation;
  operation.kind = GPEMU_OPERATION_WAIT;
  operation.name = "wait";
  operation.operation_class = OperationClass::kOther;
  operation.shape[0].constant = std::int64_t{1'000'000} * milliseconds;
  return operation;
}

StepPrediction predict(const record::ProgramWork& work,
                       const profile::GpuSpec& gpu = gpu_for_test()) {
  return predict_step(work, {0, work.events.size()}, gpu_for_test(), gpu);
}

double host(cost::OperationParameter parameter) {
  return cost::kOperationParameters[parameter].typical *
         cost::kOperationParameters[cost::kHostLaunch].typical;
}

TEST(PredictStep, AddsUpWhatItsTimeGoesInto) {
  WorkForTest test;
  test.add(busy(5), 1).add(busy(3), 1).mark(Kind::kWait);
  const StepPrediction step = predict(test.work);
  EXPECT_EQ(std::accumulate(step.parts.begin(), step.parts.end(), Duration{}), step.time.time);
  EXPECT_NEAR(to_milliseconds(step.busy), 8, 0.1);
  EXPECT_GT(step.time.time, step.busy);  // It waits, and then the device waits for the host.
  EXPECT_EQ(step.limit(), StepLimit::kCompute);
  ASSERT_EQ(step.classes.size(), 1u);
  EXPECT_EQ(step.classes[0].operations, 2);
  EXPECT_EQ(step.classes[0].time, step.busy);
}

TEST(PredictStep, SaysWhatItDoesWithTheGpu) {
  // 8 ms of waits, and 1 GiB read and 1 GiB written at 1 TB/s.
  step::RecordedOperation copy;
  copy.kind = GPEMU_OPERATION_COPY_ON_DEVICE;
  copy.operation_class = OperationClass::kCopy;
  copy.shape[0].constant = std::int64_t{1} << 30;
  WorkForTest test;
  test.add(busy(8), 1).add(copy, 1).mark(Kind::kWait);
  const StepPrediction step = predict(test.work);
  const cost::GpuLoad load = gpu_load(step).predicted;
  const double seconds = to_seconds(step.time.time), busy = to_seconds(step.busy);
  EXPECT_EQ(step.kernels, 2);
  EXPECT_NEAR(to_seconds(step.traffic), 2.147e-3, 1e-5);
  EXPECT_NEAR(load.busy, busy / seconds, 1e-9);
  EXPECT_FALSE(load.working) << "only NVML has this figure";
  EXPECT_NEAR(load.memory, to_seconds(step.traffic) / seconds, 1e-9);
  EXPECT_NEAR(load.width, 1, 1e-9) << "no kernel is small";
  EXPECT_NEAR(to_seconds(load.kernel), busy / 2, 1e-9);
  EXPECT_EQ(gpu_load({}).predicted.busy, 0);
}

TEST(PredictStep, SaysHowSureThatIs) {
  // 6 ms of kernels that may take 1.5 times as long, beside a host that may take twice as long.
  const StepPrediction step{.time = {.time = std::chrono::milliseconds(10)},
                            .host = std::chrono::milliseconds(9),
                            .busy = std::chrono::milliseconds(6),
                            .kernels = 1,
                            .kernel_error = 0.5};
  const StepLoad load = gpu_load(step);
  EXPECT_NEAR(load.predicted.busy, 0.6, 1e-9);
  EXPECT_NEAR(load.least.busy, 4.0 / 18, 1e-9) << "the host's 9 ms become 18";
  EXPECT_NEAR(load.most.busy, 9.0 / 11, 1e-9) << "4 ms of waiting become 2";
}

TEST(PredictStep, TellsThatTheHostLimits) {
  WorkForTest test;
  for (int i = 0; i < 100; ++i) test.add(busy(0), 1);
  const StepPrediction step = predict(test.work);
  EXPECT_EQ(step.limit(), StepLimit::kHost);
  EXPECT_NEAR(to_seconds(step.time.time), 100 * host(cost::kHostOperation), 1e-6);
  EXPECT_EQ(step.host, step.time.time);
}

TEST(PredictStep, KnowsTheForwardPassByItsLayersAndTheThread) {
  step::RecordedOperation layer = busy(0);
  layer.operation_class = OperationClass::kAttention;
  WorkForTest test;
  for (int i = 0; i < 3; ++i) test.add(busy(0), 1);  // The optimizer.
  test.add(layer, 1).add(busy(0), 1).add(layer, 1);
  for (int i = 0; i < 2; ++i) test.add(busy(0), 1);                          // To zero.
  for (int i = 0; i < 5; ++i) test.add(i % 2 == 0 ? layer : busy(0), 1, 2);  // Backward.
  const double expected = 3 * host(cost::kHostOperation) + 10 * host(cost::kHostSmall);
  EXPECT_NEAR(to_seconds(predict(test.work).host), expected, 1e-6);
  // The result is the same wherever the circle is cut.
  const std::vector<record::WorkEvent> once = test.work.events;
  test.work.events.insert(test.work.events.end(), once.begin(), once.end());
  for (std::size_t i = 0; i < once.size(); ++i) {
    const StepPrediction step =
        predict_step(test.work, {i, i + once.size()}, gpu_for_test(), gpu_for_test());
    EXPECT_NEAR(to_seconds(step.host), expected, 1e-6) << i;
  }
}

TEST(PredictStep, KnowsWhatOptimizersCostSomeHosts) {
  const auto over_lists = [](const char* name, std::int64_t tensors) {
    step::RecordedOperation operation = busy(0);
    operation.name = name;
    operation.operation_class = OperationClass::kOptimizer;
    operation.type = GPEMU_TYPE_FP32;
    operation.shape[kernels::kListedTensors].constant = tensors;
    return operation;
  };
  // Three passes over 100 tensors, two of them by the same kernel, in two launches each.
  WorkForTest test;
  for (int i = 0; i < 2; ++i) test.add(over_lists("multiply", 50), 1);
  for (int i = 0; i < 4; ++i) test.add(over_lists("add", 50), 1);
  profile::GpuSpec gpu = gpu_for_test();
  gpu.calibration.emplace();
  std::ranges::transform(profile::kOperationParameters, gpu.calibration->parameters.begin(),
                         &profile::Parameter::typical);
  EXPECT_NEAR(to_seconds(predict(test.work, gpu).host), 6 * host(cost::kHostOperation), 1e-8);
  gpu.calibration->listed_tensor = 7e-6;
  EXPECT_NEAR(to_seconds(predict(test.work, gpu).host), 100 * 7e-6, 1e-8);
  // Those of another type are other tensors; lists that are not known cost nothing of their own.
  step::RecordedOperation half = over_lists("multiply<half>", 20);
  half.type = GPEMU_TYPE_FP16;
  test.add(half, 1).add(over_lists("of scalars", 0), 1);
  EXPECT_NEAR(to_seconds(predict(test.work, gpu).host), 120 * 7e-6, 1e-8);
}

TEST(PredictStep, KnowsWhatBatchNormalizationLaunches) {
  const auto kernel = [](const char* name, gpemu_operation_kind kind, std::int64_t read) {
    step::RecordedOperation operation = busy(0);
    operation.name = name;
    operation.kind = kind;
    operation.shape[0].constant = read;
    operation.shape[1].constant = 64;
    return operation;
  };
  constexpr auto kForward = GPEMU_OPERATION_NORMALIZATION_FORWARD;
  constexpr auto kElements = GPEMU_OPERATION_ELEMENTWISE;
  const double whole = host(cost::kHostNormalization), part = host(cost::kHostPart);
  WorkForTest training;
  training.add(kernel("FillFunctor", kElements, 0), 1)
      .add(kernel("batch_norm_collect_statistics_kernel", kForward, 1 << 20), 1)
      .add(kernel("_16_Normalization_cu_5c_unrolled_elementwise_kernel", kElements, 64), 1)
      .add(kernel("batch_norm_transform_input_kernel", kForward, 1 << 20), 1);
  EXPECT_NEAR(to_seconds(predict(training.work).host), whole + 3 * part, 1e-8);
  WorkForTest inference;
  step::RecordedOperation converts = kernel("direct_copy_kernel", kElements, 64);
  converts.access = GPEMU_ACCESS_CONVERTED;
  inference.add(converts, 1)
      .add(kernel("_16_Normalization_cu_5c_vectorized_elementwise_kernel", kElements, 64), 1)
      .add(kernel("batch_norm_transform_input_kernel", kForward, 1 << 20), 1);
  EXPECT_NEAR(to_seconds(predict(inference.work).host), host(cost::kHostOperation) + 2 * part,
              1e-8);
  // cuDNN's is one operation, beside what has nothing to do with it.
  WorkForTest cudnn;
  cudnn.add(converts, 1).add(kernel("cudnnBatchNormalizationForwardTrainingEx", kForward, 1), 1);
  EXPECT_NEAR(to_seconds(predict(cudnn.work).host), host(cost::kHostOperation) + whole, 1e-8);
}

TEST(PredictStep, ScalesCopiesByTheLink) {
  WorkForTest test;
  test.add(busy(1), 1).add(busy(2), 1).add(busy(4), 4'000'000);
  test.work.events.back().kind = Kind::kCopyToDevice;
  profile::GpuSpec fast = gpu_for_test();
  fast.pinned_copy_bytes_per_s *= 4;
  const auto copy = static_cast<std::size_t>(StepLimit::kCopy);
  EXPECT_NEAR(to_milliseconds(predict(test.work).parts[copy]), 4, 0.05);
  EXPECT_NEAR(to_milliseconds(predict(test.work, fast).parts[copy]), 1, 0.05);
}

TEST(PredictStep, PricesTheOperationsOnTheGivenGpu) {
  WorkForTest test;
  test.add(busy(5), 1);
  profile::GpuSpec slow = gpu_for_test();
  slow.boost_clock_mhz /= 2;
  EXPECT_NEAR(to_milliseconds(predict(test.work, slow).busy), 10, 0.1);
  EXPECT_GT(predict(test.work).time.relative_error, 0);
}

/// The least bar of other GPUs' parameters, 44 %, is wider than the bars of their fits.
TEST(PredictStep, HasTheBarOfWhatTheParametersDidNotKnow) {
  step::RecordedOperation sum = busy(0);
  sum.kind = GPEMU_OPERATION_ELEMENTWISE;
  sum.type = GPEMU_TYPE_FP32;
  sum.shape[0].constant = sum.shape[1].constant = 1'000'000'000;
  WorkForTest test;
  test.add(sum, 1).add(sum, 1);
  profile::GpuSpec gpu = gpu_for_test();
  gpu.calibration = {.gpu = gpu.name,
                     .bars = profile::CalibrationBars{
                         .unseen_model = 0.11, .known_batch = 0.05, .other_gpu = 0.22}};
  std::ranges::transform(profile::kOperationParameters, gpu.calibration->parameters.begin(),
                         &profile::Parameter::typical);
  const StepPrediction own = predict(test.work, gpu);
  gpu.calibration->gpu = "OTHER";
  const StepPrediction other = predict(test.work, gpu);
  EXPECT_EQ(own.time.evidence, cost::Evidence::kCalibrated);
  EXPECT_NEAR(own.time.relative_error, step::bar_of_mixed(0.11), 0.01);
  EXPECT_EQ(other.time.evidence, cost::Evidence::kTransferred);
  EXPECT_NEAR(other.time.relative_error, step::bar_of_mixed(std::hypot(0.11, 0.22)), 0.01);
  gpu.calibration->bars =
      profile::CalibrationBars{.unseen_model = 0.11, .known_batch = 0.05, .other_gpu = 0.6};
  EXPECT_NEAR(predict(test.work, gpu).time.relative_error,
              step::bar_of_mixed(std::hypot(0.11, 0.6)), 0.01);
}

TEST(PredictStep, HasTheHostsBarWhereTheHostLimits) {
  WorkForTest device, host;
  for (int i = 0; i < 20; ++i) {
    device.add(busy(1), 1);
    host.add(busy(0), 1);
  }
  const StepPrediction long_kernels = predict(device.work), short_kernels = predict(host.work);
  EXPECT_NEAR(long_kernels.time.relative_error, long_kernels.kernel_error, 1e-6);
  EXPECT_NEAR(short_kernels.time.relative_error, step::kHostError, 1e-6);
}

/// A layer of 5 ms, an exchange, and an optimizer of 1 ms that waits for it.
record::ProgramWork exchanging_work() {
  WorkForTest test;
  test.add(busy(5), 1);
  test.work.collectives = {{.function = "ncclAllReduce", .bytes = 64, .ranks = 4}};
  test.work.events.push_back({.kind = Kind::kCollective, .stream = 0});
  test.add(busy(1), 1);
  return test.work;
}

ParallelStep predict_parallel(Duration time, double bar) {
  const record::ProgramWork work = exchanging_work();
  return predict_parallel_step(work, {0, work.events.size()}, gpu_for_test(), gpu_for_test(),
                               [&](const record::CollectiveWork& collective) {
                                 EXPECT_EQ(collective.ranks, 4);
                                 return CollectivePrice{.time = time, .relative_error = bar};
                               });
}

TEST(PredictParallelStep, WaitsForItsCollectives) {
  const ParallelStep step = predict_parallel(from_seconds(0.002), 0.5);
  EXPECT_NEAR(to_milliseconds(step.step.time.time), 8 * (1 + step::slowest_of(4)), 0.1);
  EXPECT_NEAR(to_milliseconds(step.exposed), 2, 0.1);
  EXPECT_EQ(step.collectives, step.exposed);
  const auto& parts = step.step.parts;
  EXPECT_EQ(std::accumulate(parts.begin(), parts.end(), Duration{}), step.step.time.time);
}

TEST(PredictParallelStep, HasTheBarsOfItsCollectives) {
  const ParallelStep exact = predict_parallel(from_seconds(0.002), 0);
  const ParallelStep step = predict_parallel(from_seconds(0.002), 0.5);
  EXPECT_EQ(exact.step.time.time, step.step.time.time);
  // The collective may take 1 ms longer, of a step of 8 ms.
  EXPECT_NEAR(step.step.time.relative_error - exact.step.time.relative_error, 1.0 / 8, 0.01);
  EXPECT_GT(step.with_slow_collectives - exact.with_slow_collectives, from_seconds(0.0009));
  EXPECT_LT(step.with_slow_kernels, exact.with_slow_kernels);
}

TEST(PredictParallelStep, IsTheSameAsAStepIfCollectivesTakeNoTime) {
  const record::ProgramWork work = exchanging_work();
  const StepPrediction alone = predict(work);
  const ParallelStep step = predict_parallel({}, 0);
  EXPECT_NEAR(to_milliseconds(step.with_slow_kernels),
              to_milliseconds(predict_parallel({}, 0.5).with_slow_kernels), 0.001);
  EXPECT_NEAR(to_milliseconds(step.step.time.time),
              to_milliseconds(alone.time.time) * (1 + step::slowest_of(4)), 0.1);
  EXPECT_EQ(step.exposed, Duration{});
}

TEST(PredictParallelStep, SlowsKernelsBesideCollectives) {
  WorkForTest test;
  test.work.collectives = {{.function = "ncclAllReduce", .bytes = 64, .ranks = 4}};
  test.work.events.push_back({.kind = Kind::kCollective, .stream = 1});
  for (int i = 0; i < 10; ++i) test.add(busy(1), 1);
  const auto predict_with = [&](Duration time) {
    return predict_parallel_step(
        test.work, {0, test.work.events.size()}, gpu_for_test(), gpu_for_test(),
        [&](const record::CollectiveWork&) { return CollectivePrice{.time = time}; });
  };
  const ParallelStep none = predict_with({}), beside = predict_with(from_seconds(0.004));
  EXPECT_NEAR(to_milliseconds(beside.collectives), 4, 0.01);
  EXPECT_NEAR(to_milliseconds(beside.step.time.time - none.step.time.time),
              4 * step::kSlowedBeside * (1 + step::slowest_of(4)), 0.05);
  EXPECT_GT(beside.with_slow_collectives - none.with_slow_collectives,
            beside.step.time.time - none.step.time.time);
  EXPECT_EQ(beside.with_slow_kernels, none.with_slow_kernels);
}

}  // namespace
}  // namespace gpemu::predict
