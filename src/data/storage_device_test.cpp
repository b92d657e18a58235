// SPDX-License-Identifier: Apache-2.0
#include "gpemu/data/storage_device.hpp"

#include <gtest/gtest.h>

namespace gpemu::data {
namespace {

/// 100,000 bytes take 9 ms for the access and 1 ms for the bytes.
profile::StorageSpec made_up_disk() {
  return {.name = "disk",
          .access_s = 9e-3,
          .bytes_per_s = 1e8,
          .access_by_depth = {{{1, 1}, {2, 1}, {8, 0.5}}}};
}

constexpr Bytes kPart = 100'000;

TimePoint at_us(std::int64_t us) {
  return TimePoint(std::chrono::microseconds(us));
}

TEST(StorageDevice, ServesOneAfterTheOther) {
  sim::VirtualClock clock;
  StorageDevice disk(made_up_disk(), clock);
  EXPECT_EQ(disk.take_on({.file = 1, .bytes = kPart}), at_us(10'000));
  EXPECT_EQ(disk.take_on({.file = 2, .bytes = kPart}), at_us(20'000));
  EXPECT_EQ(disk.take_on({.file = 2, .offset = kPart, .bytes = kPart}), at_us(21'000))
      << "it goes on where the last one ended";
  clock.wait_until(at_us(30'000));
  EXPECT_EQ(disk.take_on({.file = 2, .offset = kPart, .bytes = kPart}), at_us(40'000))
      << "the same place again";
  EXPECT_EQ(disk.totals().reads, 4);
  EXPECT_EQ(disk.totals().bytes, 4 * kPart);
  EXPECT_EQ(disk.totals().busy, std::chrono::microseconds(31'000));
}

TEST(StorageDevice, AccessesAreFasterWhileMoreWait) {
  sim::VirtualClock clock;
  StorageDevice disk(made_up_disk(), clock);
  EXPECT_EQ(disk.take_on({.file = 1, .bytes = kPart}, 8), at_us(5'500));
  EXPECT_EQ(disk.take_on({.file = 2, .bytes = kPart}), at_us(15'500)) << "two wait";
  for (std::uint64_t i = 3; i < 8; ++i) {
    static_cast<void>(disk.take_on({.file = i, .bytes = kPart}));
  }
  const TimePoint end = disk.take_on({.file = 8, .bytes = kPart});
  EXPECT_EQ(disk.take_on({.file = 9, .bytes = kPart}) - end, std::chrono::microseconds(5'500))
      << "readers that wait for one each count too";
}

TEST(StorageDevice, OverlapsAccessesButPassesBytesOneByOne) {
  profile::StorageSpec spec = made_up_disk();
  spec.requests_at_once = 10;
  sim::VirtualClock clock;
  StorageDevice disk(spec, clock);
  EXPECT_EQ(disk.take_on({.file = 1, .bytes = kPart}), at_us(10'000));
  EXPECT_EQ(disk.take_on({.file = 2, .bytes = kPart}), at_us(11'000));
  EXPECT_EQ(disk.totals().busy, std::chrono::microseconds(2'000));
}

}  // namespace
}  // namespace gpemu::data
