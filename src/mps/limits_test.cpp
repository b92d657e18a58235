// SPDX-License-Identifier: Apache-2.0
#include "gpemu/mps/limits.hpp"

#include <limits>
#include <string>

#include <gtest/gtest.h>

namespace gpemu::mps {
namespace {

TEST(MpsLimits, PercentagesAreAboveZeroAndUpToAHundred) {
  EXPECT_EQ(parse_percentage("50").value(), 50);
  EXPECT_EQ(parse_percentage("12.5").value(), 12.5);
  EXPECT_EQ(parse_percentage("100").value(), 100);
  for (const std::string text : {"", "0", "-1", "100.1", "50%", "x", "nan", "inf", "1e999"}) {
    EXPECT_FALSE(parse_percentage(text)) << text;
  }
  EXPECT_EQ(percentage_text(50), "50.0");
}

TEST(MpsLimits, MultiprocessorsAreRoundedDown) {
  EXPECT_EQ(multiprocessors_of(100, 80), 80);
  EXPECT_EQ(multiprocessors_of(50, 132), 66);
  EXPECT_EQ(multiprocessors_of(33, 80), 26);
  EXPECT_EQ(multiprocessors_of(25, 132), 32) << "in pairs";
  EXPECT_EQ(multiprocessors_of(0.5, 80), 2) << "at least one pair";
  EXPECT_EQ(multiprocessors_of(50, 1), 1) << "not more than there are";
}

TEST(MpsLimits, SizesHaveUnits) {
  EXPECT_EQ(parse_size("4G").value(), 4 * kGiB);
  EXPECT_EQ(parse_size("4096M").value(), 4 * kGiB);
  EXPECT_EQ(parse_size("512K").value(), 512 * kKiB);
  EXPECT_EQ(parse_size("1048576").value(), kMiB);
  for (const std::string text :
       {"", "G", "4T", "4GB", "-4G", "1.5G", "18446744073709551616", "18014398509481984G"}) {
    EXPECT_FALSE(parse_size(text)) << text;
  }
}

TEST(MpsLimits, MemoryIsLimitedByDevice) {
  const auto memory = parse_device_memory("0=4G,1=1024M,GPU-1=7");
  ASSERT_TRUE(memory) << memory.error().message;
  EXPECT_EQ(device_memory_text(*memory), "0=4294967296,1=1073741824,GPU-1=7");
  EXPECT_EQ(parse_device_memory(device_memory_text(*memory)).value(), *memory);
  for (const std::string text : {"", "0", "0=", "=4G", "0=4G,", "0:4G"}) {
    EXPECT_FALSE(parse_device_memory(text)) << text;
  }
}

TEST(MpsLimits, AClientCanOnlyTightenThem) {
  const Limits server{.active_thread_percentage = 50, .device_memory = {{"0", 8}, {"1", 4}}};
  const Limits client{.active_thread_percentage = 80, .device_memory = {{"0", 6}, {"1", 9}}};
  const Limits both = server.tightened(client);
  EXPECT_EQ(both.active_thread_percentage, 50);
  EXPECT_EQ(both.memory_of(0, "GPU-0"), 6U);
  EXPECT_EQ(both.memory_of(1, "GPU-1"), 4U);
  EXPECT_EQ(both.memory_of(2, "GPU-2"), std::numeric_limits<Bytes>::max());
  EXPECT_EQ(server.tightened({.active_thread_percentage = 100, .device_memory = {{"GPU-0", 3}}})
                .memory_of(0, "GPU-0"),
            3U);
}

}  // namespace
}  // namespace gpemu::mps
