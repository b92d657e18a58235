// SPDX-License-Identifier: Apache-2.0
#include "gpemu/step/recorded_memory.hpp"

#include <gtest/gtest.h>

namespace gpemu::step {
namespace {

TEST(RecordedMemory, CountsTensorsAsPyTorchDoes) {
  EXPECT_EQ(allocated_bytes(0), 0U);
  EXPECT_EQ(allocated_bytes(1), 512U);
  EXPECT_EQ(allocated_bytes(512), 512U);
  EXPECT_EQ(allocated_bytes(513), 1024U);
  // Cut from a shared segment: nothing is wasted.
  EXPECT_EQ(allocated_bytes(9 * kMiB + 1), 9 * kMiB + 512);
  EXPECT_EQ(allocated_bytes(10 * kMiB - 512), 10 * kMiB - 512);
  // Its own segment, in steps of 2 MiB; a rest of 1 MiB or less is not split off.
  EXPECT_EQ(allocated_bytes(10 * kMiB), 10 * kMiB);
  EXPECT_EQ(allocated_bytes(11 * kMiB - 512), 11 * kMiB - 512);
  EXPECT_EQ(allocated_bytes(11 * kMiB), 12 * kMiB);
  EXPECT_EQ(allocated_bytes(12 * kMiB - 1), 12 * kMiB);
}

TEST(RecordedMemory, IsThatOfTheFullestMoment) {
  const RecordedMemory memory{
      .fullest = {{{.count = 2, .bytes = {5120, 0}}},
                  {{.count = 1, .bytes = {0, 1024}}, {.count = 3, .bytes = {0, 512}}}},
      .after = {{.count = 1, .bytes = {100, 512}}}};
  EXPECT_EQ(allocated_at(memory, 1).peak, 10240U);
  EXPECT_EQ(allocated_at(memory, 4).peak, 10240U);
  EXPECT_EQ(allocated_at(memory, 5).peak, 5U * (1024 + 3 * 512));
  EXPECT_EQ(allocated_at(memory, 5).persistent, 3072U);  // 2660 bytes.
}

}  // namespace
}  // namespace gpemu::step
