// SPDX-License-Identifier: Apache-2.0
#include "gpemu/train/trace_recorder.hpp"

#include <gtest/gtest.h>

namespace gpemu::train {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): literals only.

device::Interval interval(Duration start, Duration end) {
  return {.start = TimePoint(start), .end = TimePoint(end)};
}

ObservedStep step_at(Duration start) {
  ObservedStep step;
  step.index = 3;
  step.epoch = 1;
  step.work = {.fetch = 1ms, .prep = 2ms, .bytes_read = 500, .corrupt = 1};
  step.batch_wait = interval(start, start + 1500ns);
  step.gpus.push_back({.copy = interval(start + 2us, start + 3us),
                       .forward = interval(start + 3us, start + 5us),
                       .backward = interval(start + 5us, start + 9us)});
  step.end_wait = interval(start + 4us, start + 9us);
  return step;
}

TEST(TraceRecorder, WritesWhatChromesTraceFormatAsksFor) {
  TraceRecorder trace("V100");
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
  TraceRecorder trace("V100", 500);
  for (int i = 0; i < 10; ++i) trace.add(step_at(1s + i * 10us));
  EXPECT_EQ(trace.steps_left_out(), 9);
  EXPECT_NE(trace.json().find("\"steps_left_out\":9"), std::string::npos);
}

TEST(TraceRecorder, WritesAnEmptyTraceForARunWithoutSteps) {
  EXPECT_EQ(TraceRecorder("V100").json(),
            "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"steps_left_out\":0,\"run\":{}},"
            "\"traceEvents\":[\n\n]}\n");
}

TEST(TraceRecorder, EscapesNames) {
  TraceRecorder trace("a\"b\\\n");
  trace.add(step_at(1s));
  EXPECT_NE(trace.json().find("GPU 0 a\\\"b\\\\\\u000a"), std::string::npos);
}

}  // namespace
}  // namespace gpemu::train
