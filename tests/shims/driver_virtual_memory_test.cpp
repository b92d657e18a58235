// SPDX-License-Identifier: Apache-2.0
// The driver's virtual memory and stream-ordered memory: one good call of each function and one bad
// one.
#include <unistd.h>

#include "driver_test.hpp"
#include "memory_structs.hpp"

namespace {

constexpr size_t kPage = size_t{2} << 20;
constexpr int kFileDescriptor = 1;

// CUmemAllocationProp.
struct AllocationProperties {
  int type, handle_types;
  Location location;
  void* security;
  char flags[8];
};
constexpr AllocationProperties kOnDevice{
    kPinned, kFileDescriptor, {kDeviceLocation, 0}, nullptr, {}};
constexpr AllocationProperties kOnHost{kPinned, 0, {kHostLocation, 0}, nullptr, {}};
constexpr AllocationProperties kOfNoType{0, 0, {kDeviceLocation, 0}, nullptr, {}};

TEST_F(Driver, PhysicalMemoryIsCreatedAndShared) {
  constexpr uint64_t kNoFlags = 0;
  size_t granularity = 0;
  uint64_t handle = 0, imported = 0;
  int descriptor = -1;
  EXPECT_EQ(call("cuMemGetAllocationGranularity", &granularity, &kOnDevice, 0), kSuccess);
  EXPECT_EQ(granularity, kPage);
  EXPECT_EQ(call("cuMemGetAllocationGranularity", &granularity, &kOnDevice, 2), kInvalidValue);
  EXPECT_EQ(call("cuMemGetAllocationGranularity", &granularity, &kOnHost, 0), kNotSupported);
  EXPECT_EQ(call("cuMemCreate", &handle, kPage, &kOnDevice, kNoFlags), kSuccess);
  EXPECT_EQ(call("cuMemCreate", &handle, kPage - 1, &kOnDevice, kNoFlags), kInvalidValue);
  EXPECT_EQ(call("cuMemCreate", &handle, kPage, &kOfNoType, kNoFlags), kInvalidValue);
  EXPECT_EQ(call("cuMemCreate", &handle, kPage, &kOnHost, kNoFlags), kNotSupported);
  AllocationProperties properties = kOnHost;
  EXPECT_EQ(call("cuMemGetAllocationPropertiesFromHandle", &properties, handle), kSuccess);
  EXPECT_EQ(properties.type, kPinned);
  EXPECT_EQ(properties.location.type, kDeviceLocation);
  EXPECT_EQ(properties.location.id, 0);
  EXPECT_EQ(call("cuMemGetAllocationPropertiesFromHandle", none_, handle), kInvalidValue);
  const char* const export_to = "cuMemExportToShareableHandle";
  const char* const import_from = "cuMemImportFromShareableHandle";
  EXPECT_EQ(call(export_to, &descriptor, handle, kFileDescriptor, kNoFlags), kSuccess);
  EXPECT_EQ(call(export_to, &descriptor, handle, 2, kNoFlags), kNotSupported);
  EXPECT_EQ(call(export_to, none_, handle, kFileDescriptor, kNoFlags), kInvalidValue);
  EXPECT_EQ(call(import_from, &imported, uint64_t(descriptor), kFileDescriptor), kSuccess);
  EXPECT_EQ(close(descriptor), 0);
  EXPECT_EQ(call(import_from, &imported, uint64_t(descriptor), kFileDescriptor), kInvalidValue);
  EXPECT_EQ(call(import_from, &imported, uint64_t(descriptor), 2), kNotSupported);
  EXPECT_EQ(call("cuMemRelease", imported), kSuccess);
  EXPECT_EQ(call("cuMemRelease", handle), kSuccess);
  EXPECT_EQ(call("cuMemRelease", handle), kInvalidValue);
  EXPECT_EQ(call(export_to, &descriptor, handle, kFileDescriptor, kNoFlags), kInvalidValue);
  EXPECT_EQ(call("cuMemGetAllocationPropertiesFromHandle", &properties, handle), kInvalidValue);
}

TEST_F(Driver, AddressesAreReservedAndMapped) {
  constexpr uint64_t kNoFlags = 0, kAnywhere = 0, kStart = 0;
  const Access accesses[] = {{{kDeviceLocation, 0}, kReadWrite}};
  const Access of_host[] = {{{kHostLocation, 0}, kReadWrite}};
  const Access elsewhere[] = {{{kDeviceLocation, kNoSuchDevice}, kReadWrite}};
  Address range = 0;
  uint64_t handle = 0, retained = 0, flags = 1;
  ASSERT_EQ(call("cuMemCreate", &handle, kPage, &kOnDevice, kNoFlags), kSuccess);
  EXPECT_EQ(call("cuMemAddressReserve", &range, kPage, kPage, kAnywhere, uint64_t{1}),
            kInvalidValue);
  EXPECT_EQ(call("cuMemAddressReserve", &range, kPage, size_t{3}, kAnywhere, kNoFlags),
            kInvalidValue);
  ASSERT_EQ(call("cuMemAddressReserve", &range, kPage, kPage, kAnywhere, kNoFlags), kSuccess);
  EXPECT_EQ(call("cuMemMap", range, kPage, kStart, handle, uint64_t{1}), kInvalidValue);
  EXPECT_EQ(call("cuMemMap", range, 2 * kPage, kStart, handle, kNoFlags), kInvalidValue);
  EXPECT_EQ(call("cuMemRetainAllocationHandle", &retained, range), kInvalidValue);
  EXPECT_EQ(call("cuMemSetAccess", range, kPage, accesses, size_t{1}), kInvalidValue);
  EXPECT_EQ(call("cuMemMap", range, kPage, kStart, handle, kNoFlags), kSuccess);
  EXPECT_EQ(call("cuMemGetAccess", &flags, &accesses[0].location, range), kSuccess);
  EXPECT_EQ(flags, 0U);
  EXPECT_EQ(call("cuMemsetD8_v2", range, 1U, kPage), kInvalidValue);
  EXPECT_EQ(call("cuMemSetAccess", range, kPage, accesses, size_t{1}), kSuccess);
  EXPECT_EQ(call("cuMemsetD8_v2", range, 1U, kPage), kSuccess);
  EXPECT_EQ(call("cuMemGetAccess", &flags, &accesses[0].location, range), kSuccess);
  EXPECT_EQ(flags, kReadWrite);
  EXPECT_EQ(call("cuMemSetAccess", range, kPage, accesses, size_t{0}), kInvalidValue);
  EXPECT_EQ(call("cuMemSetAccess", range, kPage, of_host, size_t{1}), kInvalidValue);
  EXPECT_EQ(call("cuMemSetAccess", range, kPage, elsewhere, size_t{1}), kInvalidDevice);
  EXPECT_EQ(call("cuMemGetAccess", &flags, &of_host[0].location, range), kInvalidValue);
  EXPECT_EQ(call("cuMemGetAccess", none_, &accesses[0].location, range), kInvalidValue);
  EXPECT_EQ(call("cuMemRetainAllocationHandle", &retained, range), kSuccess);
  EXPECT_EQ(retained, handle);
  EXPECT_EQ(call("cuMemRetainAllocationHandle", none_, range), kInvalidValue);
  EXPECT_EQ(call("cuMemAddressFree", range, kPage), kInvalidValue) << "it is mapped";
  EXPECT_EQ(call("cuMemUnmap", range, kPage), kSuccess);
  EXPECT_EQ(call("cuMemUnmap", range, kPage), kInvalidValue);
  EXPECT_EQ(call("cuMemAddressFree", range, kPage), kSuccess);
  EXPECT_EQ(call("cuMemAddressFree", range, kPage), kInvalidValue);
  for (int reference = 0; reference < 2; ++reference) {
    EXPECT_EQ(call("cuMemRelease", handle), kSuccess);
  }
}

TEST_F(Driver, PoolsGiveMemoryInTheOrderOfAStream) {
  constexpr int kReleaseThreshold = 4, kUsedNow = 7, kUnknown = 9;
  constexpr size_t kBytes = 4096;
  const PoolProperties on_device{kPinned, 0, {kDeviceLocation, 0}, nullptr, 0, {}};
  const PoolProperties on_host{kPinned, 0, {kHostLocation, 0}, nullptr, 0, {}};
  const PoolProperties of_no_type{0, 0, {kDeviceLocation, 0}, nullptr, 0, {}};
  void* pool = nullptr;
  Address memory = 0;
  ASSERT_EQ(call("cuMemPoolCreate", &pool, &on_device), kSuccess);
  EXPECT_EQ(call("cuMemPoolCreate", none_, &on_device), kInvalidValue);
  EXPECT_EQ(call("cuMemPoolCreate", &pool, &of_no_type), kInvalidValue);
  EXPECT_EQ(call("cuMemPoolCreate", &pool, &on_host), kNotSupported);
  for (const std::string suffix : {"", "_ptsz"}) {
    const std::string plain = "cuMemAllocAsync" + suffix;
    const std::string from_pool = "cuMemAllocFromPoolAsync" + suffix;
    const std::string free = "cuMemFreeAsync" + suffix;
    uint64_t used = 0;
    EXPECT_EQ(call(plain.c_str(), &memory, kBytes, none_), kSuccess) << plain;
    EXPECT_EQ(call(free.c_str(), memory, none_), kSuccess) << free;
    EXPECT_EQ(call(free.c_str(), memory, none_), kInvalidValue) << free;
    EXPECT_EQ(call(free.c_str(), Address{0}, none_), kSuccess) << free;
    EXPECT_EQ(call(plain.c_str(), &memory, size_t{0}, none_), kSuccess) << plain;
    EXPECT_EQ(memory, 0U) << plain;
    EXPECT_EQ(call(plain.c_str(), &memory, kBytes, dead_), kInvalidHandle) << plain;
    EXPECT_EQ(call(from_pool.c_str(), &memory, kBytes, pool, none_), kSuccess) << from_pool;
    EXPECT_EQ(call("cuMemPoolGetAttribute", pool, kUsedNow, &used), kSuccess);
    EXPECT_GE(used, kBytes) << from_pool;
    EXPECT_EQ(call(free.c_str(), memory, none_), kSuccess) << free;
    EXPECT_EQ(call(from_pool.c_str(), &memory, kBytes, none_, none_), kInvalidValue) << from_pool;
  }
  uint64_t threshold = kPage;
  EXPECT_EQ(call("cuMemPoolSetAttribute", pool, kReleaseThreshold, &threshold), kSuccess);
  threshold = 0;
  EXPECT_EQ(call("cuMemPoolGetAttribute", pool, kReleaseThreshold, &threshold), kSuccess);
  EXPECT_EQ(threshold, kPage);
  each({"cuMemPoolGetAttribute", "cuMemPoolSetAttribute"}, kInvalidValue, pool, kUnknown,
       &threshold);
  each({"cuMemPoolGetAttribute", "cuMemPoolSetAttribute"}, kInvalidValue, pool, kReleaseThreshold,
       none_);
  EXPECT_EQ(call("cuMemPoolTrimTo", pool, size_t{0}), kSuccess);
  const Access access{{kDeviceLocation, 0}, kReadWrite};
  const Access of_host{{kHostLocation, 0}, kReadWrite};
  unsigned flags = 0;
  EXPECT_EQ(call("cuMemPoolGetAccess", &flags, pool, &access.location), kSuccess);
  EXPECT_EQ(flags, kReadWrite);
  EXPECT_EQ(call("cuMemPoolGetAccess", &flags, pool, &of_host.location), kInvalidValue);
  EXPECT_EQ(call("cuMemPoolSetAccess", pool, &access, size_t{1}), kSuccess);
  EXPECT_EQ(call("cuMemPoolSetAccess", pool, &of_host, size_t{1}), kInvalidValue);
  EXPECT_EQ(call("cuMemPoolSetAccess", pool, none_, size_t{0}), kInvalidValue);
  EXPECT_EQ(call("cuMemPoolDestroy", pool), kSuccess);
  each({"cuMemPoolDestroy", "cuMemPoolTrimTo"}, kInvalidValue, pool, size_t{0});
  each({"cuMemPoolDestroy", "cuMemPoolTrimTo"}, kInvalidValue, none_, size_t{0});
}

TEST_F(Driver, DevicesHaveACurrentPoolAndMemoryOfGraphs) {
  constexpr int kReservedHigh = 3, kUnknown = 4;
  void *usual = nullptr, *current = nullptr;
  EXPECT_EQ(call("cuDeviceGetDefaultMemPool", &usual, 0), kSuccess);
  EXPECT_EQ(call("cuDeviceSetMemPool", 0, usual), kSuccess);
  EXPECT_EQ(call("cuDeviceGetMemPool", &current, 0), kSuccess);
  EXPECT_EQ(current, usual);
  EXPECT_EQ(call("cuMemPoolDestroy", usual), kInvalidValue);
  each({"cuDeviceGetDefaultMemPool", "cuDeviceGetMemPool"}, kInvalidValue, none_, 0);
  each({"cuDeviceGetDefaultMemPool"}, kInvalidDevice, &current, kNoSuchDevice);
  each({"cuDeviceGetMemPool"}, kInvalidValue, &current, kNoSuchDevice);
  EXPECT_EQ(call("cuDeviceSetMemPool", 0, none_), kInvalidValue);
  uint64_t value = 1;
  EXPECT_EQ(call("cuDeviceGetGraphMemAttribute", 0, kReservedHigh, &value), kSuccess);
  EXPECT_EQ(value, 0U);
  EXPECT_EQ(call("cuDeviceSetGraphMemAttribute", 0, kReservedHigh, &value), kSuccess);
  EXPECT_EQ(call("cuDeviceSetGraphMemAttribute", 0, 0, &value), kInvalidValue);
  EXPECT_EQ(call("cuDeviceGetGraphMemAttribute", 0, kUnknown, &value), kInvalidValue);
  EXPECT_EQ(call("cuDeviceGraphMemTrim", 0), kSuccess);
  each({"cuDeviceGraphMemTrim", "cuDeviceGetGraphMemAttribute", "cuDeviceSetGraphMemAttribute"},
       kInvalidDevice, kNoSuchDevice, kReservedHigh, &value);
}

}  // namespace
