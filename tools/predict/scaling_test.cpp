// SPDX-License-Identifier: Apache-2.0
#include "predict/scaling.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "gpemu/topology/collective.hpp"
#include "gpemu/topology/fabric.hpp"

namespace gpemu::tools {
namespace {

profile::GpuSpec scaled_gpu() {
  profile::GpuSpec gpu;
  gpu.name = "GPU";
  gpu.generation = profile::generation_facts(8, 0).value();
  gpu.nvlink_bytes_per_s = 300e9;
  gpu.nvlink_gpus = 8;
  return gpu;
}

/// A machine of 4 GPUs that NVSwitches join.
profile::TopologySpec four_gpus() {
  profile::TopologySpec machine;
  machine.name = "four";
  machine.bridges.resize(1);
  machine.gpus.resize(4);
  machine.switched_links = 12;
  machine.adapters.resize(1);
  machine.adapters.front().bytes_per_s = 25e9;
  return machine;
}

ScalingAnswer answer_of(int gpus, int ms, int with_slow_collectives, int with_slow_kernels) {
  ScalingAnswer answer{.gpus = gpus, .program_run = std::make_shared<const run::ProgramRun>()};
  answer.step.step.time.time = Duration(std::chrono::milliseconds(ms));
  answer.step.with_slow_collectives = Duration(std::chrono::milliseconds(with_slow_collectives));
  answer.step.with_slow_kernels = Duration(std::chrono::milliseconds(with_slow_kernels));
  return answer;
}

ScalingReport report_of_two() {
  ScalingReport report{
      .words = {"python", "train.py"}, .topology = "", .provenance = {}, .curves = {}};
  report.curves.push_back({.gpu = scaled_gpu(),
                           .batch = 32,
                           .answers = {answer_of(1, 90, 80, 120), answer_of(2, 100, 100, 125)}});
  return report;
}

TEST(Scaling, DividesTheStepOfOneGpuByThatOfSeveral) {
  const ScalingReport report = report_of_two();
  const ScalingCurve& curve = report.curves.front();
  const Interval two = efficiency_of(curve, curve.answers[1]);
  EXPECT_DOUBLE_EQ(two.value, 0.9);
  EXPECT_DOUBLE_EQ(two.low, 0.8 * 0.84)
      << "with fast kernels and slow collectives, and what programs lose beside";
  EXPECT_DOUBLE_EQ(two.high, 0.96) << "the other way round";
  const Interval one = efficiency_of(curve, curve.answers[0]);
  EXPECT_EQ(one.low, 1);
  EXPECT_EQ(one.high, 1);
}

TEST(Scaling, PricesCollectivesAsTheTopologySays) {
  const profile::TopologySpec machine = four_gpus();
  const record::CollectiveWork work{.function = "ncclAllGather", .bytes = kMiB, .ranks = 8};
  const auto prices = prices_of(scaled_gpu(), &machine, 8);
  ASSERT_TRUE(prices);
  const auto fabric =
      topology::fabric_of_nodes(machine, scaled_gpu(), 8, 2, topology::LinkClass::kRdma);
  const auto expected = topology::time_of(*fabric, topology::Collective::kAllGather, kMiB);
  EXPECT_EQ((*prices)(work).time, expected.time);
  EXPECT_EQ((*prices)(work).relative_error, expected.relative_bar);
  EXPECT_LT((*prices_of(scaled_gpu(), nullptr, 8))(work).time, expected.time) << "one machine";
  EXPECT_EQ((*prices_of(scaled_gpu(), &machine, 1))(work).time, Duration{});
}

TEST(Scaling, RefusesGpusThatMachinesCannotHaveEqually) {
  const profile::TopologySpec machine = four_gpus();
  const auto uneven = prices_of(scaled_gpu(), &machine, 7);
  ASSERT_FALSE(uneven);
  EXPECT_EQ(uneven.error().message, "--gpus 7: 7 GPUs cannot be divided equally over 2 nodes");
}

TEST(Scaling, IsATableAPlotAndJson) {
  const ScalingReport report = report_of_two();
  const std::string text = scaling_text(report, {});
  EXPECT_TRUE(text.contains("efficiency %")) << text;
  EXPECT_TRUE(text.contains("1.80")) << text;
  const nlohmann::ordered_json json = scaling_json(report);
  EXPECT_EQ(json["format"], "gpemu-scaling-1");
  EXPECT_DOUBLE_EQ(json["answers"][1]["speed_up"].get<double>(), 1.8);
  EXPECT_DOUBLE_EQ(json["answers"][1]["efficiency_low"].get<double>(), 0.8 * 0.84);
  const report::LinePlot plot = scaling_plot(report);
  ASSERT_EQ(plot.series.size(), 2U);
  EXPECT_DOUBLE_EQ(plot.series[0].points[1].low, 2 * 0.8 * 0.84);
  EXPECT_EQ(plot.series[1].name, "ideal");
  EXPECT_TRUE(scaling_page(report).contains("<svg"));
}

}  // namespace
}  // namespace gpemu::tools
