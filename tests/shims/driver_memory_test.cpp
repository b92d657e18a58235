// SPDX-License-Identifier: Apache-2.0
// The driver's memory: one good call of each function and one bad one.
#include <array>
#include <csignal>
#include <cstring>
#include <sys/wait.h>
#include <unistd.h>

#include "driver_test.hpp"

namespace {

constexpr size_t kBytes = 4096;

TEST_F(Driver, MemoryIsAllocatedAndFreed) {
  size_t before = 0, after = 0, total = 0, pitch = 0;
  EXPECT_EQ(call("cuMemGetInfo_v2", &before, &total), kSuccess);
  EXPECT_EQ(call("cuMemGetInfo_v2", none_, &total), kSuccess);
  Address memory = allocate(size_t{1} << 30);
  EXPECT_EQ(call("cuMemGetInfo_v2", &after, &total), kSuccess);
  EXPECT_EQ(before - after, size_t{1} << 30);
  EXPECT_EQ(call("cuMemFree_v2", memory), kSuccess);
  EXPECT_EQ(call("cuMemFree_v2", memory), kInvalidValue);
  EXPECT_EQ(call("cuMemAlloc_v2", &memory, size_t{1} << 40), kOutOfMemory);
  EXPECT_EQ(call("cuMemAlloc_v2", &memory, size_t{0}), kInvalidValue);
  EXPECT_EQ(call("cuMemAlloc_v2", none_, kBytes), kInvalidValue);
  EXPECT_EQ(call("cuMemAllocPitch_v2", &memory, &pitch, size_t{100}, size_t{3}, 4U), kSuccess);
  EXPECT_EQ(pitch, 512U);
  Address base = 0;
  size_t bytes = 0;
  EXPECT_EQ(call("cuMemGetAddressRange_v2", &base, &bytes, memory + 8), kSuccess);
  EXPECT_EQ(base, memory);
  EXPECT_EQ(bytes, 3U * 512);
  EXPECT_EQ(call("cuMemGetAddressRange_v2", none_, none_, memory), kSuccess);
  EXPECT_EQ(call("cuMemFree_v2", memory), kSuccess);
  EXPECT_EQ(call("cuMemGetAddressRange_v2", &base, &bytes, memory), kNotFound);
  EXPECT_EQ(call("cuMemAllocPitch_v2", &memory, &pitch, size_t{100}, size_t{3}, 3U), kInvalidValue);
  EXPECT_EQ(call("cuMemAllocPitch_v2", &memory, none_, size_t{100}, size_t{3}, 4U), kInvalidValue);
  EXPECT_EQ(call("cuMemAllocPitch_v2", &memory, &pitch, size_t{512}, SIZE_MAX, 4U), kOutOfMemory);
}

TEST_F(Driver, ManagedMemoryTakesAdvice) {
  constexpr uint64_t kOnDevice = 1;  // CUmemLocation of device 0
  Address managed = 0;
  for (const unsigned flags : {0U, 3U}) {
    EXPECT_EQ(call("cuMemAllocManaged", &managed, kBytes, flags), kInvalidValue);
  }
  EXPECT_EQ(call("cuMemAllocManaged", &managed, kBytes, 1U), kSuccess);
  const Address plain = allocate(kBytes);
  for (const auto& [advise, location] :
       {std::pair{"cuMemAdvise", uint64_t{0}}, {"cuMemAdvise_v2", kOnDevice}}) {
    EXPECT_EQ(call(advise, managed, kBytes, 1, location), kSuccess) << advise;
    EXPECT_EQ(call(advise, managed, kBytes, 7, location), kInvalidValue) << advise;
    EXPECT_EQ(call(advise, plain, kBytes, 1, location), kInvalidValue) << advise;
  }
  constexpr uint64_t kHostNode = 3;  // CU_MEM_LOCATION_TYPE_HOST_NUMA
  twins("cuMemPrefetchAsync", kSuccess, managed, kBytes, 0, none_);
  twins("cuMemPrefetchAsync", kInvalidDevice, managed, kBytes, kNoSuchDevice, none_);
  twins("cuMemPrefetchAsync_v2", kSuccess, managed, kBytes, kOnDevice, 0U, none_);
  twins("cuMemPrefetchAsync_v2", kInvalidValue, managed, kBytes, kOnDevice, 1U, none_);
  twins("cuMemPrefetchAsync_v2", kInvalidValue, managed, kBytes, uint64_t{0}, 0U, none_);
  twins("cuMemPrefetchAsync_v2", kNotSupported, managed, kBytes, kHostNode, 0U, none_);
  twins("cuStreamAttachMemAsync", kSuccess, none_, managed, size_t{0}, 4U);
  twins("cuStreamAttachMemAsync", kInvalidValue, none_, plain, size_t{0}, 4U);
  // Where it was prefetched, and where it should be.
  const struct {
    int attribute, value;
  } attributes[] = {{4, 0}, {7, 1}, {8, 0}, {2, -2}, {5, 0}, {6, -2}, {1, 1}};
  for (const auto& [attribute, expected] : attributes) {
    int value = -9;
    EXPECT_EQ(call("cuMemRangeGetAttribute", &value, sizeof(value), attribute, managed, kBytes),
              kSuccess);
    EXPECT_EQ(value, expected) << attribute;
  }
  EXPECT_EQ(call("cuMemRangeGetAttribute", none_, sizeof(int), 1, managed, kBytes), kInvalidValue);
  int value = -9, asked = 1;
  void* data = &value;
  size_t size = sizeof(value);
  EXPECT_EQ(call("cuMemRangeGetAttributes", &data, &size, &asked, size_t{1}, managed, kBytes),
            kSuccess);
  EXPECT_EQ(value, 1);
  EXPECT_EQ(call("cuMemRangeGetAttributes", &data, &size, &asked, size_t{0}, managed, kBytes),
            kInvalidValue);
  each({"cuMemFree_v2"}, kSuccess, managed);
  each({"cuMemFree_v2"}, kSuccess, plain);
}

TEST_F(Driver, HostMemoryIsPinned) {
  void* memory = nullptr;
  Address address = 0;
  unsigned flags = 0;
  EXPECT_EQ(call("cuMemHostAlloc", &memory, kBytes, 8U), kInvalidValue);
  EXPECT_EQ(call("cuMemHostAlloc", none_, kBytes, 0U), kInvalidValue);
  ASSERT_EQ(call("cuMemHostAlloc", &memory, kBytes, 7U), kSuccess);
  EXPECT_EQ(call("cuMemHostGetFlags", &flags, memory), kSuccess);
  EXPECT_EQ(flags, 7U);
  EXPECT_EQ(call("cuMemHostGetFlags", none_, memory), kInvalidValue);
  EXPECT_EQ(call("cuMemHostGetDevicePointer_v2", &address, memory, 0U), kSuccess);
  EXPECT_EQ(address, reinterpret_cast<Address>(memory));
  EXPECT_EQ(call("cuMemHostGetDevicePointer_v2", &address, memory, 1U), kInvalidValue);
  EXPECT_EQ(call("cuMemFreeHost", memory), kSuccess);
  EXPECT_EQ(call("cuMemFreeHost", none_), kSuccess);
  EXPECT_EQ(call("cuMemHostUnregister", none_), kInvalidValue);
  EXPECT_EQ(call("cuMemFreeHost", memory), kInvalidValue);
  EXPECT_EQ(call("cuMemHostGetFlags", &flags, memory), kInvalidValue);
  EXPECT_EQ(call("cuMemHostGetDevicePointer_v2", &address, memory, 0U), kInvalidValue);
  EXPECT_EQ(call("cuMemAllocHost_v2", none_, kBytes), kInvalidValue);
  EXPECT_EQ(call("cuMemAllocHost_v2", &memory, size_t{0}), kSuccess);
  EXPECT_EQ(memory, nullptr);
  ASSERT_EQ(call("cuMemAllocHost_v2", &memory, kBytes), kSuccess);
  EXPECT_EQ(call("cuMemFreeHost", memory), kSuccess);
  static char own[kBytes];
  for (const char* function : {"cuMemHostRegister", "cuMemHostRegister_v2"}) {
    EXPECT_EQ(call(function, &own[0], kBytes, 0U), kSuccess) << function;
    EXPECT_EQ(call(function, &own[0], kBytes, 0U), kAlreadyRegistered) << function;
    EXPECT_EQ(call(function, &own[0], kBytes, 0x10U), kInvalidValue) << function;
    EXPECT_EQ(call(function, none_, kBytes, 0U), kInvalidValue) << function;
    EXPECT_EQ(call("cuMemHostUnregister", &own[0]), kSuccess);
    EXPECT_EQ(call("cuMemHostUnregister", &own[0]), kNotRegistered);
  }
}

TEST_F(Driver, PointersAreDescribed) {
  constexpr int kType = 2, kDevicePointer = 3, kHostPointer = 4, kManaged = 8, kOrdinal = 9,
                kStart = 11, kSize = 12, kUnknown = 99;
  const Address memory = allocate(kBytes);
  const struct {
    int attribute;
    uint64_t value;
  } attributes[] = {{kType, 2},       {kDevicePointer, memory + 8},
                    {kManaged, 0},    {kOrdinal, 0},
                    {kStart, memory}, {kSize, kBytes}};
  for (const auto& [attribute, expected] : attributes) {
    uint64_t value = 0;
    EXPECT_EQ(call("cuPointerGetAttribute", &value, attribute, memory + 8), kSuccess) << attribute;
    EXPECT_EQ(value, expected) << attribute;
  }
  uint64_t value = 1, start = 0;
  for (const int attribute : {kHostPointer, kUnknown}) {
    EXPECT_EQ(call("cuPointerGetAttribute", &value, attribute, memory), kInvalidValue);
  }
  EXPECT_EQ(call("cuPointerGetAttribute", none_, kType, memory), kInvalidValue);
  const std::array<int, 2> asked{kHostPointer, kStart};
  std::array<void*, 2> data{&value, &start};
  EXPECT_EQ(call("cuPointerGetAttributes", 2U, asked.data(), data.data(), memory), kSuccess);
  EXPECT_EQ(value, 0U) << "device memory has no host pointer";
  EXPECT_EQ(start, memory);
  EXPECT_EQ(call("cuPointerGetAttributes", 0U, asked.data(), data.data(), memory), kInvalidValue);
  EXPECT_EQ(call("cuPointerGetAttributes", 2U, asked.data(), none_, memory), kInvalidValue);
  each({"cuMemFree_v2"}, kSuccess, memory);
  EXPECT_EQ(call("cuPointerGetAttribute", &value, kType, memory), kInvalidValue);
  EXPECT_EQ(call("cuPointerGetAttributes", 2U, asked.data(), data.data(), memory), kSuccess);
  EXPECT_EQ(start, 0U) << "memory that CUDA does not know";
}

/// CUipcMemHandle and CUipcEventHandle.
struct IpcHandle {
  char bytes[64];
};

TEST_F(Driver, OtherProcessesGetHandles) {
  constexpr unsigned kWithoutTiming = 2, kInterprocess = 4;
  IpcHandle of_memory{}, of_event{};
  void *event = nullptr, *plain = nullptr, *opened_event = nullptr;
  Address opened = 0;
  const Address memory = allocate(kBytes);
  ASSERT_EQ(call("cuEventCreate", &event, kWithoutTiming | kInterprocess), kSuccess);
  ASSERT_EQ(call("cuEventCreate", &plain, 0U), kSuccess);
  EXPECT_EQ(call("cuIpcGetMemHandle", &of_memory, memory), kSuccess);
  EXPECT_EQ(call("cuIpcGetMemHandle", none_, memory), kInvalidValue);
  EXPECT_EQ(call("cuIpcGetMemHandle", &of_memory, Address{8}), kInvalidValue);
  EXPECT_EQ(call("cuIpcGetEventHandle", &of_event, event), kSuccess);
  EXPECT_EQ(call("cuIpcGetEventHandle", none_, event), kInvalidValue);
  EXPECT_EQ(call("cuIpcGetEventHandle", &of_event, plain), kInvalidHandle);
  for (const char* open : {"cuIpcOpenMemHandle", "cuIpcOpenMemHandle_v2"}) {
    EXPECT_EQ(call(open, &opened, of_memory, 1U), kInvalidContext) << "its own process";
    EXPECT_EQ(call(open, &opened, of_memory, 2U), kInvalidValue) << open;
    EXPECT_EQ(call(open, none_, of_memory, 1U), kInvalidValue) << open;
  }
  EXPECT_EQ(call("cuIpcOpenEventHandle", &opened_event, of_event), kInvalidContext);
  EXPECT_EQ(call("cuIpcOpenEventHandle", none_, of_event), kInvalidValue);
  EXPECT_EQ(call("cuIpcCloseMemHandle", memory), kInvalidValue) << "it was not opened";
  // A process that has the files of this one makes the handles those of another.
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  std::memcpy(&of_memory.bytes[12], &child, sizeof(child));
  std::memcpy(&of_event.bytes[12], &child, sizeof(child));
  for (const char* open : {"cuIpcOpenMemHandle", "cuIpcOpenMemHandle_v2"}) {
    EXPECT_EQ(call(open, &opened, of_memory, 1U), kSuccess) << open;
    EXPECT_EQ(call("cuIpcCloseMemHandle", opened), kSuccess);
  }
  EXPECT_EQ(call("cuIpcOpenEventHandle", &opened_event, of_event), kSuccess);
  kill(child, SIGKILL);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  for (void* each_event : {event, plain, opened_event}) {
    each({"cuEventDestroy"}, kSuccess, each_event);
  }
  each({"cuMemFree_v2"}, kSuccess, memory);
}

}  // namespace
