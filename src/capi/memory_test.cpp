// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <sys/mman.h>

#include <gtest/gtest.h>

#include "gpemu/gpemu.h"

#include "test_node.hpp"

namespace {

TEST_F(CApi, RunsOutOfMemoryWhereTheDeviceDoes) {
  uint64_t address = 0;
  EXPECT_EQ(gpemu_device_allocate(device_, 33ULL << 30, &address), GPEMU_ERROR_OUT_OF_MEMORY);
  EXPECT_NE(std::string(gpemu_last_error()).find("V100"), std::string::npos);
  EXPECT_EQ(address, 0U) << "untouched on failure";
  ASSERT_EQ(gpemu_device_allocate(device_, 1ULL << 30, &address), GPEMU_OK);
  EXPECT_STREQ(gpemu_last_error(), "");
  uint64_t free_bytes = 0;
  uint64_t total_bytes = 0;
  ASSERT_EQ(gpemu_device_memory(device_, &free_bytes, &total_bytes), GPEMU_OK);
  EXPECT_EQ(total_bytes - free_bytes, 1ULL << 30);
  EXPECT_EQ(gpemu_device_free(device_, address), GPEMU_OK);
  EXPECT_EQ(gpemu_device_free(device_, address), GPEMU_ERROR_INVALID_ARGUMENT);
}

TEST(CApiPinned, GivesBackByAddress) {
  void* memory = nullptr;
  ASSERT_EQ(gpemu_pinned_allocate(65536, &memory), GPEMU_OK) << gpemu_last_error();
  static_cast<char*>(memory)[65536 - 1] = 1;
  EXPECT_EQ(gpemu_pinned_free(static_cast<char*>(memory) + 1), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpemu_pinned_free(memory), GPEMU_OK);
  EXPECT_EQ(gpemu_pinned_free(memory), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpemu_pinned_free(nullptr), GPEMU_OK);
}

TEST(CApiPinned, LocksMemoryOfTheCaller) {
#if defined(GPEMU_SANITIZE_ADDRESS) || defined(GPEMU_SANITIZE_THREAD)
  GTEST_SKIP() << "the sanitizers' runtimes make mlock do nothing";
#endif
  const auto locked_kib = [] {
    std::ifstream status("/proc/self/status");
    std::string word;
    while (status >> word && word != "VmLck:") {
    }
    long kib = -1;
    status >> kib;
    return kib;
  };
  constexpr std::size_t kBytes = 65536;
  void* const memory =
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const long before = locked_kib();
  ASSERT_EQ(gpemu_pinned_lock(memory, kBytes), GPEMU_OK) << gpemu_last_error();
  EXPECT_EQ(locked_kib() - before, 64);
  ::munmap(memory, kBytes);
  EXPECT_EQ(locked_kib(), before);
  EXPECT_EQ(gpemu_pinned_lock(memory, 0), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpemu_pinned_lock(nullptr, kBytes), GPEMU_ERROR_INVALID_ARGUMENT);
}

}  // namespace
