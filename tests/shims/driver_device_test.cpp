// SPDX-License-Identifier: Apache-2.0
// The driver's contexts, devices, statuses and tensor maps: one good call of each function and one
// bad one.
#include <algorithm>
#include <array>

#include <climits>

#include "driver_test.hpp"

namespace {

TEST_F(Driver, ContextsAreCreatedAndDestroyed) {
  constexpr unsigned kUnknownFlag = 0x100;
  void* context = nullptr;
  void* current = nullptr;
  ASSERT_EQ(call("cuCtxSetCurrent", none_), kSuccess);
  const auto check = [&](const char* destroy) {
    EXPECT_EQ(call("cuCtxGetCurrent", &current), kSuccess);
    EXPECT_EQ(current, context);
    EXPECT_EQ(call(destroy, context), kSuccess) << destroy;
    EXPECT_EQ(call("cuCtxGetCurrent", &current), kSuccess);
    EXPECT_EQ(current, nullptr) << destroy;
    EXPECT_EQ(call(destroy, none_), kInvalidValue);
    EXPECT_EQ(call(destroy, dead_), kInvalidContext);
  };
  for (const char* create : {"cuCtxCreate", "cuCtxCreate_v2"}) {
    EXPECT_EQ(call(create, &context, 0U, 0), kSuccess) << create;
    check("cuCtxDestroy");
    EXPECT_EQ(call(create, &context, kUnknownFlag, 0), kInvalidValue) << create;
    EXPECT_EQ(call(create, &context, 0U, kNoSuchDevice), kInvalidDevice) << create;
    EXPECT_EQ(call(create, none_, 0U, 0), kInvalidValue) << create;
  }
  EXPECT_EQ(call("cuCtxCreate_v3", &context, none_, 0, 0U, 0), kSuccess);
  check("cuCtxDestroy_v2");
  EXPECT_EQ(call("cuCtxCreate_v3", &context, dead_, 1, 0U, 0), kNotSupported);
  EXPECT_EQ(call("cuCtxCreate_v4", &context, none_, 0U, 0), kSuccess);
  check("cuCtxDestroy_v2");
  EXPECT_EQ(call("cuCtxCreate_v4", &context, dead_, 0U, 0), kNotSupported);
}

TEST_F(Driver, ContextsAreAStack) {
  void* popped = nullptr;
  EXPECT_EQ(call("cuCtxPushCurrent", context_), kSuccess);
  EXPECT_EQ(call("cuCtxPushCurrent_v2", context_), kSuccess);
  for (const char* pop : {"cuCtxPopCurrent", "cuCtxPopCurrent_v2", "cuCtxPopCurrent"}) {
    popped = nullptr;
    EXPECT_EQ(call(pop, &popped), kSuccess);
    EXPECT_EQ(popped, context_);
  }
  each({"cuCtxPopCurrent", "cuCtxPopCurrent_v2"}, kInvalidContext, &popped);
  each({"cuCtxPushCurrent", "cuCtxPushCurrent_v2"}, kInvalidValue, none_);
  each({"cuCtxPushCurrent", "cuCtxPushCurrent_v2", "cuCtxSetCurrent"}, kInvalidContext, dead_);
  EXPECT_EQ(call("cuCtxGetCurrent", none_), kInvalidValue);
  // Without a current context.
  uint64_t value = 0;
  each({"cuCtxGetDevice", "cuCtxGetFlags", "cuCtxGetCacheConfig", "cuCtxGetSharedMemConfig",
        "cuCtxGetStreamPriorityRange", "cuStreamCreate", "cuEventCreate"},
       kInvalidContext, &value, uint64_t{0});
  each({"cuProfilerStart", "cuProfilerStop", "cuCtxSynchronize", "cuCtxSetFlags",
        "cuCtxSetCacheConfig", "cuCtxSetSharedMemConfig", "cuMemFree_v2", "cuModuleUnload",
        "cuStreamSynchronize"},
       kInvalidContext, uint64_t{0});
  each({"cuCtxGetId", "cuCtxGetApiVersion"}, kInvalidContext, none_, &value);
  EXPECT_EQ(call("cuCtxGetLimit", &value, 0), kInvalidContext);
}

TEST_F(Driver, ContextsHaveADeviceAndSettings) {
  int device = -1;
  EXPECT_EQ(call("cuCtxGetDevice", &device), kSuccess);
  EXPECT_EQ(device, 0);
  EXPECT_EQ(call("cuCtxGetDevice", none_), kInvalidValue);
  for (void* context : {context_, none_}) {
    device = -1;
    uint64_t id = 0;
    unsigned version = 0;
    EXPECT_EQ(call("cuCtxGetDevice_v2", &device, context), kSuccess);
    EXPECT_EQ(device, 0);
    EXPECT_EQ(call("cuCtxGetId", context, &id), kSuccess);
    EXPECT_EQ(id, 1U);
    EXPECT_EQ(call("cuCtxGetApiVersion", context, &version), kSuccess);
    EXPECT_EQ(version, 3020U);
  }
  EXPECT_EQ(call("cuCtxGetDevice_v2", &device, dead_), kInvalidContext);
  each({"cuCtxGetId", "cuCtxGetApiVersion"}, kInvalidContext, dead_, &device);
  each({"cuCtxGetId", "cuCtxGetApiVersion"}, kInvalidValue, context_, none_);
  EXPECT_EQ(call("cuCtxSynchronize"), kSuccess);
  const struct {
    const char *get, *set;
    int initial, largest;
  } settings[] = {{"cuCtxGetFlags", "cuCtxSetFlags", 0, 0xff},
                  {"cuCtxGetCacheConfig", "cuCtxSetCacheConfig", 0, 3},
                  {"cuCtxGetSharedMemConfig", "cuCtxSetSharedMemConfig", 1, 2}};
  for (const auto& [get, set, initial, largest] : settings) {
    int value = -1;
    EXPECT_EQ(call(get, &value), kSuccess) << get;
    EXPECT_EQ(value, initial) << get;
    EXPECT_EQ(call(get, none_), kInvalidValue) << get;
    EXPECT_EQ(call(set, initial), kSuccess) << set;
    EXPECT_EQ(call(set, largest + 1), kInvalidValue) << set;
  }
  size_t stack_bytes = 0;
  EXPECT_EQ(call("cuCtxGetLimit", &stack_bytes, 0), kSuccess);
  EXPECT_EQ(stack_bytes, 1024U);
  EXPECT_EQ(call("cuCtxGetLimit", &stack_bytes, 9), kUnsupportedLimit);
  EXPECT_EQ(call("cuCtxGetLimit", &stack_bytes, 10), kInvalidValue);
  EXPECT_EQ(call("cuCtxSetLimit", 0, size_t{4000}), kSuccess);
  EXPECT_EQ(call("cuCtxGetLimit", &stack_bytes, 0), kSuccess);
  EXPECT_EQ(stack_bytes, 4000U);
  EXPECT_EQ(call("cuCtxSetLimit", 0, size_t{1} << 20), kInvalidValue);
  EXPECT_EQ(call("cuCtxSetLimit", 7, size_t{1024}), kUnsupportedLimit);
  EXPECT_EQ(call("cuCtxGetLimit", none_, 0), kInvalidValue);
  int least = 1, greatest = 1;
  EXPECT_EQ(call("cuCtxGetStreamPriorityRange", &least, &greatest), kSuccess);
  EXPECT_EQ(least, 0);
  EXPECT_EQ(greatest, -5);
  EXPECT_EQ(call("cuCtxGetStreamPriorityRange", none_, none_), kSuccess);
}

TEST_F(Driver, ContextsArePeersOfOtherDevicesOnly) {
  EXPECT_EQ(call("cuCtxEnablePeerAccess", context_, 0U), kPeerAccessUnsupported);
  EXPECT_EQ(call("cuCtxEnablePeerAccess", context_, 1U), kInvalidValue);
  EXPECT_EQ(call("cuCtxDisablePeerAccess", context_), kNotEnabled);
  for (void* context : {dead_, none_}) {
    EXPECT_EQ(call("cuCtxEnablePeerAccess", context, 0U), kInvalidContext);
    EXPECT_EQ(call("cuCtxDisablePeerAccess", context), kInvalidContext);
  }
  int can = 1;
  EXPECT_EQ(call("cuDeviceCanAccessPeer", &can, 0, 0), kSuccess);
  EXPECT_EQ(can, 0);
  EXPECT_EQ(call("cuDeviceCanAccessPeer", &can, 0, kNoSuchDevice), kInvalidDevice);
  EXPECT_EQ(call("cuDeviceCanAccessPeer", none_, 0, 0), kInvalidValue);
  EXPECT_EQ(call("cuDeviceGetP2PAttribute", &can, 2, 0, 0), kInvalidDevice);
  EXPECT_EQ(call("cuDeviceGetP2PAttribute", &can, 0, 0, 0), kInvalidDevice);
}

TEST_F(Driver, PrimaryContextsLiveWhileTheyAreRetained) {
  unsigned flags = 1;
  int active = 0;
  // An earlier test's use of the runtime in this process would keep the context.
  EXPECT_EQ(call("cuDevicePrimaryCtxReset", 0), kSuccess);
  EXPECT_EQ(call("cuDevicePrimaryCtxRelease", 0), kSuccess);
  EXPECT_EQ(call("cuDevicePrimaryCtxRetain", &context_, 0), kSuccess);
  for (const char* release : {"cuDevicePrimaryCtxRelease", "cuDevicePrimaryCtxRelease_v2"}) {
    EXPECT_EQ(call(release, 0), kSuccess) << release;
    EXPECT_EQ(call("cuDevicePrimaryCtxGetState", 0, &flags, &active), kSuccess);
    EXPECT_EQ(active, 0) << release;
    EXPECT_EQ(flags, 0U);
    EXPECT_EQ(call(release, 0), kInvalidContext) << release;
    EXPECT_EQ(call(release, kNoSuchDevice), kInvalidDevice) << release;
    EXPECT_EQ(call("cuDevicePrimaryCtxRetain", &context_, 0), kSuccess);
  }
  for (const char* reset : {"cuDevicePrimaryCtxReset", "cuDevicePrimaryCtxReset_v2"}) {
    const Address memory = allocate(64);
    EXPECT_EQ(call(reset, 0), kSuccess) << reset;
    EXPECT_EQ(call("cuMemFree_v2", memory), kInvalidValue) << reset << " frees memory";
    EXPECT_EQ(call(reset, kNoSuchDevice), kInvalidDevice) << reset;
  }
  for (const char* set : {"cuDevicePrimaryCtxSetFlags", "cuDevicePrimaryCtxSetFlags_v2"}) {
    EXPECT_EQ(call(set, 0, 0x100U), kInvalidValue) << set;
    EXPECT_EQ(call(set, kNoSuchDevice, 0U), kInvalidDevice) << set;
  }
  EXPECT_EQ(call("cuDevicePrimaryCtxSetFlags_v2", 0, 0U), kSuccess);
  EXPECT_EQ(call("cuDevicePrimaryCtxSetFlags", 0, 0U), 708) << "the context is active";
  EXPECT_EQ(call("cuDevicePrimaryCtxReset", 0), kSuccess);
  EXPECT_EQ(call("cuDevicePrimaryCtxSetFlags", 0, 0U), kSuccess);
  EXPECT_EQ(call("cuDevicePrimaryCtxRetain", &context_, kNoSuchDevice), kInvalidDevice);
  EXPECT_EQ(call("cuDevicePrimaryCtxRetain", none_, 0), kInvalidValue);
  EXPECT_EQ(call("cuDevicePrimaryCtxGetState", 0, none_, &active), kInvalidValue);
  EXPECT_EQ(call("cuDevicePrimaryCtxGetState", kNoSuchDevice, &flags, &active), kInvalidDevice);
}

TEST_F(Driver, DevicesAreDescribed) {
  EXPECT_EQ(call("cuInit", 1U), kInvalidValue);
  int count = 0, device = -1, major = 0, minor = -1, multiprocessors = 0;
  EXPECT_EQ(call("cuDeviceGetCount", &count), kSuccess);
  EXPECT_EQ(count, 1);
  EXPECT_EQ(call("cuDeviceGetCount", none_), kInvalidValue);
  EXPECT_EQ(call("cuDeviceGet", &device, 0), kSuccess);
  EXPECT_EQ(device, 0);
  EXPECT_EQ(call("cuDeviceGet", none_, 0), kInvalidValue);
  EXPECT_EQ(call("cuDeviceGet", &device, kNoSuchDevice), kInvalidDevice);
  EXPECT_EQ(call("cuDeviceGetAttribute", &multiprocessors, 16, 0), kSuccess);
  EXPECT_EQ(multiprocessors, 80);
  EXPECT_EQ(call("cuDeviceGetAttribute", &multiprocessors, 0, 0), kInvalidValue);
  EXPECT_EQ(call("cuDeviceComputeCapability", &major, &minor, 0), kSuccess);
  EXPECT_EQ(major, 7);
  EXPECT_EQ(minor, 0);
  EXPECT_EQ(call("cuDeviceComputeCapability", &major, none_, 0), kInvalidValue);
  std::array<int, 14> properties{};  // CUdevprop
  EXPECT_EQ(call("cuDeviceGetProperties", properties.data(), 0), kSuccess);
  EXPECT_EQ(properties[0], 1024) << "threads of a block";
  EXPECT_EQ(properties[9], 32) << "threads of a warp";
  size_t bytes = 0;
  unsigned clamped = 0;
  EXPECT_EQ(call("cuDeviceTotalMem_v2", &bytes, 0), kSuccess);
  EXPECT_GT(bytes, size_t{31} << 30);
  EXPECT_EQ(call("cuDeviceTotalMem", &clamped, 0), kSuccess);
  EXPECT_EQ(clamped, UINT_MAX);
  std::array<uint8_t, 16> uuid{}, uuid_2{};
  EXPECT_EQ(call("cuDeviceGetUuid", uuid.data(), 0), kSuccess);
  EXPECT_EQ(call("cuDeviceGetUuid_v2", uuid_2.data(), 0), kSuccess);
  EXPECT_EQ(uuid, uuid_2);
  EXPECT_NE(uuid, (std::array<uint8_t, 16>{}));
  for (const char* get : {"cuDeviceGetProperties", "cuDeviceTotalMem_v2", "cuDeviceTotalMem",
                          "cuDeviceGetUuid", "cuDeviceGetUuid_v2"}) {
    EXPECT_EQ(call(get, properties.data(), kNoSuchDevice), kInvalidDevice) << get;
    EXPECT_EQ(call(get, none_, 0), kInvalidValue) << get;
  }
}

TEST_F(Driver, DevicesAreFoundByTheirNames) {
  char text[64] = {};
  int device = -1;
  EXPECT_EQ(call("cuDeviceGetName", text, 64, 0), kSuccess);
  EXPECT_STREQ(text, "Tesla V100-PCIE-32GB");
  EXPECT_EQ(call("cuDeviceGetName", text, 6, 0), kSuccess);
  EXPECT_STREQ(text, "Tesla");
  EXPECT_EQ(call("cuDeviceGetPCIBusId", text, 64, 0), kSuccess);
  EXPECT_EQ(call("cuDeviceGetByPCIBusId", &device, text), kSuccess);
  EXPECT_EQ(device, 0);
  for (const char* get : {"cuDeviceGetName", "cuDeviceGetPCIBusId"}) {
    EXPECT_EQ(call(get, text, 0, 0), kInvalidValue) << get;
    EXPECT_EQ(call(get, none_, 64, 0), kInvalidValue) << get;
    EXPECT_EQ(call(get, text, 64, kNoSuchDevice), kInvalidDevice) << get;
  }
  EXPECT_EQ(call("cuDeviceGetByPCIBusId", &device, "no bus"), kInvalidValue);
  EXPECT_EQ(call("cuDeviceGetByPCIBusId", &device, "ffff:ff:1f.0"), kInvalidDevice);
}

TEST_F(Driver, StatusesAndSymbolsHaveNames) {
  int version = 0;
  EXPECT_EQ(call("cuDriverGetVersion", &version), kSuccess);
  EXPECT_EQ(version, 13020);
  EXPECT_EQ(call("cuDriverGetVersion", none_), kInvalidValue);
  const char* text = nullptr;
  EXPECT_EQ(call("cuGetErrorName", kNotReady, &text), kSuccess);
  EXPECT_STREQ(text, "CUDA_ERROR_NOT_READY");
  EXPECT_EQ(call("cuGetErrorString", kNotReady, &text), kSuccess);
  EXPECT_STREQ(text, "device not ready");
  each({"cuGetErrorName", "cuGetErrorString"}, kInvalidValue, -1, &text);
  EXPECT_EQ(text, nullptr);
  void* found = nullptr;
  EXPECT_EQ(call("cuGetProcAddress", "cuInit", &found, 12000, uint64_t{0}), kSuccess);
  EXPECT_NE(found, nullptr);
  EXPECT_EQ(call("cuGetProcAddress", "cuNone", &found, 12000, uint64_t{0}), kNotFound);
  EXPECT_EQ(found, nullptr);
  each({"cuProfilerStart", "cuProfilerStop"}, kSuccess);
}

using LogCallback = void (*)(void*, int, char*, size_t);
constexpr LogCallback kAppendTo = [](void* data, int, char* line, size_t length) {
  static_cast<std::string*>(data)->append(line, length);
};

// A program with the static runtime gets "not supported" and reads what to do; other tables are
// named by their ids.
TEST_F(Driver, RefusesExportTablesByName) {
  constexpr std::array<uint8_t, 16> kFirst = {0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a,
                                              0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9};
  constexpr std::array<uint8_t, 16> kBefore = {0xf8, 0xcf, 0xf9, 0x51, 0x21, 0x46, 0x8b, 0x4e,
                                               0xb9, 0xe2, 0xfb, 0x46, 0x9e, 0x7c, 0x0d, 0xd9};
  std::string lines;
  void* log = nullptr;
  ASSERT_EQ(call("cuLogsRegisterCallback", kAppendTo, &lines, &log), kSuccess);
  void* found = dead_;
  EXPECT_EQ(call("cuGetExportTable", &found, none_), kInvalidValue);
  EXPECT_EQ(call("cuGetExportTable", none_, kFirst.data()), kInvalidValue);
  EXPECT_EQ(lines, "");
  EXPECT_EQ(call("cuGetExportTable", &found, kBefore.data()), kNotSupported);
  EXPECT_EQ(found, nullptr);
  EXPECT_EQ(call("cuGetExportTable", &found, kFirst.data()), kNotSupported);
  EXPECT_NE(lines.find("nvcc -cudart shared"), std::string::npos) << lines;
  found = dead_;
  EXPECT_EQ(call("cuGetExportTable", &found, "no-such-table-id"), kNotFound);
  EXPECT_EQ(found, nullptr);
  EXPECT_NE(lines.find("6e6f2d73-7563-682d-7461-626c652d6964"), std::string::npos) << lines;
  EXPECT_EQ(call("cuLogsUnregisterCallback", log), kSuccess);
}

TEST_F(Driver, LogLinesReachWhoRegistered) {
  std::string lines;
  void* log = nullptr;
  ASSERT_EQ(call("cuLogsRegisterCallback", kAppendTo, &lines, &log), kSuccess);
  EXPECT_EQ(call("cuArrayCreate"), kNotSupported);
  EXPECT_NE(lines.find("cuArrayCreate"), std::string::npos) << lines;
  EXPECT_EQ(call("cuLogsUnregisterCallback", log), kSuccess);
  EXPECT_EQ(call("cuLogsUnregisterCallback", log), kInvalidValue);
  EXPECT_EQ(call("cuLogsRegisterCallback", none_, none_, &log), kInvalidValue);
}

}  // namespace
