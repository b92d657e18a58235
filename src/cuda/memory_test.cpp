// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <latch>
#include <numeric>
#include <random>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/base/units.hpp"
#include "gpemu/cuda.h"

#include "attach.hpp"
#include "kernels/kernel_effect.hpp"
#include "memory_state.hpp"
#include "mover.hpp"
#include "stream.hpp"
#include "test_gpu.hpp"

namespace gpemu::cuda {
namespace {

class MemoryTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { use_test_gpu(); }
  // What tests before this one left in pools, and what these counted, is gone.
  void SetUp() override { ASSERT_EQ(gpemu_cuda_context_reset(0), GPEMU_CUDA_SUCCESS); }
  static std::uint64_t allocate(Bytes bytes) {
    std::uint64_t address = 0;
    EXPECT_EQ(gpemu_cuda_malloc(bytes, &address), GPEMU_CUDA_SUCCESS);
    return address;
  }
  static std::uint64_t free_bytes() {
    std::uint64_t free = 0, total = 0;
    EXPECT_EQ(gpemu_cuda_mem_info(&free, &total), GPEMU_CUDA_SUCCESS);
    return free;
  }
  static std::uint64_t bits(const void* pointer) {
    return reinterpret_cast<std::uint64_t>(pointer);
  }
  static gpemu_cuda_status copy(std::uint64_t to, std::uint64_t from, Bytes bytes) {
    return gpemu_cuda_memcpy(to, from, bytes, GPEMU_CUDA_COPY_DEFAULT, nullptr, 1);
  }
};

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
  const auto content_at = [](std::uint64_t at) { return memory().contents.part(at, 1).content; };
  const std::uint64_t address = allocate(kBytes);
  for (const Uncomputed how : {Uncomputed::kWritten, Uncomputed::kOpen}) {
    for (int round = 0; round < 3; ++round) leave_uncomputed(address, kBytes, how, 1);
    EXPECT_FALSE(known_to_kernel(address, kBytes));
    EXPECT_FALSE(known_to_kernel(address, kBytes));
    ASSERT_EQ(copy(address, bits(data.data()), kBytes), GPEMU_CUDA_SUCCESS);
    EXPECT_TRUE(known_to_kernel(address, kBytes));
    leave_uncomputed(address, kBytes, how, 1);
    EXPECT_EQ(content_at(address + kBytes - 1), Content::kNotComputed);
    ASSERT_EQ(gpemu_cuda_free(address), GPEMU_CUDA_SUCCESS);
    ASSERT_EQ(allocate(kBytes), address);
    EXPECT_TRUE(known_to_kernel(address, kBytes));
    leave_uncomputed(address, kBytes, how, 1);
    EXPECT_EQ(content_at(address), Content::kNotComputed);
    EXPECT_FALSE(known_to_kernel(address, kBytes));
  }
  ASSERT_EQ(copy(address, bits(data.data()), kBytes), GPEMU_CUDA_SUCCESS);
  for (int round = 0; round < 3; ++round) {
    leave_uncomputed(address, kBytes, Uncomputed::kUpdated, 1);
    EXPECT_EQ(content_at(address), Content::kNotUpdated);
  }
  ASSERT_EQ(copy(address, bits(data.data()), kBytes), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(content_at(address), Content::kKept);
  leave_uncomputed(address, kBytes, Uncomputed::kUpdated, 1);
  EXPECT_EQ(content_at(address), Content::kNotUpdated);
  ASSERT_EQ(gpemu_cuda_free(address), GPEMU_CUDA_SUCCESS);
}

TEST_F(MemoryTest, KernelsKnowWhatLiesInLockedMemory) {
  void* pinned = nullptr;
  ASSERT_EQ(gpemu_cuda_host_alloc(64, 0, &pinned), GPEMU_CUDA_SUCCESS);
  std::uint8_t read = 0;
  EXPECT_TRUE(known_to_kernel(bits(pinned), 64));
  EXPECT_TRUE(load_for_kernel(bits(pinned), &read, 1));
  EXPECT_FALSE(known_to_kernel(bits(&read), 1));
  EXPECT_FALSE(load_for_kernel(bits(&read), &read, 1));
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

TEST_F(MemoryTest, KernelsWriteToLockedMemory) {
  constexpr Bytes kBytes = kMiB;
  void* pinned = nullptr;
  ASSERT_EQ(gpemu_cuda_host_alloc(kBytes, 0, &pinned), GPEMU_CUDA_SUCCESS);
  auto* const bytes = static_cast<std::uint8_t*>(pinned);
  const std::array<std::uint8_t, 2> value{5, 6}, zeros{};
  fill_by_kernel(bits(bytes), value.data(), 2, kBytes / 2, 1);
  EXPECT_EQ(bytes[kBytes - 1], 6);
  fill_by_kernel(bits(bytes), zeros.data(), 2, 1, 1);
  EXPECT_EQ(bytes[1], 0);
  EXPECT_EQ(bytes[2], 5);
  store_by_kernel(bits(bytes + 4), value.data(), 2);
  EXPECT_EQ(bytes[5], 6);
  const std::uint64_t before = gpemu_cuda_not_computed_bytes();
  leave_uncomputed(bits(bytes), 100, Uncomputed::kOpen, 1);
  EXPECT_EQ(gpemu_cuda_not_computed_bytes(), before) << "it may be only read";
  leave_uncomputed(bits(bytes), 100, Uncomputed::kWritten, 1);
  leave_uncomputed(bits(bytes), 100, Uncomputed::kUpdated, 1);
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

/// Returns 0 under ThreadSanitizer, which writes shadows of what is mapped.
long resident_pages() {
#if defined(__SANITIZE_THREAD__)
  return 0;
#endif
  std::ifstream file("/proc/self/statm");
  long total = 0, resident = 0;
  EXPECT_TRUE(file >> total >> resident);
  return resident;
}

TEST_F(MemoryTest, CopiesAndSetsOfUnwrittenMemoryTakeNoHostMemory) {
  const std::uint64_t from = allocate(512 * kMiB), to = allocate(512 * kMiB);
  const long before = resident_pages();
  ASSERT_EQ(copy(to, from, 512 * kMiB), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_set_memory(to, 0, 0, 1, 512 * kMiB, 1, nullptr), GPEMU_CUDA_SUCCESS);
  EXPECT_LT(resident_pages() - before, 16 * 256);  // 16 MiB.
  ASSERT_EQ(gpemu_cuda_free(from), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_free(to), GPEMU_CUDA_SUCCESS);
}

TEST_F(MemoryTest, DropsLargeCopiesFromPinnedMemoryWhereAskedToAndSaysSo) {
  process().settings.drop_data = true;
  constexpr Bytes kSize = 8 * kMiB;
  void* pinned = nullptr;
  ASSERT_EQ(gpemu_cuda_host_alloc(kSize, 0, &pinned), GPEMU_CUDA_SUCCESS);
  std::memset(pinned, 3, kSize);
  std::vector<std::uint8_t> pageable(kSize, 7), read(kSize, 1);
  const std::uint64_t address = allocate(kSize), second = allocate(kSize);
  ASSERT_EQ(copy(address, bits(pageable.data()), kSize), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(copy(second, address, kSize), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_device_synchronize(), GPEMU_CUDA_SUCCESS);
  const long before = resident_pages();
  ASSERT_EQ(copy(address, bits(pinned), kSize), GPEMU_CUDA_SUCCESS);
  EXPECT_LE(resident_pages() - before, 16) << "what was not kept takes memory";
  ASSERT_EQ(copy(address + kMiB, bits(pinned), kMiB - 1), GPEMU_CUDA_SUCCESS);
  testing::internal::CaptureStderr();
  ASSERT_EQ(copy(bits(read.data()), second, kSize), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(read, pageable) << "a pageable copy";
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  testing::internal::CaptureStderr();
  ASSERT_EQ(copy(second, address, kSize), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(copy(bits(read.data()), second, kSize), GPEMU_CUDA_SUCCESS);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("--drop-data"), std::string::npos);
  std::vector<std::uint8_t> expected(kSize, 0);
  std::fill_n(expected.begin() + kMiB, kMiB - 1, std::uint8_t{3});
  EXPECT_EQ(read, expected);
  ASSERT_EQ(gpemu_cuda_free(address), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_free(second), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_host_free(pinned), GPEMU_CUDA_SUCCESS);
  process().settings.drop_data = false;
}

/// Two pinned buffers, one of a device, and a mover that does nothing until the test lets it.
class MoverTest : public MemoryTest {
 protected:
  static constexpr Bytes kSize = 4 * kMiB;
  void SetUp() override {
    for (std::uint8_t** buffer : {&from_, &to_}) {
      void* pinned = nullptr;
      ASSERT_EQ(gpemu_cuda_host_alloc(kSize, 0, &pinned), GPEMU_CUDA_SUCCESS);
      *buffer = static_cast<std::uint8_t*>(pinned);
    }
    for (Bytes i = 0; i < kSize; ++i) from_[i] = static_cast<std::uint8_t>(i * 7 + i / 4096);
    memory_ = allocate(kSize);
    ASSERT_EQ(gpemu_cuda_stream_create(1, 0, &stream_), GPEMU_CUDA_SUCCESS);
    mover().pause();
  }
  void TearDown() override {
    mover().resume();
    EXPECT_EQ(gpemu_cuda_stream_destroy(stream_), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(gpemu_cuda_free(memory_), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(gpemu_cuda_host_free(from_), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(gpemu_cuda_host_free(to_), GPEMU_CUDA_SUCCESS);
    EXPECT_FALSE(mover().busy());
  }
  void copy_async(std::uint64_t to, std::uint64_t from, Bytes bytes) {
    EXPECT_EQ(gpemu_cuda_memcpy(to, from, bytes, GPEMU_CUDA_COPY_DEFAULT, stream_, 0),
              GPEMU_CUDA_SUCCESS);
  }
  void set_async(std::uint64_t address, std::uint32_t value, Bytes bytes) {
    EXPECT_EQ(gpemu_cuda_set_memory(address, 0, value, 1, bytes, 1, stream_), GPEMU_CUDA_SUCCESS);
  }
  void synchronize() {
    mover().resume();
    EXPECT_EQ(gpemu_cuda_stream_synchronize(stream_), GPEMU_CUDA_SUCCESS);
  }
  [[nodiscard]] bool all_are(Bytes offset, Bytes bytes, std::uint8_t value) const {
    return std::all_of(to_ + offset, to_ + offset + bytes,
                       [value](std::uint8_t byte) { return byte == value; });
  }
  std::uint8_t* from_ = nullptr;
  std::uint8_t* to_ = nullptr;
  std::uint64_t memory_ = 0;
  gpemu_cuda_stream_handle stream_ = nullptr;
};

TEST_F(MoverTest, LargeCopiesReturnBeforeTheirBytesAreMoved) {
  copy_async(memory_, bits(from_), kSize);
  copy_async(bits(to_), memory_, kSize);
  gpemu_cuda_event_handle event = nullptr;
  ASSERT_EQ(gpemu_cuda_event_create(0, &event), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_event_record(event, stream_, 0), GPEMU_CUDA_SUCCESS);
  clock().wait_until(clock().now() + std::chrono::seconds(1));
  EXPECT_EQ(gpemu_cuda_stream_query(stream_), GPEMU_CUDA_ERROR_NOT_READY);
  EXPECT_EQ(gpemu_cuda_event_query(event), GPEMU_CUDA_ERROR_NOT_READY);
  EXPECT_TRUE(all_are(0, kSize, 0));
  mover().resume();
  ASSERT_EQ(gpemu_cuda_event_synchronize(event), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(std::memcmp(to_, from_, kSize), 0);
  EXPECT_EQ(gpemu_cuda_stream_query(stream_), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_event_destroy(event), GPEMU_CUDA_SUCCESS);
}

TEST_F(MoverTest, TakeNoLongerOnTheTimelineThanTheLink) {
  mover().resume();
  gpemu_cuda_event_handle start = nullptr, end = nullptr;
  ASSERT_EQ(gpemu_cuda_event_create(0, &start), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_event_create(0, &end), GPEMU_CUDA_SUCCESS);
  std::array<std::int64_t, 2> times{};
  for (std::int64_t& time : times) {
    ASSERT_EQ(gpemu_cuda_event_record(start, stream_, 0), GPEMU_CUDA_SUCCESS);
    copy_async(memory_, bits(from_), kSize);
    ASSERT_EQ(gpemu_cuda_event_record(end, stream_, 0), GPEMU_CUDA_SUCCESS);
    ASSERT_EQ(gpemu_cuda_event_synchronize(end), GPEMU_CUDA_SUCCESS);
    ASSERT_EQ(gpemu_cuda_event_elapsed(start, end, &time), GPEMU_CUDA_SUCCESS);
    process().settings.drop_data = true;
  }
  process().settings.drop_data = false;
  EXPECT_EQ(times[0], times[1]);
  EXPECT_GT(times[0], 0);
}

TEST_F(MoverTest, WhatOverlapsComesInOrder) {
  std::vector<std::uint8_t> pageable(1000, 9);
  const std::uint64_t second = allocate(kSize);
  copy_async(memory_, bits(from_), kSize);
  set_async(memory_ + 100, 5, 50);
  set_async(memory_ + kMiB, 0, kMiB);
  copy_async(memory_ + 10'000, bits(pageable.data()), pageable.size());
  std::ranges::fill(pageable, std::uint8_t{1});  // It was staged.
  KernelWork sixes;
  sixes.fill_address = memory_ + 20'000;
  sixes.fill_count = 10;
  sixes.fill_value = {std::byte{6}};
  perform(sixes);
  copy_async(second, memory_, kSize);
  set_async(memory_, 7, kSize);
  copy_async(bits(to_), second, kSize);
  set_async(second, 8, kSize);
  // Small ones, too, that touch nothing of it, need not wait.
  std::uint8_t small = 3;
  const std::uint64_t other = allocate(1);
  copy_async(other, bits(&small), 1);
  small = 4;
  ASSERT_EQ(copy(bits(&small), other, 1), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(small, 3);
  EXPECT_TRUE(mover().busy());
  synchronize();
  std::vector<std::uint8_t> expected(from_, from_ + kSize);
  std::fill_n(expected.begin() + 100, 50, std::uint8_t{5});
  std::fill_n(expected.begin() + kMiB, kMiB, std::uint8_t{0});
  std::fill_n(expected.begin() + 10'000, 1000, std::uint8_t{9});
  std::fill_n(expected.begin() + 20'000, 10, std::uint8_t{6});
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), to_));
  ASSERT_EQ(copy(bits(to_), second, kSize), GPEMU_CUDA_SUCCESS);
  EXPECT_TRUE(all_are(0, kSize, 8));
  ASSERT_EQ(copy(bits(to_), memory_, kSize), GPEMU_CUDA_SUCCESS);
  EXPECT_TRUE(all_are(0, kSize, 7));
  EXPECT_EQ(gpemu_cuda_free(second), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_free(other), GPEMU_CUDA_SUCCESS);
}

TEST_F(MoverTest, BlockingCopiesAndReadsOfLibrariesWaitForWhatTheyRead) {
  for (const int way : {0, 1, 2, 3}) {
    mover().pause();
    from_[5] = static_cast<std::uint8_t>(way + 1);
    copy_async(memory_, bits(from_), kSize);
    std::thread resumer([] { mover().resume(); });
    std::uint8_t read = 0;
    const std::uint8_t written = 77;
    if (way == 0) {
      EXPECT_EQ(copy(bits(&read), memory_ + 5, 1), GPEMU_CUDA_SUCCESS);
    } else if (way == 1) {
      EXPECT_EQ(gpemu_cuda_peek(memory_ + 5, &read, 1), GPEMU_CUDA_SUCCESS);
    } else if (way == 2) {
      EXPECT_EQ(gpemu_cuda_poke(memory_ + 5, &written, 1), GPEMU_CUDA_SUCCESS);
      EXPECT_EQ(gpemu_cuda_peek(memory_ + 5, &read, 1), GPEMU_CUDA_SUCCESS);
    } else {
      EXPECT_EQ(gpemu_cuda_device_synchronize(), GPEMU_CUDA_SUCCESS);
      EXPECT_FALSE(mover().busy());
      EXPECT_EQ(gpemu_cuda_peek(memory_ + 5, &read, 1), GPEMU_CUDA_SUCCESS);
    }
    EXPECT_EQ(read, way == 2 ? written : way + 1);
    resumer.join();
  }
}

TEST_F(MoverTest, FreedAndUnregisteredMemoryIsNotTouchedAnyMore) {
  std::vector<std::uint8_t> registered(2 * kMiB, 4);
  ASSERT_EQ(gpemu_cuda_host_register(registered.data(), registered.size(), 0), GPEMU_CUDA_SUCCESS);
  void* pinned = nullptr;
  ASSERT_EQ(gpemu_cuda_host_alloc(2 * kMiB, 0, &pinned), GPEMU_CUDA_SUCCESS);
  std::memset(pinned, 5, 2 * kMiB);
  const std::uint64_t device = allocate(2 * kMiB);
  std::uint64_t handle = 0, range = 0;
  ASSERT_EQ(gpemu_cuda_vmm_create(0, 2 * kMiB, &handle), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_vmm_reserve(2 * kMiB, 0, 0, &range), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_vmm_map(range, 2 * kMiB, 0, handle), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_vmm_set_access(range, 2 * kMiB, 0, 3), GPEMU_CUDA_SUCCESS);
  copy_async(memory_, bits(registered.data()), 2 * kMiB);
  copy_async(memory_ + 2 * kMiB, bits(pinned), 2 * kMiB);
  copy_async(device, bits(from_), 2 * kMiB);
  copy_async(range, bits(from_), 2 * kMiB);
  std::thread resumer([] { mover().resume(); });
  EXPECT_EQ(gpemu_cuda_host_unregister(registered.data()), GPEMU_CUDA_SUCCESS);
  std::ranges::fill(registered, std::uint8_t{0});
  EXPECT_EQ(gpemu_cuda_host_free(pinned), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_vmm_unmap(range, 2 * kMiB), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_free(device), GPEMU_CUDA_SUCCESS);
  const std::uint64_t again = allocate(2 * kMiB);
  ASSERT_EQ(copy(bits(to_), again, 2 * kMiB), GPEMU_CUDA_SUCCESS);
  EXPECT_TRUE(all_are(0, 2 * kMiB, 0));
  ASSERT_EQ(copy(bits(to_), memory_, kSize), GPEMU_CUDA_SUCCESS);
  EXPECT_TRUE(all_are(0, 2 * kMiB, 4));
  EXPECT_TRUE(all_are(2 * kMiB, 2 * kMiB, 5));
  // Memory that is mapped again is zero only where it was not written.
  ASSERT_EQ(gpemu_cuda_vmm_map(range, 2 * kMiB, 0, handle), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_vmm_set_access(range, 2 * kMiB, 0, 3), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(copy(bits(to_), range, 2 * kMiB), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(std::memcmp(to_, from_, 2 * kMiB), 0);
  ASSERT_EQ(gpemu_cuda_vmm_unmap(range, 2 * kMiB), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_vmm_unreserve(range, 2 * kMiB), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_vmm_release(handle), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_free(again), GPEMU_CUDA_SUCCESS);
  resumer.join();
}

TEST_F(MoverTest, HostFunctionsFindTheBytesOfCopiesBeforeThem) {
  struct Seen {
    const std::uint8_t* bytes;
    int first = -1, last = -1;
  } seen{.bytes = to_};
  copy_async(memory_, bits(from_), kSize);
  copy_async(bits(to_), memory_, kSize);
  ASSERT_EQ(gpemu_cuda_launch_host_function(
                stream_,
                [](void* data) {
                  auto& found = *static_cast<Seen*>(data);
                  found.first = found.bytes[1];
                  found.last = found.bytes[kSize - 1];
                },
                &seen),
            GPEMU_CUDA_SUCCESS);
  synchronize();
  EXPECT_EQ(seen.first, from_[1]);
  EXPECT_EQ(seen.last, from_[kSize - 1]);
}

TEST_F(MoverTest, CopiesFindWhatHostFunctionsBeforeThemWrote) {
  struct Gate {
    std::latch open{1};
    std::uint8_t* bytes = nullptr;
  };
  mover().resume();
  for (const Bytes size : {Bytes{100}, kSize}) {
    for (const bool blocking : {false, true}) {
      Gate gate{.bytes = from_};
      std::memset(from_, 1, size);
      std::memset(to_, 2, size);
      ASSERT_EQ(gpemu_cuda_launch_host_function(
                    stream_,
                    [](void* data) {
                      auto& found = *static_cast<Gate*>(data);
                      found.open.wait();
                      found.bytes[99] = 5;
                    },
                    &gate),
                GPEMU_CUDA_SUCCESS);
      std::thread opener([&gate] { gate.open.count_down(); });
      ASSERT_EQ(gpemu_cuda_memcpy(memory_, bits(from_), size, GPEMU_CUDA_COPY_DEFAULT, stream_,
                                  blocking ? 1 : 0),
                GPEMU_CUDA_SUCCESS);
      copy_async(bits(to_), memory_, size);
      synchronize();
      EXPECT_EQ(to_[99], 5) << size << " bytes";
      EXPECT_EQ(to_[98], 1);
      opener.join();
    }
  }
}

TEST_F(MoverTest, LaunchesOfGraphsMoveBytesEachTime) {
  gpemu_cuda_graph_handle graph = nullptr;
  gpemu_cuda_exec_handle exec = nullptr;
  ASSERT_EQ(gpemu_cuda_begin_capture(stream_, 0, nullptr), GPEMU_CUDA_SUCCESS);
  copy_async(memory_, bits(from_), kSize);
  set_async(memory_, 3, 10);
  copy_async(bits(to_), memory_, kSize);
  std::array<std::uint8_t, 100> pageable{};
  copy_async(bits(pageable.data()), memory_ + 10, pageable.size());
  ASSERT_EQ(gpemu_cuda_end_capture(stream_, &graph), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_graph_instantiate(graph, &exec), GPEMU_CUDA_SUCCESS);
  for (const int value : {1, 2}) {
    std::memset(from_, value, kSize);
    mover().pause();
    ASSERT_EQ(gpemu_cuda_graph_launch(exec, stream_), GPEMU_CUDA_SUCCESS);
    EXPECT_TRUE(mover().busy());
    synchronize();
    EXPECT_TRUE(all_are(0, 10, 3));
    EXPECT_TRUE(all_are(10, kSize - 10, static_cast<std::uint8_t>(value)));
    EXPECT_EQ(pageable[99], value);
  }
  EXPECT_EQ(gpemu_cuda_exec_destroy(exec), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_graph_destroy(graph), GPEMU_CUDA_SUCCESS);
}

TEST_F(MoverTest, NodesReadPageableMemoryThatHostFunctionsBeforeThemWrote) {
  mover().resume();
  struct Gate {
    std::latch open{1};
    std::array<std::uint8_t, 64> pageable{};
  } gate;
  const std::uint64_t pageable = bits(gate.pageable.data());
  const gpemu_cuda_copy rows{.destination = memory_ + 64,
                             .source = pageable,
                             .width_bytes = 16,
                             .height = 2,
                             .depth = 1,
                             .destination_pitch = 32,
                             .source_pitch = 32,
                             .kind = GPEMU_CUDA_COPY_HOST_TO_DEVICE};
  const auto write = [](void* data) {
    auto& found = *static_cast<Gate*>(data);
    found.open.wait();
    found.pageable.fill(5);
  };
  gpemu_cuda_graph_handle graph = nullptr;
  gpemu_cuda_exec_handle exec = nullptr;
  ASSERT_EQ(gpemu_cuda_begin_capture(stream_, 0, nullptr), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_launch_host_function(stream_, write, &gate), GPEMU_CUDA_SUCCESS);
  copy_async(memory_, pageable, gate.pageable.size());
  ASSERT_EQ(gpemu_cuda_copy_memory(&rows, stream_, 0), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_end_capture(stream_, &graph), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_graph_instantiate(graph, &exec), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_graph_launch(exec, stream_), GPEMU_CUDA_SUCCESS);
  gate.open.count_down();
  synchronize();
  std::uint8_t value = 0;
  for (const Bytes offset : {0, 63, 64, 111}) {
    ASSERT_EQ(gpemu_cuda_peek(memory_ + offset, &value, 1), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(value, 5) << offset;
  }
  EXPECT_EQ(gpemu_cuda_exec_destroy(exec), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_graph_destroy(graph), GPEMU_CUDA_SUCCESS);
}

TEST_F(MoverTest, WhatTheHostSeesChangesInTheStreamsOrder) {
  struct Gate {
    std::latch open{1};
    std::uint8_t* from = nullptr;
    const std::uint8_t* set = nullptr;
    int seen = -1;
  };
  const auto pass = [](void* data) {
    auto& gate = *static_cast<Gate*>(data);
    gate.open.wait();
    gate.seen = *gate.set;
    gate.from[99] = 5;
  };
  mover().resume();
  for (const bool in_graph : {false, true}) {
    Gate gate{.from = from_, .set = to_ + 1000};
    std::memset(from_, 1, 100);
    std::memset(to_, 2, 2000);
    gpemu_cuda_graph_handle graph = nullptr;
    gpemu_cuda_exec_handle exec = nullptr;
    std::thread opener;
    if (in_graph) {
      ASSERT_EQ(gpemu_cuda_begin_capture(stream_, 0, nullptr), GPEMU_CUDA_SUCCESS);
    }
    ASSERT_EQ(gpemu_cuda_launch_host_function(stream_, pass, &gate), GPEMU_CUDA_SUCCESS);
    set_async(bits(gate.set), 9, 10);
    if (!in_graph) opener = std::thread([&gate] { gate.open.count_down(); });
    copy_async(bits(to_), bits(from_), 100);
    if (in_graph) {
      ASSERT_EQ(gpemu_cuda_end_capture(stream_, &graph), GPEMU_CUDA_SUCCESS);
      ASSERT_EQ(gpemu_cuda_graph_instantiate(graph, &exec), GPEMU_CUDA_SUCCESS);
      ASSERT_EQ(gpemu_cuda_graph_launch(exec, stream_), GPEMU_CUDA_SUCCESS);
      EXPECT_EQ(gpemu_cuda_exec_destroy(exec), GPEMU_CUDA_SUCCESS);
      EXPECT_EQ(gpemu_cuda_graph_destroy(graph), GPEMU_CUDA_SUCCESS);
      gate.open.count_down();
    } else {
      opener.join();
    }
    synchronize();
    EXPECT_EQ(gate.seen, 2) << "before the set";
    EXPECT_EQ(*gate.set, 9);
    EXPECT_EQ(to_[98], 1);
    EXPECT_EQ(to_[99], 5) << "after the host function";
  }
}

TEST_F(MoverTest, RandomCopiesAndSetsLeaveWhatTheirOrderSays) {
  mover().resume();
  constexpr std::size_t kBuffers = 4;
  const std::uint64_t second = allocate(kSize);
  // Two of the device, two of the host, and what they must hold.
  const std::array<std::uint64_t, kBuffers> buffers{memory_, second, bits(from_), bits(to_)};
  std::array<std::vector<std::uint8_t>, kBuffers> expected;
  for (std::size_t i = 0; i < kBuffers; ++i) {
    expected[i] =
        i < 2 ? std::vector<std::uint8_t>(kSize, 0)
              : std::vector<std::uint8_t>((i == 2 ? from_ : to_), (i == 2 ? from_ : to_) + kSize);
  }
  std::mt19937_64 random(20260131);
  const auto below = [&random](std::uint64_t end) { return random() % end; };
  for (int step = 0; step < 600; ++step) {
    const Bytes size = below(3) == 0 ? 1 + below(5000) : kMiB + below(2 * kMiB);
    const Bytes to_offset = below(kSize - size), from_offset = below(kSize - size);
    const std::size_t to = below(kBuffers), from = below(kBuffers);
    if (below(6) == 0) {
      const auto value = static_cast<std::uint8_t>(below(3));
      set_async(buffers[to % 2] + to_offset, value, size);
      std::fill_n(expected[to % 2].begin() + static_cast<std::ptrdiff_t>(to_offset), size, value);
    } else if (to != from && (to < 2 || from < 2)) {
      copy_async(buffers[to] + to_offset, buffers[from] + from_offset, size);
      std::copy_n(expected[from].begin() + static_cast<std::ptrdiff_t>(from_offset), size,
                  expected[to].begin() + static_cast<std::ptrdiff_t>(to_offset));
    }
    if (below(50) == 0) synchronize();
  }
  synchronize();
  EXPECT_TRUE(std::equal(expected[2].begin(), expected[2].end(), from_));
  EXPECT_TRUE(std::equal(expected[3].begin(), expected[3].end(), to_));
  for (const std::size_t i : {0U, 1U}) {
    ASSERT_EQ(copy(bits(to_), buffers[i], kSize), GPEMU_CUDA_SUCCESS);
    EXPECT_TRUE(std::equal(expected[i].begin(), expected[i].end(), to_)) << i;
  }
  EXPECT_EQ(gpemu_cuda_free(second), GPEMU_CUDA_SUCCESS);
}

TEST_F(MoverTest, MemoryThatOthersSeeIsWrittenAtOnce) {
  copy_async(memory_, bits(from_), kSize);
  set_async(memory_, 0, kSize);
  std::thread resumer([] { mover().resume(); });
  gpemu_cuda_ipc ipc;
  ASSERT_EQ(gpemu_cuda_ipc_export_memory(memory_, &ipc), GPEMU_CUDA_SUCCESS);
  resumer.join();
  EXPECT_FALSE(mover().busy());
  const auto* const pages = reinterpret_cast<const std::uint8_t*>(memory_);
  EXPECT_TRUE(std::all_of(pages, pages + kSize, [](std::uint8_t byte) { return byte == 0; }))
      << "what others see is not what a copy from here reads";
  copy_async(memory_, bits(from_), kSize);
  EXPECT_FALSE(mover().busy());
  EXPECT_EQ(std::memcmp(pages, from_, kSize), 0);
}

TEST_F(MoverTest, ClosedImportsAreNotTouchedAnyMore) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  // A child has the same file under another process's number.
  const pid_t child = ::fork();
  if (child == 0) {
    char none = 0;
    ::close(pipe[1]);
    static_cast<void>(::read(pipe[0], &none, 1));
    ::_exit(0);
  }
  ::close(pipe[0]);
  mover().resume();
  const std::uint64_t exported = allocate(kSize);
  std::uint64_t imported = 0;
  gpemu_cuda_ipc ipc;
  ASSERT_EQ(gpemu_cuda_ipc_export_memory(exported, &ipc), GPEMU_CUDA_SUCCESS);
  std::memcpy(&ipc.bytes[12], &child, sizeof(child));
  ASSERT_EQ(gpemu_cuda_ipc_open_memory(&ipc, &imported), GPEMU_CUDA_SUCCESS);
  mover().pause();
  copy_async(memory_, bits(from_), kSize);
  copy_async(imported, memory_, kSize);
  std::thread resumer([] { mover().resume(); });
  EXPECT_EQ(gpemu_cuda_ipc_close_memory(imported), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(std::memcmp(reinterpret_cast<const void*>(exported), from_, kSize), 0);
  resumer.join();
  EXPECT_EQ(gpemu_cuda_free(exported), GPEMU_CUDA_SUCCESS);
  ::close(pipe[1]);
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
}

TEST_F(MemoryTest, CopiesRowsAndPlanes) {
  std::vector<std::uint8_t> data(96), read(20, 0);
  std::iota(data.begin(), data.end(), std::uint8_t{0});
  const std::uint64_t address = allocate(data.size());
  ASSERT_EQ(copy(address, bits(data.data()), data.size()), GPEMU_CUDA_SUCCESS);
  const gpemu_cuda_copy part{.destination = bits(read.data()),
                             .source = address + 1,
                             .width_bytes = 5,
                             .height = 2,
                             .depth = 2,
                             .destination_pitch = 5,
                             .source_pitch = 8,
                             .destination_plane_pitch = 10,
                             .source_plane_pitch = 24,
                             .kind = GPEMU_CUDA_COPY_DEVICE_TO_HOST};
  ASSERT_EQ(gpemu_cuda_copy_memory(&part, nullptr, 1), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(read, (std::vector<std::uint8_t>{1,  2,  3,  4,  5,  9,  10, 11, 12, 13,
                                             25, 26, 27, 28, 29, 33, 34, 35, 36, 37}));
  ASSERT_EQ(gpemu_cuda_free(address), GPEMU_CUDA_SUCCESS);
}

TEST_F(MemoryTest, BlockingCopiesWaitForWhatCudaSaysTheyDo) {
  constexpr Bytes kSmall = 4096;
  std::vector<std::uint8_t> pageable(kSmall);
  const std::uint64_t memory = allocate(2 * kSmall);
  const auto queue_work = [] {
    EXPECT_EQ(gpemu_cuda_device_synchronize(), GPEMU_CUDA_SUCCESS);
    const gpemu_operation operation{.struct_size = sizeof(operation),
                                    .kind = GPEMU_OPERATION_ELEMENTWISE,
                                    .type = GPEMU_TYPE_FP32,
                                    .shape = {1 << 24, 1 << 24, 1},
                                    .name = "operation"};
    EXPECT_EQ(gpemu_cuda_submit(&operation, nullptr), GPEMU_CUDA_SUCCESS);
    return clock().now();
  };
  // Alone, to learn how long the operation takes.
  const TimePoint alone = queue_work();
  ASSERT_EQ(gpemu_cuda_device_synchronize(), GPEMU_CUDA_SUCCESS);
  const Duration work = clock().now() - alone;
  ASSERT_GT(work, Duration::zero());

  TimePoint start = queue_work();
  ASSERT_EQ(copy(memory, bits(pageable.data()), kSmall), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(clock().now() - start, work) << "for what was queued, but not for the copy itself";
  EXPECT_EQ(gpemu_cuda_stream_query(nullptr), GPEMU_CUDA_ERROR_NOT_READY);

  start = queue_work();
  ASSERT_EQ(copy(memory, memory + kSmall, kSmall), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(clock().now(), start) << "between devices the host waits for nothing";

  start = queue_work();
  ASSERT_EQ(
      gpemu_cuda_memcpy(memory, bits(pageable.data()), kSmall, GPEMU_CUDA_COPY_DEFAULT, nullptr, 0),
      GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(clock().now(), start) << "asynchronous and small";

  start = queue_work();
  ASSERT_EQ(copy(bits(pageable.data()), memory, kSmall), GPEMU_CUDA_SUCCESS);
  EXPECT_GT(clock().now() - start, work) << "to the host";
  EXPECT_EQ(gpemu_cuda_stream_query(nullptr), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_free(memory), GPEMU_CUDA_SUCCESS);
}

TEST_F(MemoryTest, SetsEveryElementAndNoOther) {
  constexpr std::uint32_t kValue = 0x04030201;
  for (const std::uint32_t element : {1U, 2U, 4U}) {
    for (const std::uint64_t count : {1U, 2U, 3U, 5U, 64U, 1001U}) {
      const std::uint64_t width = element * count, pitch = width + 8;
      const std::uint64_t address = allocate(3 * pitch);
      ASSERT_EQ(gpemu_cuda_set_memory(address, pitch, kValue, element, count, 2, nullptr),
                GPEMU_CUDA_SUCCESS);
      std::vector<std::uint8_t> expected(3 * pitch, 0), read(expected.size(), 9);
      for (std::uint64_t i = 0; i < 2 * width; ++i) {
        expected[i / width * pitch + i % width] = static_cast<std::uint8_t>(i % element + 1);
      }
      ASSERT_EQ(copy(bits(read.data()), address, read.size()), GPEMU_CUDA_SUCCESS);
      EXPECT_EQ(read, expected) << element << " bytes, " << count << " times";
      ASSERT_EQ(gpemu_cuda_free(address), GPEMU_CUDA_SUCCESS);
    }
  }
}

TEST_F(MemoryTest, MappedContentFollowsItsHandle) {
  constexpr Bytes kSize = 2 * kMiB;
  const Bytes before = free_bytes();
  std::uint64_t a = 0, b = 0, range = 0;
  ASSERT_EQ(gpemu_cuda_vmm_create(0, kSize, &a), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_vmm_create(0, kSize, &b), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(before - free_bytes(), 2 * kSize);
  ASSERT_EQ(gpemu_cuda_vmm_reserve(64 * kSize, 0, 0, &range), GPEMU_CUDA_SUCCESS);
  std::vector<std::uint8_t> data(1000), read(1000);
  std::iota(data.begin(), data.end(), std::uint8_t{1});
  const std::uint64_t seam = range + kSize - 500;
  EXPECT_EQ(copy(seam, bits(data.data()), 1000), GPEMU_CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(gpemu_cuda_vmm_map(range, kSize, 0, a), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_vmm_map(range, kSize, 0, b), GPEMU_CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(gpemu_cuda_vmm_map(range + kSize, kSize, 0, b), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(copy(seam, bits(data.data()), 1000), GPEMU_CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(gpemu_cuda_vmm_set_access(range, 2 * kSize, 0, 3), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(copy(seam, bits(data.data()), 1000), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(copy(range + 2 * kSize - 500, bits(data.data()), 1000), GPEMU_CUDA_ERROR_INVALID_VALUE);
  // The handles swap places, and so do the halves.
  ASSERT_EQ(gpemu_cuda_vmm_unmap(range, 2 * kSize), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_vmm_map(range + kSize, kSize, 0, a), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_vmm_set_access(range + kSize, kSize, 0, 3), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(copy(bits(read.data()), range + 2 * kSize - 500, 500), GPEMU_CUDA_SUCCESS);
  EXPECT_TRUE(std::equal(read.begin(), read.begin() + 500, data.begin()));
  ASSERT_EQ(gpemu_cuda_set_memory(range + kSize, 0, 0, 1, kSize, 1, nullptr), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(copy(bits(read.data()), range + 2 * kSize - 500, 500), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(std::accumulate(read.begin(), read.begin() + 500, 0), 0);
  // Released memory stays while it is mapped.
  ASSERT_EQ(gpemu_cuda_vmm_release(a), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_vmm_release(b), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(before - free_bytes(), kSize);
  EXPECT_EQ(gpemu_cuda_vmm_unreserve(range, 64 * kSize), GPEMU_CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(gpemu_cuda_vmm_unmap(range + kSize, kSize), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_vmm_unreserve(range, 64 * kSize), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(free_bytes(), before);
}

TEST_F(MemoryTest, ImportsExportedMemory) {
  constexpr Bytes kSize = 2 * kMiB;
  std::uint64_t first = 0, handle = 0, imported = 0, range = 0;
  ASSERT_EQ(gpemu_cuda_vmm_create(0, kSize, &first), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_vmm_create(0, kSize, &handle), GPEMU_CUDA_SUCCESS);
  std::int32_t descriptor = -1;
  ASSERT_EQ(gpemu_cuda_vmm_export(handle, &descriptor), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_vmm_import(descriptor, &imported), GPEMU_CUDA_SUCCESS);
  ::close(descriptor);
  EXPECT_EQ(gpemu_cuda_vmm_import(descriptor, &imported), GPEMU_CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(gpemu_cuda_vmm_reserve(2 * kSize, 0, 0, &range), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_vmm_map(range, kSize, 0, handle), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_vmm_map(range + kSize, kSize, 0, imported), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_vmm_set_access(range, 2 * kSize, 0, 3), GPEMU_CUDA_SUCCESS);
  const std::uint64_t value = 0x1234;
  std::uint64_t read = 0;
  ASSERT_EQ(gpemu_cuda_poke(range + 64, &value, 8), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_peek(range + kSize + 64, &read, 8), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(read, value);
  ASSERT_EQ(gpemu_cuda_vmm_unmap(range, 2 * kSize), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_vmm_unreserve(range, 2 * kSize), GPEMU_CUDA_SUCCESS);
  for (const std::uint64_t each : {first, handle, imported}) {
    EXPECT_EQ(gpemu_cuda_vmm_release(each), GPEMU_CUDA_SUCCESS);
  }
  EXPECT_EQ(gpemu_cuda_vmm_release(handle), GPEMU_CUDA_ERROR_INVALID_VALUE);
}

TEST_F(MemoryTest, MemoryThatBecomesSharedCountsWhatIsNotComputed) {
  constexpr Bytes kBytes = 4096;
  const std::uint64_t address = allocate(2 * kBytes);
  for (int round = 0; round < 2; ++round) {
    leave_uncomputed(address, kBytes, Uncomputed::kWritten, 1);
  }
  const std::uint64_t before = gpemu_cuda_not_computed_bytes();
  gpemu_cuda_ipc ipc;
  for (int round = 0; round < 2; ++round) {
    ASSERT_EQ(gpemu_cuda_ipc_export_memory(address, &ipc), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(gpemu_cuda_not_computed_bytes() - before, kBytes) << "once";
  }
  leave_uncomputed(address, kBytes, Uncomputed::kWritten, 1);
  EXPECT_EQ(gpemu_cuda_not_computed_bytes() - before, 2 * kBytes) << "again, by the same kernel";
  ASSERT_EQ(gpemu_cuda_free(address), GPEMU_CUDA_SUCCESS);
}

TEST_F(MemoryTest, PhysicalMemoryKnowsWhatIsNotComputedWhereverItIsMapped) {
  constexpr Bytes kSize = 2 * kMiB, kBytes = 4096;
  std::uint64_t handle = 0, range = 0, read = 1;
  std::int32_t descriptor = -1;
  ASSERT_EQ(gpemu_cuda_vmm_create(0, kSize, &handle), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_vmm_reserve(3 * kSize, 0, 0, &range), GPEMU_CUDA_SUCCESS);
  const auto map = [&](std::uint64_t address) {
    EXPECT_EQ(gpemu_cuda_vmm_map(address, kSize, 0, handle), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(gpemu_cuda_vmm_set_access(address, kSize, 0, 3), GPEMU_CUDA_SUCCESS);
  };
  map(range);
  leave_uncomputed(range, kBytes, Uncomputed::kWritten, 1);
  ASSERT_EQ(gpemu_cuda_vmm_unmap(range, kSize), GPEMU_CUDA_SUCCESS);
  map(range + kSize);
  const std::uint64_t before = gpemu_cuda_not_computed_bytes();
  ASSERT_EQ(gpemu_cuda_peek(range + kSize, &read, sizeof(read)), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(read, 0U);
  EXPECT_EQ(gpemu_cuda_not_computed_bytes() - before, sizeof(read));
  map(range);
  EXPECT_EQ(gpemu_cuda_not_computed_bytes() - before, sizeof(read) + kBytes) << "mapped twice";
  ASSERT_EQ(gpemu_cuda_vmm_unmap(range, kSize), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_vmm_unmap(range + kSize, kSize), GPEMU_CUDA_SUCCESS);
  map(range);
  leave_uncomputed(range, kBytes, Uncomputed::kWritten, 1);
  ASSERT_EQ(gpemu_cuda_vmm_unmap(range, kSize), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_vmm_export(handle, &descriptor), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_not_computed_bytes() - before, sizeof(read) + 2 * kBytes) << "exported";
  ::close(descriptor);
  ASSERT_EQ(gpemu_cuda_vmm_release(handle), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_vmm_unreserve(range, 3 * kSize), GPEMU_CUDA_SUCCESS);
}

TEST_F(MemoryTest, PoolsGiveMemoryAgainAndCountIt) {
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

TEST_F(MemoryTest, PoolsGiveAStreamWhatItFreedBeforeItsWorkEnds) {
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

TEST_F(MemoryTest, StreamsWaitForMemoryOfOthersRatherThanRunOut) {
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

TEST_F(MemoryTest, PoolsKeepTheirThresholdWhereTheHostWaits) {
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
      ASSERT_EQ(gpemu_cuda_vmm_create(0, 24 * kGiB, &handle), GPEMU_CUDA_SUCCESS);
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

TEST_F(MemoryTest, AllocatesFromTheCurrentPoolOfTheStreamsDevice) {
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
  device_at(0).peers.insert(1);
  ASSERT_EQ(gpemu_cuda_context_reset(0), GPEMU_CUDA_SUCCESS);
  EXPECT_TRUE(device_at(0).peers.empty());
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
  EXPECT_EQ(device_at(0).context_users, 0);
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
