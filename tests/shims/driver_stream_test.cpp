// SPDX-License-Identifier: Apache-2.0
// The driver's streams and events: one good call of each function and one bad one.
#include "driver_test.hpp"

namespace {

constexpr unsigned kNonBlocking = 1, kWithoutTiming = 2;
constexpr size_t kLarge = size_t{1} << 30;

TEST_F(Driver, StreamsHaveProperties) {
  constexpr int kPriority = 8, kOtherAttribute = 1;
  void *stream = nullptr, *urgent = nullptr;
  EXPECT_EQ(call("cuStreamCreate", &stream, 2U), kInvalidValue);
  EXPECT_EQ(call("cuStreamCreate", none_, 0U), kInvalidValue);
  ASSERT_EQ(call("cuStreamCreate", &stream, 0U), kSuccess);
  EXPECT_EQ(call("cuStreamCreateWithPriority", &urgent, 2U, 0), kInvalidValue);
  ASSERT_EQ(call("cuStreamCreateWithPriority", &urgent, kNonBlocking, -100), kSuccess);
  for (const std::string suffix : {"", "_ptsz"}) {
    const auto yields = [&](const std::string& function, int64_t expected) {
      int64_t value = -7;
      EXPECT_EQ(call((function + suffix).c_str(), urgent, &value), kSuccess) << function;
      EXPECT_EQ(expected < (1 << 30) ? static_cast<int>(value) : value, expected) << function;
      EXPECT_EQ(call((function + suffix).c_str(), urgent, none_), kInvalidValue) << function;
      EXPECT_EQ(call((function + suffix).c_str(), dead_, &value), kInvalidHandle) << function;
    };
    yields("cuStreamGetPriority", -5);
    yields("cuStreamGetFlags", kNonBlocking);
    yields("cuStreamGetDevice", 0);
    yields("cuStreamGetCtx", reinterpret_cast<int64_t>(context_));
    const std::string get_attribute = "cuStreamGetAttribute" + suffix;
    int priority = 0;
    EXPECT_EQ(call(get_attribute.c_str(), urgent, kPriority, &priority), kSuccess);
    EXPECT_EQ(priority, -5);
    EXPECT_EQ(call(get_attribute.c_str(), urgent, kOtherAttribute, &priority), kNotSupported);
    EXPECT_EQ(call(get_attribute.c_str(), urgent, kPriority, none_), kInvalidValue);
    const std::string get_contexts = "cuStreamGetCtx_v2" + suffix;
    void *context = nullptr, *green = dead_;
    EXPECT_EQ(call(get_contexts.c_str(), urgent, &context, &green), kSuccess);
    EXPECT_EQ(context, context_);
    EXPECT_EQ(green, nullptr);
    EXPECT_EQ(call(get_contexts.c_str(), dead_, &context, &green), kInvalidHandle);
  }
  uint64_t id = 0, of_thread = 0, of_other = 0;
  EXPECT_EQ(call("cuStreamGetId", none_, &id), kSuccess);
  EXPECT_EQ(call("cuStreamGetId_ptsz", none_, &of_thread), kSuccess);
  EXPECT_EQ(call("cuStreamGetId", stream, &of_other), kSuccess);
  EXPECT_NE(id, of_thread);
  EXPECT_NE(id, of_other);
  twins("cuStreamGetId", kInvalidHandle, dead_, &id);
  EXPECT_EQ(call("cuStreamDestroy", stream), kSuccess);
  EXPECT_EQ(call("cuStreamDestroy_v2", urgent), kSuccess);
  each({"cuStreamDestroy", "cuStreamDestroy_v2"}, kInvalidHandle, stream);
  each({"cuStreamDestroy", "cuStreamDestroy_v2"}, kInvalidHandle, none_);
}

TEST_F(Driver, StreamsAreWaitedFor) {
  const Address memory = allocate(kLarge);
  for (const std::string suffix : {"", "_ptsz"}) {
    const std::string set = "cuMemsetD8Async" + suffix;
    EXPECT_EQ(call(set.c_str(), memory, 0U, kLarge, none_), kSuccess);
    EXPECT_EQ(call(("cuStreamQuery" + suffix).c_str(), none_), kNotReady) << suffix;
    EXPECT_EQ(call(("cuStreamSynchronize" + suffix).c_str(), none_), kSuccess);
    EXPECT_EQ(call(("cuStreamQuery" + suffix).c_str(), none_), kSuccess) << suffix;
  }
  twins("cuStreamQuery", kInvalidHandle, dead_);
  twins("cuStreamSynchronize", kInvalidHandle, dead_);
  each({"cuMemFree_v2"}, kSuccess, memory);
}

TEST_F(Driver, EventsAreRecordedAndTimed) {
  void *start = nullptr, *end = nullptr, *untimed = nullptr;
  float milliseconds = 0;
  const Address memory = allocate(kLarge);
  EXPECT_EQ(call("cuEventCreate", &start, 8U), kInvalidValue);
  EXPECT_EQ(call("cuEventCreate", none_, 0U), kInvalidValue);
  ASSERT_EQ(call("cuEventCreate", &start, 0U), kSuccess);
  ASSERT_EQ(call("cuEventCreate", &end, 0U), kSuccess);
  ASSERT_EQ(call("cuEventCreate", &untimed, kWithoutTiming), kSuccess);
  each({"cuEventElapsedTime", "cuEventElapsedTime_v2"}, kInvalidHandle, &milliseconds, start, end);
  for (const std::string suffix : {"", "_ptsz", "WithFlags", "WithFlags_ptsz"}) {
    const std::string record = "cuEventRecord" + suffix;
    const bool of_thread = suffix.ends_with("_ptsz");
    EXPECT_EQ(call(record.c_str(), start, none_, 0U), kSuccess) << record;
    EXPECT_EQ(
        call(of_thread ? "cuMemsetD8Async_ptsz" : "cuMemsetD8Async", memory, 0U, kLarge, none_),
        kSuccess);
    EXPECT_EQ(call(record.c_str(), end, none_, 0U), kSuccess) << record;
    EXPECT_EQ(call("cuEventQuery", end), kNotReady) << record;
    EXPECT_EQ(call("cuEventElapsedTime", &milliseconds, start, end), kNotReady);
    twins("cuStreamWaitEvent", kSuccess, none_, end, 0U);
    EXPECT_EQ(call("cuEventSynchronize", end), kSuccess);
    EXPECT_EQ(call("cuEventQuery", end), kSuccess);
    for (const char* elapsed : {"cuEventElapsedTime", "cuEventElapsedTime_v2"}) {
      milliseconds = 0;
      EXPECT_EQ(call(elapsed, &milliseconds, start, end), kSuccess);
      EXPECT_GT(milliseconds, 0.1F) << "900 GB/s at most";
      EXPECT_EQ(call(elapsed, none_, start, end), kInvalidValue);
      EXPECT_EQ(call(elapsed, &milliseconds, untimed, end), kInvalidHandle);
    }
    EXPECT_EQ(call(record.c_str(), dead_, none_, 0U), kInvalidHandle) << record;
  }
  twins("cuEventRecordWithFlags", kInvalidValue, start, none_, 2U);
  twins("cuStreamWaitEvent", kInvalidValue, none_, end, 2U);
  twins("cuStreamWaitEvent", kInvalidHandle, none_, dead_, 0U);
  EXPECT_EQ(call("cuEventDestroy", start), kSuccess);
  each({"cuEventDestroy_v2"}, kSuccess, end);
  each({"cuEventDestroy_v2"}, kSuccess, untimed);
  each({"cuEventDestroy", "cuEventDestroy_v2", "cuEventQuery", "cuEventSynchronize"},
       kInvalidHandle, start);
  each({"cuMemFree_v2"}, kSuccess, memory);
}

TEST_F(Driver, StreamsCallTheHost) {
  int calls = 0;
  const auto count = static_cast<void (*)(void*)>([](void* data) { ++*static_cast<int*>(data); });
  const auto check = static_cast<void (*)(void*, int, void*)>([](void*, int status, void* data) {
    EXPECT_EQ(status, kSuccess);
    ++*static_cast<int*>(data);
  });
  twins("cuLaunchHostFunc", kSuccess, none_, count, &calls);
  twins("cuLaunchHostFunc_v2", kSuccess, none_, count, &calls, 1U);
  twins("cuStreamAddCallback", kSuccess, none_, check, &calls, 0U);
  EXPECT_EQ(call("cuCtxSynchronize"), kSuccess);
  EXPECT_EQ(calls, 6);
  twins("cuLaunchHostFunc", kInvalidValue, none_, none_, &calls);
  twins("cuLaunchHostFunc", kInvalidHandle, dead_, count, &calls);
  twins("cuLaunchHostFunc_v2", kInvalidValue, none_, count, &calls, 2U);
  twins("cuStreamAddCallback", kInvalidValue, none_, none_, &calls, 0U);
  twins("cuStreamAddCallback", kInvalidValue, none_, check, &calls, 1U);
  EXPECT_EQ(call("cuCtxSynchronize"), kSuccess);
  EXPECT_EQ(calls, 6);
}

}  // namespace
