// SPDX-License-Identifier: Apache-2.0
#include "gpemu/data/storage_device.hpp"

#include <gtest/gtest.h>

namespace gpemu::data {
namespace {

/// 102,400 bytes take 9.216 ms of positioning and 1.024 ms for the bytes.
profile::StorageSpec made_up_disk() {
  return {.name = "disk",
          .sequential_bytes_per_s = 1e8,
          .random = {{.bytes = 102'400, .bytes_per_s = 1e7}},
          .queue = {{.waiting = 2, .positioning = 1}, {.waiting = 8, .positioning = 0.5}}};
}

constexpr Bytes kPart = 102'400;

TimePoint at_us(std::int64_t us) {
  return TimePoint(std::chrono::microseconds(us));
}

TEST(StorageDevice, ServesOneAfterTheOther) {
  sim::VirtualClock clock;
  StorageDevice disk(made_up_disk(), clock);
  EXPECT_EQ(disk.take_on({.file = 1, .bytes = kPart}), at_us(10'240));
  EXPECT_EQ(disk.take_on({.file = 2, .bytes = kPart}), at_us(20'480));
  EXPECT_EQ(disk.take_on({.file = 2, .offset = kPart, .bytes = kPart}), at_us(21'504))
      << "it goes on where the last one ended";
  clock.wait_until(at_us(30'000));
  EXPECT_EQ(disk.take_on({.file = 2, .offset = kPart, .bytes = kPart}), at_us(40'240))
      << "the same place again";
  EXPECT_EQ(disk.totals().reads, 4);
  EXPECT_EQ(disk.totals().bytes, 4 * kPart);
  EXPECT_EQ(disk.totals().busy, std::chrono::microseconds(31'744));
}

TEST(StorageDevice, PositionsFasterWhileMoreWait) {
  sim::VirtualClock clock;
  StorageDevice disk(made_up_disk(), clock);
  EXPECT_EQ(disk.take_on({.file = 1, .bytes = kPart}, 8), at_us(5'632));
  EXPECT_EQ(disk.take_on({.file = 2, .bytes = kPart}), at_us(15'872)) << "two wait";
  for (std::uint64_t i = 3; i < 8; ++i) {
    static_cast<void>(disk.take_on({.file = i, .bytes = kPart}));
  }
  const TimePoint end = disk.take_on({.file = 8, .bytes = kPart});
  EXPECT_EQ(disk.take_on({.file = 9, .bytes = kPart}) - end, std::chrono::microseconds(5'632))
      << "readers that wait for one each count too";
}

TEST(StorageDevice, PositionsSeveralAtOnceButPassesBytesOneByOne) {
  profile::StorageSpec spec = made_up_disk();
  spec.requests_at_once = 2;
  sim::VirtualClock clock;
  StorageDevice disk(spec, clock);
  EXPECT_EQ(disk.take_on({.file = 1, .bytes = kPart}), at_us(10'240));
  EXPECT_EQ(disk.take_on({.file = 2, .bytes = kPart}), at_us(11'264));
  EXPECT_EQ(disk.totals().busy, std::chrono::microseconds(11'264));
}

}  // namespace
}  // namespace gpemu::data
