// SPDX-License-Identifier: Apache-2.0
#include "train/run_report.hpp"

#include <gtest/gtest.h>

#include "train/run_page.hpp"

namespace gpemu::tools {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): literals only.

/// Two steps of 10 ms compute, each after a wait; the second one's time decides the verdict.
RunReport report_of(const train::TimeBreakdown& second_step) {
  RunReport report{.gpu = "V100-PCIE-32GB", .model = "resnet18", .precision = "fp32"};
  report.options.gpu.batch = 8;
  report.options.data.workers = 2;
  report.options.data.folder = "photos <1>";
  report.plan.cost.forward.time = 3ms;
  report.plan.cost.backward_optimizer.time = 7ms;
  report.plan.parts = train::compute_parts(report.plan.cost);
  report.data = DataFacts{.images = 16, .bytes = kMiB, .corrupt_files = {"photos/a&b.jpg"}};
  report.provenance.host.cores = 4;
  train::TrainResult& result = report.result;
  result.first_step = {.compute = 10ms, .prep_wait = 90ms};
  result.first_step_samples = 8;
  train::TimeBreakdown time = result.first_step;
  time += second_step;
  result.gpus = {time};
  result.elapsed = time.total();
  result.samples = 16;
  result.steps = {{.end = TimePoint(100ms), .observed_end = TimePoint(100ms)},
                  {.end = TimePoint(result.elapsed), .observed_end = TimePoint(result.elapsed)}};
  result.epochs = {{.epoch = 0, .steps = 2, .samples = 16, .time = time}};
  result.work = {.fetch = 40ms, .prep = 120ms, .bytes_read = kMiB, .corrupt = 1};
  result.evidence = {15ms, 5ms, 0ms, 0ms};
  result.memory_peak = 3 * kGiB;
  result.memory_capacity = 32 * kGiB;
  return report;
}

bool says(const std::string& text, std::string_view words) {
  return text.find(words) != std::string::npos;
}

TEST(RunVerdict, LooksAtTheTimeAfterTheFirstStep) {
  EXPECT_TRUE(says(run_verdict(report_of({.compute = 10ms})),
                   "limited by the GPU: it computes 100.0 % of the time"));
}

TEST(RunVerdict, TellsHowManyWorkersWouldKeepUp) {
  // A worker takes 10 ms for an image, the GPU 10 ms for 8.
  const std::string verdict = run_verdict(report_of({.compute = 10ms, .prep_wait = 30ms}));
  EXPECT_TRUE(says(verdict, "limited by preprocessing")) << verdict;
  EXPECT_TRUE(says(verdict, "waits for batches 75.0 %")) << verdict;
  EXPECT_TRUE(says(verdict, "100 images/s, so about 8 would keep the GPU busy, not 2")) << verdict;
  EXPECT_TRUE(says(verdict, "this host has 4 cores")) << verdict;
}

TEST(RunVerdict, AdvisesNoFewerWorkersThanThereAre) {
  RunReport report = report_of({.compute = 10ms, .prep_wait = 30ms});
  report.options.data.workers = 8;
  EXPECT_TRUE(says(run_verdict(report), "100 images/s, so 8 keep up once batches"))
      << run_verdict(report);
}

TEST(RunVerdict, NamesStorageCopiesAndOthers) {
  EXPECT_TRUE(says(run_verdict(report_of({.compute = 10ms, .fetch_wait = 3ms, .prep_wait = 1ms})),
                   "limited by storage"));
  EXPECT_TRUE(says(run_verdict(report_of({.compute = 10ms, .copy = 2ms})), "--overlap-copy"));
  EXPECT_TRUE(says(run_verdict(report_of({.compute = 10ms, .other = 5ms})), "limited by others"));
}

