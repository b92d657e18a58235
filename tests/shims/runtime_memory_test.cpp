// SPDX-License-Identifier: Apache-2.0
// The runtime's memory: one good call of each function and one bad one.
#include <csignal>
#include <cstdint>
#include <cstring>
#include <sys/wait.h>
#include <unistd.h>

#include "memory_structs.hpp"
#include "runtime_calls.hpp"

namespace {

constexpr size_t kBlockBytes = 4096;

// cudaIpcMemHandle_t.
struct IpcHandle {
  char bytes[64];
};

class RuntimeMemory : public RuntimeCalls {};

TEST_P(RuntimeMemory, RowsAndPlanesAreAllocatedWithAPitch) {
  void* memory = nullptr;
  size_t pitch = 0;
  EXPECT_EQ(call("cudaMallocPitch", &memory, &pitch, size_t{100}, size_t{3}), kSuccess);
  EXPECT_EQ(pitch, 512U);
  EXPECT_EQ(call("cudaMemset2D", memory, pitch, 0, pitch, size_t{3}), kSuccess);
  EXPECT_EQ(call("cudaFree", memory), kSuccess);
  EXPECT_EQ(call("cudaMallocPitch", &memory, none_, size_t{100}, size_t{3}), kInvalidValue);
  EXPECT_EQ(call("cudaMallocPitch", &memory, &pitch, size_t{100}, SIZE_MAX), kOutOfMemory);
  Pitched planes{};
  EXPECT_EQ(call("cudaMalloc3D", &planes, Extent{100, 3, 2}), kSuccess);
  EXPECT_EQ(planes.pitch, 512U);
  EXPECT_EQ(planes.width, 100U);
  EXPECT_EQ(planes.height, 3U);
  EXPECT_EQ(call("cudaMemset3D", planes, 0, Extent{100, 3, 2}), kSuccess);
  EXPECT_EQ(call("cudaFree", planes.pointer), kSuccess);
  EXPECT_EQ(call("cudaMalloc3D", none_, Extent{100, 3, 2}), kInvalidValue);
}

TEST_P(RuntimeMemory, ManagedMemoryTakesAdvice) {
  constexpr uint64_t kOnDevice = 1;  // cudaMemLocation of device 0, and an ordinal without effect
  void* managed = nullptr;
  void* const plain = allocate(kBlockBytes);
  EXPECT_EQ(call("cudaMallocManaged", &managed, kBlockBytes, 3U), kInvalidValue);
  EXPECT_EQ(call("cudaMallocManaged", none_, kBlockBytes, 1U), kInvalidValue);
  ASSERT_EQ(call("cudaMallocManaged", &managed, kBlockBytes, 1U), kSuccess);
  for (const char* advise : {"cudaMemAdvise", "cudaMemAdvise_v2"}) {
    if (GetParam() >= 13 && advise == std::string("cudaMemAdvise_v2")) continue;
    EXPECT_EQ(call(advise, managed, kBlockBytes, 1, kOnDevice), kSuccess) << advise;
    EXPECT_EQ(call(advise, managed, kBlockBytes, 7, kOnDevice), kInvalidValue) << advise;
    EXPECT_EQ(call(advise, plain, kBlockBytes, 1, kOnDevice), kInvalidValue) << advise;
  }
  for (const std::string prefetch : {"cudaMemPrefetchAsync", "cudaMemPrefetchAsync_v2"}) {
    if (GetParam() >= 13 && prefetch == "cudaMemPrefetchAsync_v2") continue;
    // With an ordinal, the last arguments are the stream, and nothing.
    const bool by_ordinal = GetParam() < 13 && prefetch == "cudaMemPrefetchAsync";
    const uint64_t place = by_ordinal ? 0 : kOnDevice;
    twins(prefetch, kSuccess, managed, kBlockBytes, place, none_, none_);
    twins(prefetch, kInvalidValue, plain, kBlockBytes, place, none_, none_);
    const uint64_t nowhere = by_ordinal ? kNoSuchDevice : kOnDevice | uint64_t{kNoSuchDevice} << 32;
    twins(prefetch, kInvalidDevice, managed, kBlockBytes, nowhere, none_, none_);
  }
  constexpr int kAccessedBy = 3, kPrefetched = 4;
  int place = -9, accessed[2] = {-9, -9};
  const char* const get = "cudaMemRangeGetAttribute";
  EXPECT_EQ(call(get, &place, sizeof(place), kPrefetched, managed, kBlockBytes), kSuccess);
  EXPECT_EQ(place, 0);
  EXPECT_EQ(call(get, &place, size_t{8}, kPrefetched, managed, kBlockBytes), kInvalidValue);
  EXPECT_EQ(call(get, &place, sizeof(place), 99, managed, kBlockBytes), kInvalidValue);
  void* data[] = {&place, &accessed};
  size_t sizes[] = {sizeof(place), sizeof(accessed)};
  int attributes[] = {kPrefetched, kAccessedBy};
  const char* const get_all = "cudaMemRangeGetAttributes";
  EXPECT_EQ(call(get_all, &data[0], &sizes[0], &attributes[0], size_t{2}, managed, kBlockBytes),
            kSuccess);
  EXPECT_EQ(accessed[1], -2) << "nobody";
  EXPECT_EQ(call(get_all, &data[0], &sizes[0], none_, size_t{2}, managed, kBlockBytes),
            kInvalidValue);
  twins("cudaStreamAttachMemAsync", kSuccess, none_, managed, size_t{0}, 4U);
  twins("cudaStreamAttachMemAsync", kInvalidValue, none_, plain, size_t{0}, 4U);
  twins("cudaStreamAttachMemAsync", kInvalidValue, none_, managed, size_t{0}, 5U);
  each({"cudaFree"}, kSuccess, managed);
  each({"cudaFree"}, kSuccess, plain);
}

TEST_P(RuntimeMemory, HostMemoryIsPinned) {
  void *memory = nullptr, *address = nullptr;
  unsigned flags = 9;
  EXPECT_EQ(call("cudaMallocHost", none_, kBlockBytes), kInvalidValue);
  ASSERT_EQ(call("cudaMallocHost", &memory, kBlockBytes), kSuccess);
  EXPECT_EQ(call("cudaHostGetFlags", &flags, memory), kSuccess);
  EXPECT_EQ(flags, 2U) << "mapped";
  EXPECT_EQ(call("cudaHostGetDevicePointer", &address, memory, 0U), kSuccess);
  EXPECT_EQ(address, memory);
  EXPECT_EQ(call("cudaHostGetDevicePointer", &address, memory, 1U), kInvalidValue);
  EXPECT_EQ(call("cudaFreeHost", memory), kSuccess);
  EXPECT_EQ(call("cudaFreeHost", memory), kInvalidValue);
  EXPECT_EQ(call("cudaFreeHost", none_), kSuccess);
  EXPECT_EQ(call("cudaHostGetFlags", &flags, memory), kInvalidValue);
  EXPECT_EQ(call("cudaHostGetDevicePointer", &address, memory, 0U), kInvalidValue);
  static char own[kBlockBytes];
  EXPECT_EQ(call("cudaHostRegister", &own[0], kBlockBytes, 0U), kSuccess);
  EXPECT_EQ(call("cudaHostRegister", &own[0], kBlockBytes, 0U), kAlreadyRegistered);
  EXPECT_EQ(call("cudaHostRegister", &own[0], kBlockBytes, 0x10U), kInvalidValue);
  EXPECT_EQ(call("cudaHostUnregister", &own[0]), kSuccess);
  EXPECT_EQ(call("cudaHostUnregister", &own[0]), kNotRegistered);
}

TEST_P(RuntimeMemory, PoolsGiveMemoryInTheOrderOfAStream) {
  constexpr int kReleaseThreshold = 4, kUsedNow = 7, kUnknown = 9;
  const PoolProperties on_device{kPinned, 0, {kDeviceLocation, 0}, nullptr, 0, {}};
  const PoolProperties on_host{kPinned, 0, {kHostLocation, 0}, nullptr, 0, {}};
  void *pool = nullptr, *usual = nullptr, *current = nullptr, *memory = nullptr;
  ASSERT_EQ(call("cudaMemPoolCreate", &pool, &on_device), kSuccess);
  EXPECT_EQ(call("cudaMemPoolCreate", none_, &on_device), kInvalidValue);
  EXPECT_EQ(call("cudaMemPoolCreate", &pool, &on_host), kNotSupported);
  for (const std::string suffix : {"", "_ptsz"}) {
    const auto on = [&](const std::string& name, auto... arguments) {
      return call((name + suffix).c_str(), arguments...);
    };
    uint64_t used = 0;
    EXPECT_EQ(on("cudaMallocAsync", &memory, kBlockBytes, none_), kSuccess);
    EXPECT_EQ(on("cudaFreeAsync", memory, none_), kSuccess);
    EXPECT_EQ(on("cudaFreeAsync", memory, none_), kInvalidValue);
    EXPECT_EQ(on("cudaMallocAsync", none_, kBlockBytes, none_), kInvalidValue);
    EXPECT_EQ(on("cudaMallocAsync", &memory, kBlockBytes, dead_), kInvalidHandle);
    EXPECT_EQ(on("cudaMallocFromPoolAsync", &memory, kBlockBytes, pool, none_), kSuccess);
    EXPECT_EQ(call("cudaMemPoolGetAttribute", pool, kUsedNow, &used), kSuccess);
    EXPECT_GE(used, kBlockBytes) << suffix;
    EXPECT_EQ(on("cudaFreeAsync", memory, none_), kSuccess);
    EXPECT_EQ(on("cudaMallocFromPoolAsync", &memory, kBlockBytes, none_, none_), kInvalidValue);
  }
  uint64_t threshold = kBlockBytes;
  EXPECT_EQ(call("cudaMemPoolSetAttribute", pool, kReleaseThreshold, &threshold), kSuccess);
  threshold = 0;
  EXPECT_EQ(call("cudaMemPoolGetAttribute", pool, kReleaseThreshold, &threshold), kSuccess);
  EXPECT_EQ(threshold, kBlockBytes);
  each({"cudaMemPoolGetAttribute", "cudaMemPoolSetAttribute"}, kInvalidValue, pool, kUnknown,
       &threshold);
  const Access access{{kDeviceLocation, 0}, kReadWrite};
  const Access of_host{{kHostLocation, 0}, kReadWrite};
  unsigned flags = 0;
  EXPECT_EQ(call("cudaMemPoolGetAccess", &flags, pool, &access.location), kSuccess);
  EXPECT_EQ(flags, kReadWrite);
  EXPECT_EQ(call("cudaMemPoolGetAccess", &flags, pool, &of_host.location), kInvalidValue);
  EXPECT_EQ(call("cudaMemPoolSetAccess", pool, &access, size_t{1}), kSuccess);
  EXPECT_EQ(call("cudaMemPoolSetAccess", pool, &of_host, size_t{1}), kInvalidValue);
  EXPECT_EQ(call("cudaMemPoolTrimTo", pool, size_t{0}), kSuccess);
  EXPECT_EQ(call("cudaDeviceGetDefaultMemPool", &usual, 0), kSuccess);
  EXPECT_EQ(call("cudaDeviceSetMemPool", 0, pool), kSuccess);
  EXPECT_EQ(call("cudaDeviceGetMemPool", &current, 0), kSuccess);
  EXPECT_EQ(current, pool);
  EXPECT_EQ(call("cudaDeviceSetMemPool", 0, usual), kSuccess);
  EXPECT_EQ(call("cudaDeviceSetMemPool", 0, none_), kInvalidValue);
  each({"cudaDeviceGetDefaultMemPool"}, kInvalidDevice, &current, kNoSuchDevice);
  each({"cudaDeviceGetMemPool"}, kInvalidValue, &current, kNoSuchDevice);
  EXPECT_EQ(call("cudaMemPoolDestroy", pool), kSuccess);
  each({"cudaMemPoolDestroy", "cudaMemPoolTrimTo"}, kInvalidValue, pool, size_t{0});
  uint64_t value = 0;
  EXPECT_EQ(call("cudaDeviceSetGraphMemAttribute", 0, 3, &value), kSuccess);
  EXPECT_EQ(call("cudaDeviceSetGraphMemAttribute", 0, 0, &value), kInvalidValue);
  EXPECT_EQ(call("cudaDeviceGraphMemTrim", 0), kSuccess);
  EXPECT_EQ(call("cudaDeviceGraphMemTrim", kNoSuchDevice), kInvalidDevice);
}

TEST_P(RuntimeMemory, OtherProcessesGetHandles) {
  constexpr unsigned kInvalidContext = 201, kWithoutTiming = 2, kInterprocess = 4;
  IpcHandle of_memory{}, of_event{};
  void *event = nullptr, *opened = nullptr, *opened_event = nullptr;
  void* const memory = allocate(kBlockBytes);
  ASSERT_EQ(call("cudaEventCreateWithFlags", &event, kWithoutTiming | kInterprocess), kSuccess);
  EXPECT_EQ(call("cudaIpcGetMemHandle", &of_memory, memory), kSuccess);
  EXPECT_EQ(call("cudaIpcGetMemHandle", &of_memory, none_), kInvalidValue);
  EXPECT_EQ(call("cudaIpcGetEventHandle", &of_event, event), kSuccess);
  EXPECT_EQ(call("cudaIpcGetEventHandle", &of_event, dead_), kInvalidHandle);
  EXPECT_EQ(call("cudaIpcOpenMemHandle", &opened, of_memory, 2U), kInvalidValue);
  EXPECT_EQ(call("cudaIpcOpenMemHandle", &opened, of_memory, 1U), kInvalidContext);
  EXPECT_EQ(call("cudaIpcOpenEventHandle", &opened_event, of_event), kInvalidContext);
  EXPECT_EQ(call("cudaIpcCloseMemHandle", memory), kInvalidValue) << "it was not opened";
  // A process that has the files of this one makes the handles those of another.
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  std::memcpy(&of_memory.bytes[12], &child, sizeof(child));
  std::memcpy(&of_event.bytes[12], &child, sizeof(child));
  EXPECT_EQ(call("cudaIpcOpenMemHandle", &opened, of_memory, 1U), kSuccess);
  EXPECT_EQ(call("cudaIpcCloseMemHandle", opened), kSuccess);
  EXPECT_EQ(call("cudaIpcOpenEventHandle", &opened_event, of_event), kSuccess);
  kill(child, SIGKILL);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  each({"cudaEventDestroy"}, kSuccess, opened_event);
  each({"cudaEventDestroy"}, kSuccess, event);
  each({"cudaFree"}, kSuccess, memory);
}

GPEMU_FOR_ALL_RUNTIMES(RuntimeMemory);

}  // namespace
