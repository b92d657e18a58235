// SPDX-License-Identifier: Apache-2.0
#include "gpemu/train/trace_recorder.hpp"

#include <gtest/gtest.h>

namespace gpemu::train {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): literals only.

device::Interval interval(Duration start, Duration end) {
  return {.start = TimePoint(start), .end = TimePoint(end)};
}

/// A step of one GPU.
StepPlan plan_of_one() {
  StepPlan plan;
  plan.parts = compute_parts({});
  return plan;
}

ObservedStep step_at(Duration start) {
  ObservedStep step;
  step.index = 3;
  step.epoch = 1;
  step.work = {.fetch = 1ms, .prep = 2ms, .bytes_read = 500, .corrupt = 1};
  step.batch_wait = interval(start, start + 1500ns);
  step.gpus.push_back(
      {.copy = interval(start + 2us, start + 3us),
       .compute = {interval(start + 3us, start + 5us), interval(start + 5us, start + 9us)}});
  step.end_wait = interval(start + 4us, start + 9us);
  return step;
}

TEST(TraceRecorder, WritesWhatChromesTraceFormatAsksFor) {
  TraceRecorder trace("V100", plan_of_one());
  trace.add(step_at(1s));
  EXPECT_EQ(
      trace.json(),
      R"({"displayTimeUnit":"ms","otherData":{"steps_left_out":0,"run":{}},"traceEvents":[)"
      "\n"
      R"({"name":"process_name","ph":"M","pid":1,"tid":0,"args":{"name":"host"}},)"
      "\n"
      R"({"name":"thread_name","ph":"M","pid":1,"tid":1,"args":{"name":"training loop"}},)"
      "\n"
      R"({"name":"process_name","ph":"M","pid":2,"tid":0,"args":{"name":"GPU 0 V100"}},)"
      "\n"
      R"({"name":"thread_name","ph":"M","pid":2,"tid":1,"args":{"name":"compute"}},)"
      "\n"
      R"({"name":"thread_name","ph":"M","pid":2,"tid":2,"args":{"name":"copy host to device"}},)"
      "\n"
      R"({"name":"wait for batch","ph":"X","pid":1,"tid":1,"ts":0.000,"dur":1.500,)"
      R"("args":{"step":3,"epoch":1,"fetch_ms":1.000,"prep_ms":2.000,"bytes_read":500,)"
      R"("corrupt":1}},)"
      "\n"
      R"({"name":"copy batch","ph":"X","pid":2,"tid":2,"ts":2.000,"dur":1.000,)"
      R"("args":{"step":3,"epoch":1}},)"
      "\n"
      R"({"name":"forward","ph":"X","pid":2,"tid":1,"ts":3.000,"dur":2.000,)"
      R"("args":{"step":3,"epoch":1}},)"
      "\n"
      R"({"name":"backward, optimizer","ph":"X","pid":2,"tid":1,"ts":5.000,"dur":4.000,)"
      R"("args":{"step":3,"epoch":1}},)"
      "\n"
      R"({"name":"wait for step","ph":"X","pid":1,"tid":1,"ts":4.000,"dur":5.000,)"
      R"("args":{"step":3,"epoch":1}})"
      "\n]}\n");
}

TEST(TraceRecorder, StaysWithinItsLimitAndTellsWhatIsMissing) {
  TraceRecorder trace("V100", plan_of_one(), 500);
  for (int i = 0; i < 10; ++i) trace.add(step_at(1s + i * 10us));
  EXPECT_EQ(trace.steps_left_out(), 9);
  EXPECT_NE(trace.json().find("\"steps_left_out\":9"), std::string::npos);
}

TEST(TraceRecorder, WritesAnEmptyTraceForARunWithoutSteps) {
  EXPECT_EQ(TraceRecorder("V100", plan_of_one()).json(),
            "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"steps_left_out\":0,\"run\":{}},"
            "\"traceEvents\":[\n\n]}\n");
}

TEST(TraceRecorder, ShowsExchangesAndGpusThatAreAlikeOnce) {
  StepPlan plan{.gpus = 64};
  plan.parts = {{.name = "forward"},
                {.name = "all-reduce", .exchange = true},
                {.name = "head", .first_gpu_only = true}};
  TraceRecorder trace("V100", plan);
  ObservedStep step;
  step.gpus = {{.compute = {interval(0us, 1us), interval(2us, 5us)}},
               {.compute = {interval(0us, 1us), interval(2us, 2us)}}};
  step.exchanges = {interval(1us, 2us)};
  trace.add(step);
  const std::string json = trace.json();
  EXPECT_NE(json.find("\"GPU 0 V100\""), std::string::npos);
  EXPECT_NE(json.find("\"GPUs 1 to 63, alike: V100\""), std::string::npos);
  EXPECT_NE(json.find(R"("name":"all-reduce","ph":"X","pid":2,"tid":3,"ts":1.000,"dur":1.000)"),
            std::string::npos);
  EXPECT_NE(json.find(R"("name":"head","ph":"X","pid":2,"tid":1,"ts":2.000,"dur":3.000)"),
            std::string::npos);
  EXPECT_EQ(json.find(R"("name":"head","ph":"X","pid":3)"), std::string::npos);
}

TEST(TraceRecorder, EscapesNames) {
  TraceRecorder trace("a\"b\\\n", plan_of_one());
  trace.add(step_at(1s));
  EXPECT_NE(trace.json().find("GPU 0 a\\\"b\\\\\\u000a"), std::string::npos);
}

}  // namespace
}  // namespace gpemu::train
