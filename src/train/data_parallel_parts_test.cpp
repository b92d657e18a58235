// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "gpemu/base/file.hpp"
#include "gpemu/topology/fabric.hpp"
#include "gpemu/train/step_plan.hpp"

namespace gpemu::train {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): literals only.
using profile::Quantity;

constexpr auto kStaged = topology::LinkClass::kPcieStaged;

profile::GpuSpec p100() {
  return profile::load_gpu_spec(std::filesystem::path(GPEMU_GPUS_FOLDER) / "P100-PCIE-16GB.toml")
      .value();
}

TEST(DataParallelParts, LetTheFirstGpuComputeTheHeadAndTheOptimizer) {
  const step::StepCost cost{
      .batch = 10, .forward = {.time = 30ms}, .backward_optimizer = {.time = 60ms}};
  const step::StepParts step{
      .gradients = {{.bytes = 400 * kMiB, .ready = 10ms}, {.bytes = 15 * kMiB, .ready = 50ms}},
      .optimizer = 10ms,
      .output_bytes = 4000,
      .head_gradients = 1,
      .head_input_bytes = 40000};
  const DataParallelStep costs{.cost = cost,
                               .step = step,
                               .head_of_share = {.forward = 1ms, .backward = 2ms},
                               .head_of_all = {.forward = 3ms, .backward = 5ms}};
  const topology::Fabric fabric = topology::fabric_of(p100(), 3, kStaged);
  const auto parts = data_parallel_parts(costs, Replicated::kConvolutions, p100(), fabric);
  ASSERT_EQ(parts.size(), 8U);
  EXPECT_EQ(parts[1].cost.time, 29ms);
  EXPECT_EQ(parts[3].cost.time, 8ms);
  EXPECT_TRUE(parts[3].first_gpu_only);
  EXPECT_EQ(parts[5].cost.time, 48ms);
  EXPECT_EQ(parts[7].cost.time, 10ms);
  EXPECT_TRUE(parts[7].first_gpu_only);
  // 15 MiB go in two pieces.
  const auto broadcast = [&](Bytes bytes) {
    return topology::time_of(fabric, topology::Collective::kBroadcast, bytes).time;
  };
  EXPECT_EQ(parts[0].cost.time, 2ms + broadcast(10 * kMiB) + broadcast(5 * kMiB));
  // Two others send 10 samples each to the first.
  EXPECT_NEAR(to_seconds(parts[2].cost.time), 2 * (13e-6 + 400000 / (15.75e9 * 0.64)), 2e-6);
  const StepPlan plan{.gpus = 3, .parts = parts};
  EXPECT_EQ(plan.distinct_gpus(), 2);

  const auto whole =
      data_parallel_parts({.cost = cost, .step = step}, Replicated::kNetwork, p100(), fabric);
  ASSERT_EQ(whole.size(), 7U);
  EXPECT_EQ(whole[1].cost.time, 30ms);
  EXPECT_GT(whole[0].cost.time - 2ms, 20 * (parts[0].cost.time - 2ms));
}

// GPEmu's study of DataParallel on two P100 without cuDNN (gpufs, branch Haoran_inter_gpu_study,
// imagenette/output*.txt, medians; summary in docs/design/many-gpus.md): the time of a step on
// one GPU, without its copy, and on two with the same batch per GPU, with the copies to them.

