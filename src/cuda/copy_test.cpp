// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <latch>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/base/units.hpp"
#include "gpemu/cuda.h"
#include "gpemu/launch/kernel_execution.hpp"
#include "gpemu/memory/memory_content.hpp"
#include "gpemu/process/attach.hpp"
#include "gpemu/streams/mover.hpp"

#include "test_memory.hpp"

namespace gpemu::cuda {
namespace {

class CopyTest : public MemoryTest {};

/// Returns 0 under ThreadSanitizer, which writes shadows of what is mapped.
long resident_pages() {
#if defined(GPEMU_SANITIZE_THREAD)
  return 0;
#endif
  std::ifstream file("/proc/self/statm");
  long total = 0, resident = 0;
  EXPECT_TRUE(file >> total >> resident);
  return resident;
}

TEST_F(CopyTest, CopiesAndSetsOfUnwrittenMemoryTakeNoHostMemory) {
  const std::uint64_t from = allocate(512 * kMiB), to = allocate(512 * kMiB);
  const long before = resident_pages();
  ASSERT_EQ(copy(to, from, 512 * kMiB), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_set_memory(to, 0, 0, 1, 512 * kMiB, 1, nullptr), GPEMU_CUDA_SUCCESS);
  EXPECT_LT(resident_pages() - before, 16 * 256);  // 16 MiB.
  ASSERT_EQ(gpemu_cuda_free(from), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_free(to), GPEMU_CUDA_SUCCESS);
}

TEST_F(CopyTest, DropsLargeCopiesFromPinnedMemoryWhereAskedToAndSaysSo) {
  process::process().settings->drop_data = true;
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
  process::process().settings->drop_data = false;
}

TEST_F(CopyTest, CopiesRowsAndPlanes) {
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

TEST_F(CopyTest, BlockingCopiesWaitForWhatCudaSaysTheyDo) {
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
    return process::clock().now();
  };
  // Alone, to learn how long the operation takes.
  const TimePoint alone = queue_work();
  ASSERT_EQ(gpemu_cuda_device_synchronize(), GPEMU_CUDA_SUCCESS);
  const Duration work = process::clock().now() - alone;
  ASSERT_GT(work, Duration::zero());

  TimePoint start = queue_work();
  ASSERT_EQ(copy(memory, bits(pageable.data()), kSmall), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(process::clock().now() - start, work)
      << "for what was queued, but not for the copy itself";
  EXPECT_EQ(gpemu_cuda_stream_query(nullptr), GPEMU_CUDA_ERROR_NOT_READY);

  start = queue_work();
  ASSERT_EQ(copy(memory, memory + kSmall, kSmall), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(process::clock().now(), start) << "between devices the host waits for nothing";

  start = queue_work();
  ASSERT_EQ(
      gpemu_cuda_memcpy(memory, bits(pageable.data()), kSmall, GPEMU_CUDA_COPY_DEFAULT, nullptr, 0),
      GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(process::clock().now(), start) << "asynchronous and small";

  start = queue_work();
  ASSERT_EQ(copy(bits(pageable.data()), memory, kSmall), GPEMU_CUDA_SUCCESS);
  EXPECT_GT(process::clock().now() - start, work) << "to the host";
  EXPECT_EQ(gpemu_cuda_stream_query(nullptr), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_free(memory), GPEMU_CUDA_SUCCESS);
}

/// More rows than have a range of their own in the map of contents, with gaps between them.
TEST_F(CopyTest, ManyShortRowsAreSetAndCopiedAsFewAre) {
  constexpr std::uint64_t kRows = 70'000, kPitch = 3;
  constexpr Bytes kSize = kRows * kPitch;
  std::vector<std::uint8_t> data(kSize), read(kSize);
  for (std::size_t i = 0; i < kSize; ++i) data[i] = static_cast<std::uint8_t>(1 + i % 251);
  const std::uint64_t first = allocate(kSize), second = allocate(kSize);
  const auto expect = [&](const std::vector<std::uint8_t>& expected, std::uint64_t memory) {
    ASSERT_EQ(copy(bits(read.data()), memory, kSize), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(read, expected);
  };
  // Zeros stay without memory.
  ASSERT_EQ(gpemu_cuda_set_memory(first, kPitch, 0, 1, 1, kRows, nullptr), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_device_synchronize(), GPEMU_CUDA_SUCCESS);
  EXPECT_TRUE(memory::is_unkept(first, kSize));
  std::vector<std::uint8_t> expected(kSize, 0);
  for (const std::uint8_t value : {std::uint8_t{7}, std::uint8_t{0}}) {
    ASSERT_EQ(copy(first, bits(data.data()), kSize), GPEMU_CUDA_SUCCESS);
    ASSERT_EQ(gpemu_cuda_set_memory(first, kPitch, value, 1, 2, kRows, nullptr),
              GPEMU_CUDA_SUCCESS);
    for (std::size_t i = 0; i < kSize; ++i) expected[i] = i % kPitch < 2 ? value : data[i];
    expect(expected, first);
  }
  gpemu_cuda_copy rows{.destination = second,
                       .source = first,
                       .width_bytes = 1,
                       .height = kRows / 2,
                       .depth = 2,
                       .destination_pitch = kPitch,
                       .source_pitch = kPitch,
                       .destination_plane_pitch = kPitch * kRows / 2,
                       .source_plane_pitch = kPitch * kRows / 2,
                       .kind = GPEMU_CUDA_COPY_DEFAULT};
  for (const std::uint64_t source : {bits(data.data()), first}) {
    rows.source = source;
    ASSERT_EQ(copy(first, bits(data.data()), kSize), GPEMU_CUDA_SUCCESS);
    ASSERT_EQ(gpemu_cuda_set_memory(second, kSize, 9, 1, kSize, 1, nullptr), GPEMU_CUDA_SUCCESS);
    ASSERT_EQ(gpemu_cuda_copy_memory(&rows, nullptr, 1), GPEMU_CUDA_SUCCESS);
    for (std::size_t i = 0; i < kSize; ++i) expected[i] = i % kPitch == 0 ? data[i] : 9;
    expect(expected, second);
  }
  ASSERT_EQ(gpemu_cuda_free(first), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_free(second), GPEMU_CUDA_SUCCESS);
}

TEST_F(CopyTest, RowsWithoutGapsAreOne) {
  constexpr Bytes kSize = 4 * kGiB;
  const std::uint64_t start = allocate(kSize);
  const std::uint64_t before = memory::memory().contents.changes();
  // As many rows as bytes would take minutes.
  ASSERT_EQ(gpemu_cuda_set_memory(start, 1, 0, 1, 1, kSize, nullptr), GPEMU_CUDA_SUCCESS);
  const gpemu_cuda_copy rows{.destination = start,
                             .source = start + kSize / 2,
                             .width_bytes = 1,
                             .height = kSize / 4,
                             .depth = 2,
                             .destination_pitch = 1,
                             .source_pitch = 1,
                             .destination_plane_pitch = kSize / 4,
                             .source_plane_pitch = kSize / 4,
                             .kind = GPEMU_CUDA_COPY_DEFAULT};
  ASSERT_EQ(gpemu_cuda_copy_memory(&rows, nullptr, 1), GPEMU_CUDA_SUCCESS);
  EXPECT_LE(memory::memory().contents.changes() - before, 2);
  ASSERT_EQ(gpemu_cuda_free(start), GPEMU_CUDA_SUCCESS);
}

TEST_F(CopyTest, SetsEveryElementAndNoOther) {
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

TEST_F(MoverTest, LargeCopiesReturnBeforeTheirBytesAreMoved) {
  copy_async(memory_, bits(from_), kSize);
  copy_async(bits(to_), memory_, kSize);
  gpemu_cuda_event_handle event = nullptr;
  ASSERT_EQ(gpemu_cuda_event_create(0, &event), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_event_record(event, stream_, 0), GPEMU_CUDA_SUCCESS);
  process::clock().wait_until(process::clock().now() + std::chrono::seconds(1));
  EXPECT_EQ(gpemu_cuda_stream_query(stream_), GPEMU_CUDA_ERROR_NOT_READY);
  EXPECT_EQ(gpemu_cuda_event_query(event), GPEMU_CUDA_ERROR_NOT_READY);
  EXPECT_TRUE(all_are(0, kSize, 0));
  streams::mover().resume();
  ASSERT_EQ(gpemu_cuda_event_synchronize(event), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(std::memcmp(to_, from_, kSize), 0);
  EXPECT_EQ(gpemu_cuda_stream_query(stream_), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_event_destroy(event), GPEMU_CUDA_SUCCESS);
}

TEST_F(MoverTest, TakeNoLongerOnTheTimelineThanTheLink) {
  streams::mover().resume();
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
    process::process().settings->drop_data = true;
  }
  process::process().settings->drop_data = false;
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
  kernels::KernelWork sixes;
  sixes.fill_address = memory_ + 20'000;
  sixes.fill_count = 10;
  sixes.fill_value = {std::byte{6}};
  launch::perform(sixes, nullptr);
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
  EXPECT_TRUE(streams::mover().busy());
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
    streams::mover().pause();
    from_[5] = static_cast<std::uint8_t>(way + 1);
    copy_async(memory_, bits(from_), kSize);
    std::thread resumer([] { streams::mover().resume(); });
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
      EXPECT_FALSE(streams::mover().busy());
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
  ASSERT_EQ(gpemu_cuda_vmm_create(0, 2 * kMiB, 1, &handle), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_vmm_reserve(2 * kMiB, 0, 0, &range), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_vmm_map(range, 2 * kMiB, 0, handle), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_vmm_set_access(range, 2 * kMiB, 0, 3), GPEMU_CUDA_SUCCESS);
  copy_async(memory_, bits(registered.data()), 2 * kMiB);
  copy_async(memory_ + 2 * kMiB, bits(pinned), 2 * kMiB);
  copy_async(device, bits(from_), 2 * kMiB);
  copy_async(range, bits(from_), 2 * kMiB);
  std::thread resumer([] { streams::mover().resume(); });
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
  streams::mover().resume();
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
    streams::mover().pause();
    ASSERT_EQ(gpemu_cuda_graph_launch(exec, stream_), GPEMU_CUDA_SUCCESS);
    EXPECT_TRUE(streams::mover().busy());
    synchronize();
    EXPECT_TRUE(all_are(0, 10, 3));
    EXPECT_TRUE(all_are(10, kSize - 10, static_cast<std::uint8_t>(value)));
    EXPECT_EQ(pageable[99], value);
  }
  EXPECT_EQ(gpemu_cuda_exec_destroy(exec), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_graph_destroy(graph), GPEMU_CUDA_SUCCESS);
}

TEST_F(MoverTest, NodesReadPageableMemoryThatHostFunctionsBeforeThemWrote) {
  streams::mover().resume();
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
  streams::mover().resume();
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
  streams::mover().resume();
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

}  // namespace
}  // namespace gpemu::cuda
