// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/base/units.hpp"
#include "gpemu/cuda.h"
#include "gpemu/process/attach.hpp"

#include "test_memory.hpp"

namespace gpemu::cuda {
namespace {

class ManagedTest : public MemoryTest {
 protected:
  static std::uint64_t allocate_managed(Bytes bytes) {
    std::uint64_t address = 0;
    EXPECT_EQ(gpemu_cuda_malloc_managed(bytes, 1, &address), GPEMU_CUDA_SUCCESS);
    return address;
  }
  static gpemu_cuda_managed_range described(std::uint64_t address, Bytes bytes) {
    gpemu_cuda_managed_range range{};
    EXPECT_EQ(gpemu_cuda_managed_info(address, bytes, &range), GPEMU_CUDA_SUCCESS);
    return range;
  }
};

TEST_F(ManagedTest, MemoryCountsOnceItIsUsed) {
  const Bytes before = free_bytes();
  const std::uint64_t address = allocate_managed(64 * kMiB);
  EXPECT_EQ(free_bytes(), before);
  ASSERT_EQ(gpemu_cuda_set_memory(address, 0, 1, 1, 3 * kMiB, 1, nullptr), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(before - free_bytes(), 4 * kMiB) << "two pages";
  ASSERT_EQ(gpemu_cuda_prefetch(address + 8 * kMiB, kMiB, 0, nullptr), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(before - free_bytes(), 6 * kMiB);
  ASSERT_EQ(gpemu_cuda_prefetch(address, 64 * kMiB, 0, nullptr), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(before - free_bytes(), 64 * kMiB);
  ASSERT_EQ(gpemu_cuda_prefetch(address, 32 * kMiB, -1, nullptr), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(before - free_bytes(), 32 * kMiB);
  ASSERT_EQ(gpemu_cuda_free(address), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(free_bytes(), before);
  EXPECT_EQ(gpemu_cuda_free(address), GPEMU_CUDA_ERROR_INVALID_VALUE);
}

TEST_F(ManagedTest, MoreThanTheBoardHasFits) {
  const Bytes before = free_bytes();
  const std::uint64_t first = allocate_managed(before + kGiB);
  const std::uint64_t second = allocate_managed(kGiB);
  ASSERT_EQ(gpemu_cuda_prefetch(first, before + kGiB, 0, nullptr), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(free_bytes(), 0U) << "as much as fits is there";
  ASSERT_EQ(gpemu_cuda_prefetch(second, kGiB, 0, nullptr), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(free_bytes(), 0U) << "instead of pages that came before";
  const std::uint64_t plain = allocate(2 * kGiB);
  EXPECT_EQ(free_bytes(), 0U) << "managed pages leave for other memory";
  std::uint64_t none = 0;
  EXPECT_EQ(gpemu_cuda_malloc(before, &none), GPEMU_CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(before - free_bytes(), 2 * kGiB) << "all of them left";
  for (const std::uint64_t address : {first, second, plain}) {
    ASSERT_EQ(gpemu_cuda_free(address), GPEMU_CUDA_SUCCESS);
  }
  EXPECT_EQ(free_bytes(), before);
}

TEST_F(ManagedTest, PagesKeepTheirContentWhereverTheyAre) {
  const std::uint64_t address = allocate_managed(4 * kMiB);
  auto* const bytes = reinterpret_cast<std::uint8_t*>(address);
  bytes[3 * kMiB] = 7;
  ASSERT_EQ(gpemu_cuda_prefetch(address, 4 * kMiB, 0, nullptr), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_prefetch(address, 4 * kMiB, -1, nullptr), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(bytes[3 * kMiB], 7);
  ASSERT_EQ(gpemu_cuda_free(address), GPEMU_CUDA_SUCCESS);
}

TEST_F(ManagedTest, AttributesHoldForWholeRanges) {
  constexpr std::int32_t kReadMostly = 1, kNotReadMostly = 2, kPreferred = 3, kNotPreferred = 4,
                         kAccessedBy = 5, kNotAccessedBy = 6;
  const std::uint64_t address = allocate_managed(kMiB);
  const Bytes half = kMiB / 2;
  EXPECT_EQ(described(address, kMiB).preferred, -2);
  EXPECT_EQ(described(address, kMiB).prefetched, -2);
  ASSERT_EQ(gpemu_cuda_advise(address, half, kReadMostly, 0), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(described(address, half).read_mostly, 1);
  EXPECT_EQ(described(address, half + 1).read_mostly, 0);
  ASSERT_EQ(gpemu_cuda_advise(address, half, kNotReadMostly, 0), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(described(address, half).read_mostly, 0);
  ASSERT_EQ(gpemu_cuda_advise(address, kMiB, kPreferred, 0), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_advise(address + half, 1, kPreferred, -1), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(described(address, half).preferred, 0);
  EXPECT_EQ(described(address + half, 4096).preferred, -1) << "a page of the host";
  EXPECT_EQ(described(address, kMiB).preferred, -2);
  ASSERT_EQ(gpemu_cuda_advise(address, kMiB, kNotPreferred, 0), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(described(address, half).preferred, -2);
  ASSERT_EQ(gpemu_cuda_advise(address, kMiB, kAccessedBy, 0), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_advise(address, half, kAccessedBy, -1), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(described(address, half).accessed_by_count, 2U);
  EXPECT_EQ(described(address, kMiB).accessed_by_count, 1U);
  EXPECT_EQ(described(address, kMiB).accessed_by[0], 0);
  ASSERT_EQ(gpemu_cuda_advise(address, kMiB, kNotAccessedBy, 0), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(described(address, kMiB).accessed_by_count, 0U);
  ASSERT_EQ(gpemu_cuda_prefetch(address, half, 0, nullptr), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(described(address, half).prefetched, 0);
  EXPECT_EQ(described(address, kMiB).prefetched, -2);
  ASSERT_EQ(gpemu_cuda_prefetch(address, kMiB, -1, nullptr), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(described(address, kMiB).prefetched, -1);
  ASSERT_EQ(gpemu_cuda_free(address), GPEMU_CUDA_SUCCESS);
}

TEST_F(ManagedTest, OtherMemoryAndOtherPlacesAreRefused) {
  constexpr std::int32_t kPreferred = 3, kUnknown = 7;
  const std::uint64_t address = allocate_managed(kMiB), plain = allocate(kMiB);
  gpemu_cuda_managed_range range{};
  EXPECT_EQ(gpemu_cuda_prefetch(plain, kMiB, 0, nullptr), GPEMU_CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(gpemu_cuda_advise(plain, kMiB, kPreferred, 0), GPEMU_CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(gpemu_cuda_managed_info(plain, kMiB, &range), GPEMU_CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(gpemu_cuda_managed_info(address, kMiB, nullptr), GPEMU_CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(gpemu_cuda_prefetch(address, 3 * kMiB, 0, nullptr), GPEMU_CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(gpemu_cuda_prefetch(address, 0, 0, nullptr), GPEMU_CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(gpemu_cuda_advise(address, kMiB, kUnknown, 0), GPEMU_CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(gpemu_cuda_advise(address, kMiB, kPreferred, 99), GPEMU_CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(gpemu_cuda_prefetch(address, kMiB, 99, nullptr), GPEMU_CUDA_ERROR_INVALID_DEVICE);
  ASSERT_EQ(gpemu_cuda_free(address), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_free(plain), GPEMU_CUDA_SUCCESS);
}

TEST_F(ManagedTest, OlderDevicesAreNoPlaces) {
  constexpr std::int32_t kReadMostly = 1, kPreferred = 3, kAccessedBy = 5;
  std::int32_t& shares = process::device_at(0).info.concurrent_managed_access;
  shares = 0;
  const Bytes before = free_bytes();
  for (const Bytes bytes : {Bytes{4096}, 5 * kMiB}) {
    const std::uint64_t address = allocate_managed(bytes);
    EXPECT_LT(free_bytes(), before) << "the memory is the device's from the start";
    for (const std::int32_t advice : {kPreferred, kAccessedBy}) {
      EXPECT_EQ(gpemu_cuda_advise(address, bytes, advice, 0), GPEMU_CUDA_ERROR_INVALID_DEVICE);
      EXPECT_EQ(gpemu_cuda_advise(address, bytes, advice, -1), GPEMU_CUDA_SUCCESS);
    }
    EXPECT_EQ(gpemu_cuda_advise(address, bytes, kReadMostly, 0), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(described(address, bytes).read_mostly, 1);
    EXPECT_EQ(described(address, bytes).preferred, -1);
    for (const std::int32_t place : {0, -1}) {
      EXPECT_EQ(gpemu_cuda_prefetch(address, bytes, place, nullptr),
                GPEMU_CUDA_ERROR_INVALID_DEVICE);
    }
    ASSERT_EQ(gpemu_cuda_free(address), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(free_bytes(), before);
  }
  shares = 1;
}

TEST_F(ManagedTest, PrefetchingTakesTheTimeOfACopy) {
  constexpr Bytes kBytes = 64 * kMiB;
  const auto time_of = [](auto&& work) {
    gpemu_cuda_event_handle start = nullptr, end = nullptr;
    std::int64_t elapsed = 0;
    EXPECT_EQ(gpemu_cuda_event_create(0, &start), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(gpemu_cuda_event_create(0, &end), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(gpemu_cuda_event_record(start, nullptr, 0), GPEMU_CUDA_SUCCESS);
    work();
    EXPECT_EQ(gpemu_cuda_event_record(end, nullptr, 0), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(gpemu_cuda_event_synchronize(end), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(gpemu_cuda_event_elapsed(start, end, &elapsed), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(gpemu_cuda_event_destroy(start), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(gpemu_cuda_event_destroy(end), GPEMU_CUDA_SUCCESS);
    return elapsed;
  };
  const std::uint64_t address = allocate_managed(kBytes), plain = allocate(kBytes);
  void* pinned = nullptr;
  ASSERT_EQ(gpemu_cuda_host_alloc(kBytes, 0, &pinned), GPEMU_CUDA_SUCCESS);
  const auto prefetch = [&] {
    EXPECT_EQ(gpemu_cuda_prefetch(address, kBytes, 0, nullptr), GPEMU_CUDA_SUCCESS);
  };
  const std::int64_t copy = time_of([&] {
    EXPECT_EQ(gpemu_cuda_memcpy(plain, bits(pinned), kBytes, GPEMU_CUDA_COPY_DEFAULT, nullptr, 0),
              GPEMU_CUDA_SUCCESS);
  });
  EXPECT_EQ(time_of(prefetch), copy);
  EXPECT_EQ(time_of(prefetch), 0) << "it is there";
  ASSERT_EQ(gpemu_cuda_host_free(pinned), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_free(address), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_free(plain), GPEMU_CUDA_SUCCESS);
}

}  // namespace
}  // namespace gpemu::cuda
