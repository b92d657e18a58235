// SPDX-License-Identifier: Apache-2.0
#include "gpemu/device/pinned_memory.hpp"

#include <fstream>
#include <string>
#include <sys/resource.h>

#include <gtest/gtest.h>

namespace gpemu::device {
namespace {

/// Returns how much memory this process has locked. Source: proc(5), VmLck of /proc/self/status.
Bytes locked_bytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  Bytes kib = 0;
  while (status >> word) {
    if (word == "VmLck:") status >> kib;
  }
  return kib * kKiB;
}

TEST(PinnedMemory, IsReallyLocked) {
#if defined(GPEMU_SANITIZE_ADDRESS) || defined(GPEMU_SANITIZE_THREAD)
  GTEST_SKIP() << "the sanitizers' runtimes make mlock do nothing";
#endif
  const Bytes before = locked_bytes();
  auto pinned = PinnedMemory::allocate(64 * kKiB);
  ASSERT_TRUE(pinned) << pinned.error().message;
  EXPECT_EQ(pinned->bytes().size(), 64 * kKiB);
  EXPECT_EQ(locked_bytes(), before + 64 * kKiB);
  {
    const PinnedMemory moved = *std::move(pinned);
  }
  EXPECT_EQ(locked_bytes(), before);
}

TEST(PinnedMemory, RefusesZeroBytes) {
  EXPECT_EQ(PinnedMemory::allocate(0).error().code, ErrorCode::kInvalidArgument);
}

TEST(PinnedMemory, RefusesMoreThanTheHostHas) {
  const auto pinned = PinnedMemory::allocate(Bytes{1} << 60);
  EXPECT_EQ(pinned.error().code, ErrorCode::kResourceLimit);
}

}  // namespace
}  // namespace gpemu::device
