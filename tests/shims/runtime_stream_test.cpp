// SPDX-License-Identifier: Apache-2.0
// The runtime's devices, streams and events: one good call of each function and one bad one.
#include <cstdint>

#include "runtime_calls.hpp"

namespace {

constexpr size_t kLarge = size_t{1} << 30;

class RuntimeStreams : public RuntimeCalls {};

TEST_P(RuntimeStreams, DevicesAreDescribedAndChosen) {
  char text[64] = {};
  int device = -1, can = 1;
  EXPECT_EQ(call("cudaDeviceGetPCIBusId", text, 64, 0), kSuccess);
  EXPECT_EQ(call("cudaDeviceGetByPCIBusId", &device, text), kSuccess);
  EXPECT_EQ(device, 0);
  EXPECT_EQ(call("cudaDeviceGetPCIBusId", text, 64, kNoSuchDevice), kInvalidDevice);
  EXPECT_EQ(call("cudaDeviceGetPCIBusId", none_, 64, 0), kInvalidValue);
  EXPECT_EQ(call("cudaDeviceGetByPCIBusId", &device, "no bus"), kInvalidValue);
  int devices[] = {0}, others[] = {kNoSuchDevice};
  EXPECT_EQ(call("cudaSetValidDevices", devices, 1), kSuccess);
  EXPECT_EQ(call("cudaSetValidDevices", others, 1), kInvalidDevice);
  EXPECT_EQ(call("cudaSetValidDevices", none_, 1), kInvalidValue);
  EXPECT_EQ(call("cudaInitDevice", 0, 0U, 0U), kSuccess);
  EXPECT_EQ(call("cudaInitDevice", 0, 0x100U, 1U), kInvalidValue);
  EXPECT_EQ(call("cudaInitDevice", kNoSuchDevice, 0U, 0U), kInvalidDevice);
  EXPECT_EQ(call("cudaDeviceCanAccessPeer", &can, 0, 0), kSuccess);
  EXPECT_EQ(can, 0);
  EXPECT_EQ(call("cudaDeviceCanAccessPeer", &can, 0, kNoSuchDevice), kInvalidDevice);
  EXPECT_EQ(call("cudaDeviceGetP2PAttribute", &can, 2, 0, 0), kInvalidDevice);
  EXPECT_EQ(call("cudaDeviceGetP2PAttribute", &can, 0, 0, 0), kInvalidDevice);
  EXPECT_EQ(call("cudaDeviceEnablePeerAccess", kNoSuchDevice, 0U), kInvalidDevice);
  EXPECT_EQ(call("cudaDeviceEnablePeerAccess", kNoSuchDevice, 1U), kInvalidDevice);
  EXPECT_EQ(call("cudaDeviceEnablePeerAccess", 0, 1U), kInvalidValue);
  EXPECT_EQ(call("cudaDeviceEnablePeerAccess", 0, 0U), 217) << "itself";
  EXPECT_EQ(call("cudaDeviceDisablePeerAccess", 0), kNotEnabled);
  int version = 0;
  EXPECT_EQ(call("cudaDriverGetVersion", &version), kSuccess);
  EXPECT_EQ(version, 13020);
  EXPECT_EQ(call("cudaDriverGetVersion", none_), kInvalidValue);
  EXPECT_STREQ(call_as<const char*>("cudaGetErrorString", kNotReady), "device not ready");
  EXPECT_STREQ(call_as<const char*>("cudaGetErrorString", -1), "unrecognized error code");
  each({"cudaProfilerStart", "cudaProfilerStop"}, kSuccess);
}

TEST_P(RuntimeStreams, DevicesHaveSettings) {
  const struct {
    const char *get, *set;
    int initial, largest;
    bool old = false;  ///< until CUDA 12
  } settings[] = {{"cudaGetDeviceFlags", "cudaSetDeviceFlags", 8, 0xff},
                  {"cudaDeviceGetCacheConfig", "cudaDeviceSetCacheConfig", 0, 3},
                  {"cudaThreadGetCacheConfig", "cudaThreadSetCacheConfig", 0, 3, true},
                  {"cudaDeviceGetSharedMemConfig", "cudaDeviceSetSharedMemConfig", 1, 2}};
  for (const auto& [get, set, initial, largest, old] : settings) {
    if (old && GetParam() != 12) continue;
    int value = -1;
    EXPECT_EQ(call(get, &value), kSuccess) << get;
    EXPECT_EQ(value, initial) << get;
    EXPECT_EQ(call(get, none_), kInvalidValue) << get;
    EXPECT_EQ(call(set, initial), kSuccess) << set;
    EXPECT_EQ(call(set, largest + 1), kInvalidValue) << set;
  }
  for (const char* get : {"cudaDeviceGetLimit", "cudaThreadGetLimit"}) {
    if (GetParam() >= 13 && get == std::string("cudaThreadGetLimit")) continue;
    size_t stack_bytes = 0;
    EXPECT_EQ(call(get, &stack_bytes, 0), kSuccess) << get;
    EXPECT_EQ(stack_bytes, 1024U) << get;
    EXPECT_EQ(call(get, &stack_bytes, 9), kUnsupportedLimit) << get;
    EXPECT_EQ(call(get, &stack_bytes, 10), kInvalidValue) << get;
    EXPECT_EQ(call(get, none_, 0), kInvalidValue) << get;
  }
  for (const char* set : {"cudaDeviceSetLimit", "cudaThreadSetLimit"}) {
    if (GetParam() >= 13 && set == std::string("cudaThreadSetLimit")) continue;
    size_t stack_bytes = 0;
    EXPECT_EQ(call(set, 0, size_t{2000}), kSuccess) << set;
    EXPECT_EQ(call("cudaDeviceGetLimit", &stack_bytes, 0), kSuccess);
    EXPECT_EQ(stack_bytes, 2000U) << set;
    EXPECT_EQ(call(set, 0, size_t{1} << 20), kInvalidValue) << set;
    EXPECT_EQ(call(set, 0, size_t{1024}), kSuccess) << set;
  }
  int least = 1, greatest = 1;
  EXPECT_EQ(call("cudaDeviceGetStreamPriorityRange", &least, &greatest), kSuccess);
  EXPECT_EQ(least, 0);
  EXPECT_EQ(greatest, -5);
  EXPECT_EQ(call("cudaDeviceSynchronize"), kSuccess);
  if (GetParam() < 13) {
    EXPECT_EQ(call("cudaThreadSynchronize"), kSuccess);
  }
  for (const char* reset : {"cudaDeviceReset", "cudaThreadExit"}) {
    if (GetParam() >= 13 && reset == std::string("cudaThreadExit")) continue;
    void* const memory = allocate(64);
    EXPECT_EQ(call(reset), kSuccess);
    EXPECT_EQ(call("cudaFree", memory), kInvalidValue) << reset << " frees memory";
  }
}

TEST_P(RuntimeStreams, StreamsHaveProperties) {
  constexpr int kPriority = 8, kOtherAttribute = 1;
  void* stream = nullptr;
  EXPECT_EQ(call("cudaStreamCreateWithPriority", &stream, 2U, 0), kInvalidValue);
  EXPECT_EQ(call("cudaStreamCreateWithPriority", none_, 1U, 0), kInvalidValue);
  ASSERT_EQ(call("cudaStreamCreateWithPriority", &stream, 1U, -100), kSuccess);
  const struct {
    const char* function;
    int expected;
  } parts[] = {
      {"cudaStreamGetPriority", -5}, {"cudaStreamGetFlags", 1}, {"cudaStreamGetDevice", 0}};
  for (const auto& [function, expected] : parts) {
    for (const std::string& name : {std::string(function), twin_of(function)}) {
      int value = -7;
      EXPECT_EQ(call(name.c_str(), stream, &value), kSuccess) << name;
      EXPECT_EQ(value, expected) << name;
    }
    int value = 0;
    twins(function, kInvalidValue, stream, none_);
    twins(function, kInvalidHandle, dead_, &value);
  }
  uint64_t id = 0, of_thread = 0;
  EXPECT_EQ(call("cudaStreamGetId", none_, &id), kSuccess);
  EXPECT_EQ(call("cudaStreamGetId_ptsz", none_, &of_thread), kSuccess);
  EXPECT_NE(id, of_thread);
  twins("cudaStreamGetId", kInvalidHandle, dead_, &id);
  int priority = 0;
  twins("cudaStreamGetAttribute", kSuccess, stream, kPriority, &priority);
  EXPECT_EQ(priority, -5);
  twins("cudaStreamGetAttribute", kNotSupported, stream, kOtherAttribute, &priority);
  twins("cudaStreamSetAttribute", kNotSupported, stream, kPriority, &priority);
  twins("cudaStreamSetAttribute", kInvalidValue, stream, kPriority, none_);
  EXPECT_EQ(call("cudaStreamDestroy", stream), kSuccess);
  EXPECT_EQ(call("cudaStreamDestroy", stream), kInvalidHandle);
}

TEST_P(RuntimeStreams, StreamsAndEventsAreWaitedFor) {
  void *start = nullptr, *end = nullptr;
  void* const memory = allocate(kLarge);
  float milliseconds = 0;
  EXPECT_EQ(call("cudaEventCreateWithFlags", &start, 8U), kInvalidValue);
  ASSERT_EQ(call("cudaEventCreateWithFlags", &start, 0U), kSuccess);
  ASSERT_EQ(call("cudaEventCreateWithFlags", &end, 1U), kSuccess);
  EXPECT_EQ(call("cudaEventElapsedTime", &milliseconds, start, end), kInvalidHandle);
  for (const char* function : {"cudaEventRecord", "cudaEventRecordWithFlags"}) {
    for (const std::string suffix : {"", "_ptsz"}) {
      const auto on = [&](const std::string& name, auto... arguments) {
        return call((name + suffix).c_str(), arguments...);
      };
      EXPECT_EQ(on(function, start, none_, 0U), kSuccess);
      EXPECT_EQ(on("cudaMemsetAsync", memory, 0, kLarge, none_), kSuccess);
      EXPECT_EQ(on(function, end, none_, 0U), kSuccess);
      EXPECT_EQ(on("cudaStreamQuery", none_), kNotReady) << suffix;
      EXPECT_EQ(call("cudaEventQuery", end), kNotReady) << function << suffix;
      EXPECT_EQ(on("cudaStreamWaitEvent", none_, end, 0U), kSuccess);
      EXPECT_EQ(on("cudaStreamSynchronize", none_), kSuccess);
      EXPECT_EQ(call("cudaEventQuery", end), kSuccess) << function << suffix;
      EXPECT_EQ(on("cudaStreamQuery", none_), kSuccess) << suffix;
      for (const char* elapsed : {"cudaEventElapsedTime", "cudaEventElapsedTime_v2"}) {
        if (GetParam() >= 13 && elapsed == std::string("cudaEventElapsedTime_v2")) continue;
        milliseconds = 0;
        EXPECT_EQ(call(elapsed, &milliseconds, start, end), kSuccess);
        EXPECT_GT(milliseconds, 0.1F) << "900 GB/s at most";
        EXPECT_EQ(call(elapsed, none_, start, end), kInvalidValue);
      }
      EXPECT_EQ(on(function, dead_, none_, 0U), kInvalidHandle);
    }
  }
  twins("cudaEventRecordWithFlags", kInvalidValue, start, none_, 2U);
  twins("cudaStreamWaitEvent", kInvalidValue, none_, end, 2U);
  twins("cudaStreamQuery", kInvalidHandle, dead_);
  twins("cudaStreamSynchronize", kInvalidHandle, dead_);
  each({"cudaEventDestroy"}, kSuccess, start);
  each({"cudaEventDestroy"}, kSuccess, end);
  each({"cudaEventDestroy", "cudaEventQuery", "cudaEventSynchronize"}, kInvalidHandle, end);
  each({"cudaFree"}, kSuccess, memory);
}

TEST_P(RuntimeStreams, StreamsCallTheHost) {
  int calls = 0, expected = 4;
  const auto count = static_cast<void (*)(void*)>([](void* data) { ++*static_cast<int*>(data); });
  const auto check = static_cast<void (*)(void*, int, void*)>([](void*, int status, void* data) {
    EXPECT_EQ(status, kSuccess);
    ++*static_cast<int*>(data);
  });
  twins("cudaLaunchHostFunc", kSuccess, none_, count, &calls);
  twins("cudaStreamAddCallback", kSuccess, none_, check, &calls, 0U);
  if (GetParam() == 13) {
    twins("cudaLaunchHostFunc_v2", kSuccess, none_, count, &calls, 1U);
    twins("cudaLaunchHostFunc_v2", kInvalidValue, none_, count, &calls, 2U);
    expected = 6;
  }
  twins("cudaLaunchHostFunc", kInvalidValue, none_, none_, &calls);
  twins("cudaStreamAddCallback", kInvalidValue, none_, check, &calls, 1U);
  EXPECT_EQ(call("cudaDeviceSynchronize"), kSuccess);
  EXPECT_EQ(calls, expected);
}

GPEMU_FOR_ALL_RUNTIMES(RuntimeStreams);

}  // namespace