TEST(RunJson, HasPartsThatSumToTheElapsedTime) {
  const auto json = run_json(report_of({.compute = 10ms, .copy = 2ms, .prep_wait = 30ms}));
  double sum = 0;
  for (const auto& [part, seconds] : json["time_s"].items()) sum += seconds.get<double>();
  EXPECT_NEAR(sum, json["elapsed_s"].get<double>(), 1e-12);
  EXPECT_DOUBLE_EQ(json["steady_share"]["compute"].get<double>(), 10.0 / 42);
  EXPECT_DOUBLE_EQ(json["images_per_s"].get<double>(), 8 / 0.042);
  EXPECT_DOUBLE_EQ(json["step_ms"]["mean"].get<double>(), 42);
  EXPECT_DOUBLE_EQ(json["evidence"]["measured"].get<double>(), 0.75);
  EXPECT_DOUBLE_EQ(json["evidence"]["interpolated"].get<double>(), 0.25);
  EXPECT_DOUBLE_EQ(json["memory_mib"]["peak"].get<double>(), 3072);
  EXPECT_EQ(json["corrupt_images"], 1);
  EXPECT_EQ(json["options"]["workers"], 2);
}

TEST(RunJson, HoldsUpWithoutASingleStep) {
  RunReport report = report_of({});
  report.result = {};
  report.result.gpus = {{}};
  EXPECT_EQ(run_json(report)["images_per_s"], 0.0);
  EXPECT_TRUE(says(run_text(report, {}), "no step was done"));
  EXPECT_TRUE(says(run_page(report), "no step was done"));
}

TEST(RunText, SaysHowMuchOfTheExchangesIsHidden) {
  RunReport report =
      report_of({.compute = 10ms, .communication = 2ms, .hidden_communication = 6ms});
  report.options.gpu.gpus = 4;
  report.result.gpus.resize(4, report.result.gpus.front());
  const std::string text = run_text(report, {});
  EXPECT_TRUE(says(text, "on 4 x V100-PCIE-32GB, ddp")) << text;
  EXPECT_TRUE(says(text, "exchange    4.000 ms a step between the GPUs, 75.0 % of it beside"))
      << text;
  EXPECT_TRUE(says(text, "for 16.7 % it only exchanges data")) << text;
  EXPECT_DOUBLE_EQ(run_json(report)["hidden_communication_s"].get<double>(), 0.006);
}

TEST(RunText, CountsCorruptImages) {
  EXPECT_TRUE(says(run_text(report_of({.compute = 10ms}), {}), "1 images, e.g. photos/a&b.jpg"));
}

TEST(RunReport, WarnsOfABusyHostInTextPageAndJson) {
  RunReport report = report_of({.compute = 10ms, .prep_wait = 30ms});
  constexpr std::string_view kWarning =
      "the host was too busy for a reliable measure of how long the GPU waits";
  report.provenance.load =
      report::HostLoad{.elapsed = 1s, .own_cpu = 2s, .others_cpu = 10ms, .queued = 3s};
  EXPECT_FALSE(says(run_text(report, {}), kWarning));
  EXPECT_FALSE(says(run_page(report), kWarning));
  EXPECT_EQ(run_json(report)["host"]["load"]["too_busy"], false);
  report.provenance.load->others_cpu = 2s;
  EXPECT_TRUE(says(run_text(report, {}), kWarning));
  EXPECT_TRUE(says(run_page(report), kWarning));
  EXPECT_EQ(run_json(report)["host"]["load"]["too_busy"], true);
}

TEST(RunPage, IsSelfContainedAndEscaped) {
  const std::string page = run_page(report_of({.compute = 10ms, .prep_wait = 30ms}));
  EXPECT_TRUE(says(page, "photos &lt;1&gt;"));
  EXPECT_FALSE(says(page, "<script src"));
  EXPECT_FALSE(says(page, "src="));
  EXPECT_FALSE(says(page, "href="));
}

TEST(PlannedStep, HidesCopiesOnlyWhereTheyOverlap) {
  train::StepPlan plan;
  plan.cost.forward.time = 10ms;
  plan.cost.copy_pinned.time = 4ms;
  plan.cost.copy_pageable.time = 12ms;
  plan.parts = train::compute_parts(plan.cost);
  EXPECT_EQ(planned_step(plan, {}, true), 14ms);
  EXPECT_EQ(planned_step(plan, {}, false), 10ms);
  EXPECT_EQ(planned_step(plan, {.overlap_copy = true}, true), 10ms);
  EXPECT_EQ(planned_step(plan, {.pageable = true}, true), 22ms);
}

}  // namespace
}  // namespace gpemu::tools
