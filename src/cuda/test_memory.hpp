// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include <gtest/gtest.h>

#include "gpemu/base/units.hpp"
#include "gpemu/cuda.h"
#include "gpemu/streams/mover.hpp"

#include "test_gpu.hpp"

namespace gpemu::cuda {

/// Memory of one emulated V100.
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
    streams::mover().pause();
  }
  void TearDown() override {
    streams::mover().resume();
    EXPECT_EQ(gpemu_cuda_stream_destroy(stream_), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(gpemu_cuda_free(memory_), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(gpemu_cuda_host_free(from_), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(gpemu_cuda_host_free(to_), GPEMU_CUDA_SUCCESS);
    EXPECT_FALSE(streams::mover().busy());
  }
  void copy_async(std::uint64_t to, std::uint64_t from, Bytes bytes) {
    EXPECT_EQ(gpemu_cuda_memcpy(to, from, bytes, GPEMU_CUDA_COPY_DEFAULT, stream_, 0),
              GPEMU_CUDA_SUCCESS);
  }
  void set_async(std::uint64_t address, std::uint32_t value, Bytes bytes) {
    EXPECT_EQ(gpemu_cuda_set_memory(address, 0, value, 1, bytes, 1, stream_), GPEMU_CUDA_SUCCESS);
  }
  void synchronize() {
    streams::mover().resume();
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

}  // namespace gpemu::cuda
