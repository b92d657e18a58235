// SPDX-License-Identifier: Apache-2.0
#include "gpemu/memory/stale_pages.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <sys/mman.h>

#include <gtest/gtest.h>

namespace gpemu::memory {
namespace {

class StalePagesTest : public testing::Test {
 protected:
  static constexpr Bytes kSize = kMiB;
  void SetUp() override {
    void* const mapped =
        ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(mapped, MAP_FAILED);
    memory_ = {static_cast<std::byte*>(mapped), kSize};
    std::ranges::fill(memory_, std::byte{7});
  }
  void TearDown() override { ::munmap(memory_.data(), memory_.size()); }
  [[nodiscard]] std::uint64_t start() const {
    return reinterpret_cast<std::uint64_t>(memory_.data());
  }
  /// Returns whether all bytes of a part have a value.
  [[nodiscard]] bool is(Bytes offset, Bytes bytes, int value) const {
    return std::ranges::all_of(memory_.subspan(offset, bytes),
                               [value](std::byte byte) { return byte == std::byte(value); });
  }
  std::span<std::byte> memory_;
  StalePages pages_;
};

TEST_F(StalePagesTest, GivesBackWhatWasAddedAndNothingElse) {
  pages_.add(start() + 1000, 300'000);
  pages_.add(start() + 200'000, 200'000);
  EXPECT_EQ(pages_.bytes(), 399'000U);
  pages_.remove(start() + 5000, 100);
  EXPECT_EQ(pages_.bytes(), 398'900U);
  EXPECT_TRUE(is(0, kSize, 7));
  pages_.give_back(start(), 250'000);
  EXPECT_TRUE(is(0, 1000, 7));
  EXPECT_TRUE(is(1000, 4000, 0));
  EXPECT_TRUE(is(5000, 100, 7));
  EXPECT_TRUE(is(5100, 250'000 - 5100, 0));
  EXPECT_TRUE(is(250'000, kSize - 250'000, 7));
  EXPECT_EQ(pages_.bytes(), 150'000U);
  pages_.give_back(start(), kSize);
  EXPECT_TRUE(is(250'000, 150'000, 0));
  EXPECT_TRUE(is(400'000, kSize - 400'000, 7));
  EXPECT_EQ(pages_.bytes(), 0U);
}

TEST_F(StalePagesTest, KeepsNoMoreThanItMay) {
  // The same memory counts once.
  for (Bytes i = 0; i <= StalePages::kMostBytes / kSize; ++i) pages_.add(start(), kSize);
  EXPECT_EQ(pages_.bytes(), kSize);
  EXPECT_TRUE(is(0, kSize, 7));
  constexpr Bytes kMore = StalePages::kMostBytes;
  void* const more = ::mmap(nullptr, kMore, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(more, MAP_FAILED);
  pages_.add(reinterpret_cast<std::uint64_t>(more), kMore);
  EXPECT_EQ(pages_.bytes(), 0U);
  EXPECT_TRUE(is(0, kSize, 0));
  ::munmap(more, kMore);
}

}  // namespace
}  // namespace gpemu::memory