/// A model whose steps take what the study measured on one GPU: batches, and ms of both phases.
step::StepCostModel model_of_study(const std::string& name, std::uint64_t parameters,
                                   const std::vector<profile::CurvePoint>& forward,
                                   const std::vector<profile::CurvePoint>& backward) {
  const auto curve = [&](Quantity quantity, std::vector<profile::CurvePoint> points) {
    return profile::Curve{.key = {name, "P100-PCIE-16GB", "fp32", quantity},
                          .pack = "study",
                          .points = std::move(points)};
  };
  const int first = forward.front().batch, last = forward.back().batch;
  const auto line = [&](double first_value, double last_value) {
    return std::vector<profile::CurvePoint>{{first, first_value}, {last, last_value}};
  };
  step::StepEvidence known;
  known.gpu = p100();
  known.model = {.name = name, .parameters = parameters, .input_shape = {3, 224, 224}};
  known.precision = "fp32";
  known.curves = {curve(Quantity::kForward, forward), curve(Quantity::kBackwardOptimizer, backward),
                  curve(Quantity::kInputCopyPageable, line(1, 2)),
                  curve(Quantity::kPeakMemory, line(100, 200)),
                  curve(Quantity::kPersistentMemory, line(100, 100))};
  const auto file =
      std::filesystem::path(GPEMU_PACKS_FOLDER) / "gpemu-vldb25" / "operations" / (name + ".json");
  known.recording = step::parse_recording(read_file(file).value(), name).value();
  auto model = step::StepCostModel::from_evidence(std::move(known));
  EXPECT_TRUE(model) << model.error().message;
  return *std::move(model);
}

/// The plan for two P100 that exchange data through the host's memory, as NCCL does for GPUs below
/// different host bridges.
StepPlan plan_of_study(const step::StepCostModel& model, int batch_per_gpu) {
  return plan_step(model, 2 * batch_per_gpu,
                   {.gpus = 2,
                    .parallel = Parallel::kDataParallel,
                    .fabric = topology::fabric_of(model.gpu(), 2, kStaged)})
      .value();
}

/// Checks by how many percent the step takes longer than on one GPU. The XML report of the test has
/// the figure.
void expect_overhead(const StepPlan& plan, double measured, double points) {
  const Duration two = plan.cost.copy_pinned.time + time_of(plan).total;
  const double overhead = 100 * (to_seconds(two) / to_seconds(plan.cost.compute()) - 1);
  EXPECT_NEAR(overhead, measured, points) << plan.cost.batch;
  testing::Test::RecordProperty("overhead_percent_" + std::to_string(plan.cost.batch),
                                std::to_string(overhead));
}

TEST(DataParallelStudy, ResNet18) {
  const step::StepCostModel model = model_of_study(
      "resnet18", 11689512, {{64, 127.35}, {128, 254.7}}, {{64, 248.85}, {128, 497.7}});
  const StepPlan plan = plan_of_study(model, 128);
  expect_overhead(plan, 3.1, 1);
  const auto ms = [&](std::size_t part) { return to_milliseconds(plan.parts[part].cost.time); };
  const auto record = [](const char* name, double value) {
    RecordProperty(name, std::to_string(value));
  };
  record("scatter_ms", to_milliseconds(plan.cost.copy_pinned.time));
  record("forward_ms", ms(0) + ms(2));
  record("backward_ms", ms(3) + ms(5));
  // Scatter; replication, threads and gathering; scatter of gradients, reduction.
  EXPECT_NEAR(to_milliseconds(plan.cost.copy_pinned.time) / 6.6, 1, 0.25);
  EXPECT_NEAR((ms(0) + ms(2)) / 8.2, 1, 0.25);
  EXPECT_NEAR((ms(3) + ms(5)) / 8.2, 1, 0.25);
}

TEST(DataParallelStudy, AlexNet) {
  // One GPU was measured up to a batch of 256; the study takes twice that for 512.
  const std::vector<std::pair<int, double>> steps = {
      {64, 124.1}, {128, 239.6}, {256, 475.8}, {512, 951.6}};
  std::vector<profile::CurvePoint> forward, backward;
  for (const auto& [batch, ms] : steps) {
    forward.push_back({batch, ms / 3});
    backward.push_back({batch, ms * 2 / 3});
  }
  const step::StepCostModel model = model_of_study("alexnet", 61100840, forward, backward);
  expect_overhead(plan_of_study(model, 64), 11, 2);
  expect_overhead(plan_of_study(model, 128), 8.8, 2);
  expect_overhead(plan_of_study(model, 256), 6.1, 2);
  expect_overhead(plan_of_study(model, 512), 4.7, 2);
}

}  // namespace
}  // namespace gpemu::train
