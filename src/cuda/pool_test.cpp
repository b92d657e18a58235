// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include <gtest/gtest.h>

#include "gpemu/base/units.hpp"
#include "gpemu/cuda.h"

#include "test_memory.hpp"

namespace gpemu::cuda {
namespace {

class PoolTest : public MemoryTest {};

TEST_F(PoolTest, PoolsGiveMemoryAgainAndCountIt) {
  const Bytes before = free_bytes();
  std::uint64_t first = 0, second = 0, value = 0;
  ASSERT_EQ(gpemu_cuda_malloc_async(4 * kMiB, nullptr, nullptr, &first), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_free_async(first, nullptr), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_free_async(first, nullptr), GPEMU_CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(gpemu_cuda_malloc_async(4 * kMiB, nullptr, nullptr, &second), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(second, first);
  ASSERT_EQ(gpemu_cuda_pool_get(nullptr, GPEMU_CUDA_POOL_USED_HIGH, &value), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(value, 4 * kMiB);
  ASSERT_EQ(gpemu_cuda_free(second), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_pool_get(nullptr, GPEMU_CUDA_POOL_RESERVED_CURRENT, &value),
            GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(value, 0U);
  EXPECT_EQ(free_bytes(), before);
  ASSERT_EQ(gpemu_cuda_malloc_async(4 * kMiB, nullptr, nullptr, &first), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_free_async(first, nullptr), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_pool_trim(nullptr, 0), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(free_bytes(), before);
  std::int32_t access = 0;
  ASSERT_EQ(gpemu_cuda_pool_get_access(nullptr, 0, &access), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(access, 1);
  EXPECT_EQ(gpemu_cuda_pool_set_access(nullptr, 0, 1), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_pool_set_access(nullptr, 0, 0), GPEMU_CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(gpemu_cuda_pool_set_access(nullptr, 1, 1), GPEMU_CUDA_ERROR_INVALID_DEVICE);
}

/// Queues a kernel-like piece of work that takes some time.
void work(gpemu_cuda_stream_handle stream) {
  gpemu_operation operation{.struct_size = sizeof(operation),
                            .kind = GPEMU_OPERATION_COPY_ON_DEVICE,
                            .shape = {static_cast<std::int64_t>(kGiB)},
                            .name = "work"};
  ASSERT_EQ(gpemu_cuda_submit(&operation, stream), GPEMU_CUDA_SUCCESS);
}

gpemu_cuda_stream_handle make_stream() {
  gpemu_cuda_stream_handle stream = nullptr;
  EXPECT_EQ(gpemu_cuda_stream_create(1, 0, &stream), GPEMU_CUDA_SUCCESS);
  return stream;
}

TEST_F(PoolTest, PoolsGiveAStreamWhatItFreedBeforeItsWorkEnds) {
  const Bytes before = free_bytes();
  gpemu_cuda_stream_handle stream = make_stream();
  // The sizes differ, and more than the memory is asked for in all before any work ends.
  for (Bytes i = 0; i < 8; ++i) {
    std::uint64_t address = 0;
    ASSERT_EQ(gpemu_cuda_malloc_async(before / 2 + i * kMiB, nullptr, stream, &address),
              GPEMU_CUDA_SUCCESS);
    work(stream);
    ASSERT_EQ(gpemu_cuda_free_async(address, stream), GPEMU_CUDA_SUCCESS);
  }
  EXPECT_EQ(gpemu_cuda_stream_query(stream), GPEMU_CUDA_ERROR_NOT_READY);
  ASSERT_EQ(gpemu_cuda_stream_synchronize(stream), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(free_bytes(), before);
  ASSERT_EQ(gpemu_cuda_stream_destroy(stream), GPEMU_CUDA_SUCCESS);
}

TEST_F(PoolTest, StreamsWaitForMemoryOfOthersRatherThanRunOut) {
  const Bytes before = free_bytes(), most = before / 4 * 3;
  gpemu_cuda_stream_handle first = make_stream(), second = make_stream();
  std::uint64_t address = 0;
  ASSERT_EQ(gpemu_cuda_malloc_async(most, nullptr, first, &address), GPEMU_CUDA_SUCCESS);
  work(first);
  ASSERT_EQ(gpemu_cuda_free_async(address, first), GPEMU_CUDA_SUCCESS);
  const std::uint64_t refuse = 0, allow = 1;
  ASSERT_EQ(gpemu_cuda_pool_set(nullptr, GPEMU_CUDA_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES, refuse),
            GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_malloc_async(most + kMiB, nullptr, second, &address),
            GPEMU_CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(gpemu_cuda_stream_query(second), GPEMU_CUDA_SUCCESS) << "nothing to wait for";
  ASSERT_EQ(gpemu_cuda_pool_set(nullptr, GPEMU_CUDA_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES, allow),
            GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_malloc_async(most + kMiB, nullptr, second, &address), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_stream_query(first), GPEMU_CUDA_ERROR_NOT_READY) << "the host waits";
  EXPECT_EQ(gpemu_cuda_stream_query(second), GPEMU_CUDA_ERROR_NOT_READY);
  ASSERT_EQ(gpemu_cuda_stream_synchronize(second), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_stream_query(first), GPEMU_CUDA_SUCCESS) << "it did not wait long enough";
  ASSERT_EQ(gpemu_cuda_free(address), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(free_bytes(), before);
  ASSERT_EQ(gpemu_cuda_stream_destroy(first), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_stream_destroy(second), GPEMU_CUDA_SUCCESS);
}

TEST_F(PoolTest, PoolsKeepTheirThresholdWhereTheHostWaits) {
  const Bytes before = free_bytes();
  gpemu_cuda_stream_handle stream = make_stream();
  gpemu_cuda_event_handle event = nullptr;
  ASSERT_EQ(gpemu_cuda_event_create(0, &event), GPEMU_CUDA_SUCCESS);
  for (int way = 0; way < 3; ++way) {
    std::uint64_t address = 0;
    ASSERT_EQ(gpemu_cuda_malloc_async(kGiB, nullptr, stream, &address), GPEMU_CUDA_SUCCESS);
    work(stream);
    ASSERT_EQ(gpemu_cuda_free_async(address, stream), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(free_bytes(), before - kGiB) << "freed before its time";
    ASSERT_EQ(gpemu_cuda_event_record(event, stream, 0), GPEMU_CUDA_SUCCESS);
    ASSERT_EQ(way == 0   ? gpemu_cuda_stream_synchronize(stream)
              : way == 1 ? gpemu_cuda_event_synchronize(event)
                         : gpemu_cuda_device_synchronize(),
              GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(free_bytes(), before) << way;
  }
  ASSERT_EQ(gpemu_cuda_pool_set(nullptr, GPEMU_CUDA_POOL_RELEASE_THRESHOLD, before),
            GPEMU_CUDA_SUCCESS);
  std::uint64_t address = 0, handle = 0;
  for (const bool vmm : {false, true}) {
    ASSERT_EQ(gpemu_cuda_malloc_async(before / 2, nullptr, stream, &address), GPEMU_CUDA_SUCCESS);
    ASSERT_EQ(gpemu_cuda_free_async(address, stream), GPEMU_CUDA_SUCCESS);
    ASSERT_EQ(gpemu_cuda_stream_synchronize(stream), GPEMU_CUDA_SUCCESS);
    EXPECT_LE(free_bytes(), before - before / 2) << "the threshold";
    if (vmm) {
      ASSERT_EQ(gpemu_cuda_vmm_create(0, 24 * kGiB, 1, &handle), GPEMU_CUDA_SUCCESS);
      ASSERT_EQ(gpemu_cuda_vmm_release(handle), GPEMU_CUDA_SUCCESS);
    } else {
      ASSERT_EQ(gpemu_cuda_free(allocate(24 * kGiB)), GPEMU_CUDA_SUCCESS);
    }
  }
  ASSERT_EQ(gpemu_cuda_pool_set(nullptr, GPEMU_CUDA_POOL_RELEASE_THRESHOLD, 0), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(free_bytes(), before);
  ASSERT_EQ(gpemu_cuda_event_destroy(event), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_stream_destroy(stream), GPEMU_CUDA_SUCCESS);
}

TEST_F(PoolTest, AllocatesFromTheCurrentPoolOfTheStreamsDevice) {
  gpemu_cuda_pool_handle pool = nullptr, usual = nullptr;
  std::uint64_t address = 0, used = 0;
  ASSERT_EQ(gpemu_cuda_pool_default(0, &usual), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_pool_create(0, 4 * kMiB, &pool), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_pool_set_current(0, pool), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_malloc_async(6 * kMiB, nullptr, nullptr, &address),
            GPEMU_CUDA_ERROR_OUT_OF_MEMORY);
  ASSERT_EQ(gpemu_cuda_malloc_async(2 * kMiB, nullptr, nullptr, &address), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_pool_get(pool, GPEMU_CUDA_POOL_USED_CURRENT, &used), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(used, 2 * kMiB);
  ASSERT_EQ(gpemu_cuda_pool_get(usual, GPEMU_CUDA_POOL_USED_CURRENT, &used), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(used, 0U);
  ASSERT_EQ(gpemu_cuda_free_async(address, nullptr), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_pool_destroy(pool), GPEMU_CUDA_SUCCESS);
}

}  // namespace
}  // namespace gpemu::cuda
