// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <atomic>
#include <cstdint>
#include <sys/mman.h>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/base/units.hpp"
#include "gpemu/cuda.h"
#include "gpemu/kernels/places.hpp"
#include "gpemu/launch/kernel_execution.hpp"
#include "gpemu/memory/kernel_memory.hpp"
#include "gpemu/memory/memory_state.hpp"
#include "gpemu/process/attach.hpp"

#include "test_memory.hpp"

namespace gpemu::cuda {
namespace {

TEST_F(MemoryTest, ReadsZerosUntilWrittenAndAfterReuse) {
  std::vector<std::uint8_t> data(300'000, 7), read(data.size(), 1);
  const std::uint64_t address = allocate(data.size());
  ASSERT_EQ(copy(bits(read.data()), address, read.size()), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(read, std::vector<std::uint8_t>(data.size(), 0));
  ASSERT_EQ(copy(address, bits(data.data()), data.size()), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(copy(bits(read.data()), address, read.size()), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(read, data);
  ASSERT_EQ(gpemu_cuda_free(address), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_free(address), GPEMU_CUDA_ERROR_INVALID_VALUE);
  const std::uint64_t again = allocate(data.size());
  ASSERT_EQ(copy(bits(read.data()), again, read.size()), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(read, std::vector<std::uint8_t>(data.size(), 0));
  ASSERT_EQ(gpemu_cuda_free(again), GPEMU_CUDA_SUCCESS);
}

TEST_F(MemoryTest, NoticesWhatCameBetweenTwoLaunchesOfTheSame) {
  constexpr Bytes kBytes = 4096;
  const std::vector<std::uint8_t> data(kBytes, 7);
  const auto content_at = [](std::uint64_t at) {
    return memory::memory().contents.part(at, 1).content;
  };
  const std::uint64_t address = allocate(kBytes);
  for (const kernels::Uncomputed how :
       {kernels::Uncomputed::kWritten, kernels::Uncomputed::kBounded}) {
    for (int round = 0; round < 3; ++round) memory::leave_uncomputed(address, kBytes, how, 1);
    EXPECT_FALSE(memory::known_to_kernel(address, kBytes));
    EXPECT_FALSE(memory::known_to_kernel(address, kBytes));
    ASSERT_EQ(copy(address, bits(data.data()), kBytes), GPEMU_CUDA_SUCCESS);
    EXPECT_TRUE(memory::known_to_kernel(address, kBytes));
    memory::leave_uncomputed(address, kBytes, how, 1);
    EXPECT_EQ(content_at(address + kBytes - 1), memory::Content::kNotComputed);
    ASSERT_EQ(gpemu_cuda_free(address), GPEMU_CUDA_SUCCESS);
    ASSERT_EQ(allocate(kBytes), address);
    EXPECT_TRUE(memory::known_to_kernel(address, kBytes));
    memory::leave_uncomputed(address, kBytes, how, 1);
    EXPECT_EQ(content_at(address), memory::Content::kNotComputed);
    EXPECT_FALSE(memory::known_to_kernel(address, kBytes));
  }
  ASSERT_EQ(copy(address, bits(data.data()), kBytes), GPEMU_CUDA_SUCCESS);
  for (int round = 0; round < 3; ++round) {
    memory::leave_uncomputed(address, kBytes, kernels::Uncomputed::kUpdated, 1);
    EXPECT_EQ(content_at(address), memory::Content::kNotUpdated);
  }
  ASSERT_EQ(copy(address, bits(data.data()), kBytes), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(content_at(address), memory::Content::kKept);
  memory::leave_uncomputed(address, kBytes, kernels::Uncomputed::kUpdated, 1);
  EXPECT_EQ(content_at(address), memory::Content::kNotUpdated);
  ASSERT_EQ(gpemu_cuda_free(address), GPEMU_CUDA_SUCCESS);
}

TEST_F(MemoryTest, KernelsKnowWhatLiesInLockedMemory) {
  void* pinned = nullptr;
  ASSERT_EQ(gpemu_cuda_host_alloc(64, 0, &pinned), GPEMU_CUDA_SUCCESS);
  std::uint8_t read = 0;
  EXPECT_TRUE(memory::known_to_kernel(bits(pinned), 64));
  EXPECT_TRUE(memory::load_for_kernel(bits(pinned), &read, 1));
  EXPECT_FALSE(memory::known_to_kernel(bits(&read), 1));
  EXPECT_FALSE(memory::load_for_kernel(bits(&read), &read, 1));
  ASSERT_EQ(gpemu_cuda_host_free(pinned), GPEMU_CUDA_SUCCESS);
}

TEST_F(MemoryTest, ForgetsRegisteredMemoryThatTheProgramUnmapped) {
  constexpr Bytes kBytes = 64 * kKiB;
  void* pinned = nullptr;
  // The host reuses the addresses that were unmapped last, so the allocation gets them.
  void* const mapped =
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  ASSERT_EQ(gpemu_cuda_host_register(mapped, kBytes, 0), GPEMU_CUDA_SUCCESS);
  ::munmap(mapped, kBytes);
  ASSERT_EQ(gpemu_cuda_host_alloc(kBytes, 0, &pinned), GPEMU_CUDA_SUCCESS);
  gpemu_cuda_pointer info{};
  ASSERT_EQ(gpemu_cuda_pointer_info(bits(pinned), &info), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(info.base, bits(pinned));
  EXPECT_EQ(gpemu_cuda_host_free(pinned), GPEMU_CUDA_SUCCESS);
}

TEST_F(MemoryTest, KeepsWhatLiesBesideWhatIsWritten) {
  constexpr Bytes kBytes = 4096;
  const std::uint64_t address = allocate(kBytes);
  const auto content_at = [address](Bytes at) {
    return memory::memory().contents.part(address + at, 1).content;
  };
  const std::vector<std::uint8_t> data(kBytes, 7);
  ASSERT_EQ(copy(address, bits(data.data()), kBytes), GPEMU_CUDA_SUCCESS);
  kernels::KernelWork work;
  work.writer = 1;
  kernels::Places column{.dimensions = 0};
  column.add(4, 100);
  add_tensor(&work, address + 8, column, 4, kernels::Uncomputed::kWritten);
  launch::perform_now(work);
  for (const Bytes row : {0, 100, 200, 300}) {
    EXPECT_EQ(content_at(row + 7), memory::Content::kKept);
    EXPECT_EQ(content_at(row + 8), memory::Content::kNotComputed);
    EXPECT_EQ(content_at(row + 11), memory::Content::kNotComputed);
    EXPECT_EQ(content_at(row + 12), memory::Content::kKept);
  }
  ASSERT_EQ(gpemu_cuda_free(address), GPEMU_CUDA_SUCCESS);
}

TEST_F(MemoryTest, ChangesSomewhereEndWhereOtherContentBegins) {
  constexpr Bytes kBytes = 4096;
  const std::uint64_t address = allocate(kBytes);
  const auto content_at = [address](Bytes at) {
    return memory::memory().contents.part(address + at, 1).content;
  };
  const std::vector<std::uint8_t> data(16, 7);
  ASSERT_EQ(copy(address + 1000, bits(data.data()), data.size()), GPEMU_CUDA_SUCCESS);
  memory::leave_uncomputed(address + 100, kBytes, kernels::Uncomputed::kSomewhere, 1);
  EXPECT_EQ(content_at(99), memory::Content::kZeros);
  EXPECT_EQ(content_at(100), memory::Content::kNotComputed);
  EXPECT_EQ(content_at(999), memory::Content::kNotComputed);
  EXPECT_EQ(content_at(1000), memory::Content::kKept);
  EXPECT_EQ(content_at(1016), memory::Content::kZeros);
  ASSERT_EQ(gpemu_cuda_free(address), GPEMU_CUDA_SUCCESS);
}

TEST_F(MemoryTest, KernelsWriteToLockedMemory) {
  constexpr Bytes kBytes = kMiB;
  void* pinned = nullptr;
  ASSERT_EQ(gpemu_cuda_host_alloc(kBytes, 0, &pinned), GPEMU_CUDA_SUCCESS);
  auto* const bytes = static_cast<std::uint8_t*>(pinned);
  const std::array<std::uint8_t, 2> value{5, 6}, zeros{};
  memory::fill_by_kernel(bits(bytes), value.data(), 2, kBytes / 2, 1);
  EXPECT_EQ(bytes[kBytes - 1], 6);
  memory::fill_by_kernel(bits(bytes), zeros.data(), 2, 1, 1);
  EXPECT_EQ(bytes[1], 0);
  EXPECT_EQ(bytes[2], 5);
  memory::store_by_kernel(bits(bytes + 4), value.data(), 2);
  EXPECT_EQ(bytes[5], 6);
  const std::uint64_t before = gpemu_cuda_not_computed_bytes();
  memory::leave_uncomputed(bits(bytes), 100, kernels::Uncomputed::kBounded, 1);
  EXPECT_EQ(gpemu_cuda_not_computed_bytes(), before) << "it may be only read";
  memory::leave_uncomputed(bits(bytes), 100, kernels::Uncomputed::kWritten, 1);
  memory::leave_uncomputed(bits(bytes), 100, kernels::Uncomputed::kUpdated, 1);
  EXPECT_EQ(gpemu_cuda_not_computed_bytes() - before, 200U);
  EXPECT_EQ(bytes[5], 6) << "the pages may be a file's";
  ASSERT_EQ(gpemu_cuda_host_free(pinned), GPEMU_CUDA_SUCCESS);
}

TEST_F(MemoryTest, RefusesWhatLiesBeyondTheEnd) {
  std::array<std::uint8_t, 64> host{};
  const std::uint64_t address = allocate(1000);
  EXPECT_EQ(copy(address + 936, bits(host.data()), 64), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(copy(address + 937, bits(host.data()), 64), GPEMU_CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(gpemu_cuda_set_memory(address, 0, 0, 1, 1001, 1, nullptr),
            GPEMU_CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(gpemu_cuda_set_memory(address + 1, 0, 0, 4, 1, 1, nullptr),
            GPEMU_CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(gpemu_cuda_free(address + 256), GPEMU_CUDA_ERROR_INVALID_VALUE);
  // Sizes whose products wrap around to small numbers.
  gpemu_cuda_copy wraps{.destination = address,
                        .source = bits(host.data()),
                        .width_bytes = 8,
                        .height = std::uint64_t{1} << 61,
                        .depth = 1,
                        .destination_pitch = 8,
                        .source_pitch = 8,
                        .kind = GPEMU_CUDA_COPY_DEFAULT};
  EXPECT_EQ(gpemu_cuda_copy_memory(&wraps, nullptr, 1), GPEMU_CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(gpemu_cuda_set_memory(address, 0, 0, 4, std::uint64_t{1} << 62, 1, nullptr),
            GPEMU_CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(gpemu_cuda_free(address), GPEMU_CUDA_SUCCESS);
}

TEST_F(MemoryTest, RunsOutOfMemoryAndRecovers) {
  const Bytes before = free_bytes();
  const std::uint64_t first = allocate(before - 4 * kMiB);
  std::uint64_t second = 42;
  EXPECT_EQ(gpemu_cuda_malloc(8 * kMiB, &second), GPEMU_CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(second, 42U);
  ASSERT_EQ(gpemu_cuda_free(first), GPEMU_CUDA_SUCCESS);
  second = allocate(8 * kMiB);
  ASSERT_EQ(gpemu_cuda_free(second), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(free_bytes(), before);
}

// As on an H200, driver 580.159 (tests/shims/recorded/h200.csv).
TEST_F(MemoryTest, SmallAllocationsSharePages) {
  const Bytes before = free_bytes();
  std::vector<std::uint64_t> addresses;
  std::vector<Bytes> held;
  for (int i = 0; i < 4; ++i) {
    addresses.push_back(allocate(kMiB));
    held.push_back(before - free_bytes());
  }
  EXPECT_EQ(held, (std::vector<Bytes>{2 * kMiB, 2 * kMiB, 4 * kMiB, 4 * kMiB}));
  const std::uint64_t large = allocate(kMiB + 1);
  EXPECT_EQ(before - free_bytes(), 6 * kMiB);
  held.clear();
  for (const std::uint64_t address : {addresses[0], addresses[2], addresses[1], large}) {
    ASSERT_EQ(gpemu_cuda_free(address), GPEMU_CUDA_SUCCESS);
    held.push_back(before - free_bytes());
  }
  EXPECT_EQ(held, (std::vector<Bytes>{6 * kMiB, 6 * kMiB, 4 * kMiB, 2 * kMiB}));
  const std::uint64_t part = allocate(1);
  EXPECT_EQ(part, addresses[2]) << "the first free part of the page that is left";
  ASSERT_EQ(gpemu_cuda_free(addresses[3]), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_free(part), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(free_bytes(), before);
}

TEST_F(MemoryTest, AResetDeviceIsAsAtFirst) {
  const Bytes before = free_bytes();
  const int variable = 0, binary = 0;
  gpemu_cuda_register_variable(&variable, "variable", 64, &binary);
  std::uint64_t address = 0, other = 0, bytes = 0;
  ASSERT_EQ(gpemu_cuda_registered_variable(&variable, &address, &bytes), GPEMU_CUDA_SUCCESS);
  gpemu_cuda_pool_handle pool = nullptr, usual = nullptr, current = nullptr;
  ASSERT_EQ(gpemu_cuda_pool_default(0, &usual), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_pool_create(0, 0, &pool), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_pool_set_current(0, pool), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_pool_set(usual, GPEMU_CUDA_POOL_RELEASE_THRESHOLD, 1), GPEMU_CUDA_SUCCESS);
  std::int32_t active = 1;
  process::device_at(0).peers.insert(1);
  ASSERT_EQ(gpemu_cuda_context_reset(0), GPEMU_CUDA_SUCCESS);
  EXPECT_TRUE(process::device_at(0).peers.empty());
  ASSERT_EQ(gpemu_cuda_context_active(0, &active), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(active, 0);
  ASSERT_EQ(gpemu_cuda_pool_current(0, &current), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(current, usual);
  ASSERT_EQ(gpemu_cuda_pool_get(usual, GPEMU_CUDA_POOL_RELEASE_THRESHOLD, &bytes),
            GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(bytes, 0U);
  EXPECT_EQ(free_bytes(), before) << "the context's own memory";
  // Other memory is now at the variable's address.
  other = allocate(64);
  ASSERT_EQ(gpemu_cuda_registered_variable(&variable, &address, &bytes), GPEMU_CUDA_SUCCESS);
  EXPECT_NE(address, other);
  const std::uint64_t value = 42;
  EXPECT_EQ(copy(address, bits(&value), sizeof(value)), GPEMU_CUDA_SUCCESS);
  gpemu_cuda_unregister(&binary);
  ASSERT_EQ(gpemu_cuda_free(other), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(free_bytes(), before) << "the variable's memory";
  ASSERT_EQ(gpemu_cuda_pool_destroy(pool), GPEMU_CUDA_SUCCESS);
}

TEST_F(MemoryTest, NoUserOfAContextIsCountedTwice) {
  constexpr int kRounds = 500'000;
  ASSERT_EQ(gpemu_cuda_ensure_context(), GPEMU_CUDA_SUCCESS);
  std::atomic<int> released{0};
  const auto release = [&released] {
    if (gpemu_cuda_context_release(0) == GPEMU_CUDA_SUCCESS) ++released;
  };
  const auto use = [&release] {
    for (int round = 0; round < kRounds; ++round) {
      EXPECT_EQ(gpemu_cuda_context_retain(0), GPEMU_CUDA_SUCCESS);
      release();
      release();
    }
  };
  std::thread other(use);
  use();
  other.join();
  EXPECT_EQ(process::device_at(0).context_users, 0);
  EXPECT_EQ(released, 2 * kRounds);
}

TEST_F(MemoryTest, TheLastUserOfAContextGivesItsMemoryBack) {
  ASSERT_EQ(gpemu_cuda_context_reset(0), GPEMU_CUDA_SUCCESS);
  std::uint64_t address = 0;
  void* pinned = nullptr;
  std::int32_t active = 1;
  for (int job = 0; job < 3; ++job) {
    ASSERT_EQ(gpemu_cuda_context_retain(0), GPEMU_CUDA_SUCCESS);
    ASSERT_EQ(gpemu_cuda_context_push(0), GPEMU_CUDA_SUCCESS);
    ASSERT_EQ(gpemu_cuda_malloc(20 * kGiB, &address), GPEMU_CUDA_SUCCESS) << job;
    ASSERT_EQ(gpemu_cuda_host_alloc(4096, 0, &pinned), GPEMU_CUDA_SUCCESS);
    ASSERT_EQ(gpemu_cuda_host_free(pinned), GPEMU_CUDA_SUCCESS);
    // Another user keeps it.
    ASSERT_EQ(gpemu_cuda_context_retain(0), GPEMU_CUDA_SUCCESS);
    ASSERT_EQ(gpemu_cuda_context_release(0), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(gpemu_cuda_set_memory(address, 0, 1, 1, 64, 1, nullptr), GPEMU_CUDA_SUCCESS);
    ASSERT_EQ(gpemu_cuda_context_pop(nullptr), GPEMU_CUDA_SUCCESS);
    ASSERT_EQ(gpemu_cuda_context_release(0), GPEMU_CUDA_SUCCESS);
    ASSERT_EQ(gpemu_cuda_context_active(0, &active), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(active, 0);
    EXPECT_EQ(gpemu_cuda_context_release(0), GPEMU_CUDA_ERROR_INVALID_CONTEXT);
  }
  // So does the runtime.
  ASSERT_EQ(gpemu_cuda_context_retain(0), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_ensure_context(), GPEMU_CUDA_SUCCESS);
  address = allocate(kMiB);
  ASSERT_EQ(gpemu_cuda_context_release(0), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_context_active(0, &active), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(active, 1);
  EXPECT_EQ(gpemu_cuda_free(address), GPEMU_CUDA_SUCCESS);
}

}  // namespace
}  // namespace gpemu::cuda
