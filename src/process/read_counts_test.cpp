// SPDX-License-Identifier: Apache-2.0
#include "read_counts.hpp"

#include <array>
#include <cstdint>
#include <span>

#include <gtest/gtest.h>

namespace gpemu::process {
namespace {

constexpr std::uint64_t kAddress = 0x1000;

class ReadCountsTest : public testing::Test {
 protected:
  /// Reads 8 bytes again and again; returns how many of the reads were reported as polling.
  int read(std::uint64_t address, int times, WriterId writer, Bytes bytes = 8) {
    int reported = 0;
    for (int i = 0; i < times; ++i) reported += counts_.add(address, bytes, writer) ? 1 : 0;
    return reported;
  }

  std::array<RecordedRead, 3> totals_;
  ReadCounts counts_{std::span(totals_).first(2)};
  WriterId writer_ = writer_id("gemm");
  WriterId other_ = writer_id("_Z4sortPf");
};

TEST_F(ReadCountsTest, CountsReadsOfEachWriter) {
  read(kAddress, 2, writer_);
  read(kAddress, 1, other_, 100);
  read(kAddress + 8, 1, writer_, 3);
  EXPECT_STREQ(totals_[0].writer, "gemm");
  EXPECT_EQ(totals_[0].count, 3);
  EXPECT_EQ(totals_[0].bytes, 19);
  EXPECT_STREQ(totals_[1].writer, "sort");
  EXPECT_EQ(totals_[1].count, 1);
  EXPECT_EQ(totals_[1].bytes, 100);
}

TEST_F(ReadCountsTest, LeavesOutWritersForWhichThereIsNoRoom) {
  for (const char* const name : {"first", "second", "third", "first"}) {
    read(kAddress, 1, writer_id(name));
  }
  EXPECT_EQ(totals_[0].count, 2);
  EXPECT_STREQ(totals_[1].writer, "second");
  EXPECT_EQ(totals_[1].count, 1);
  EXPECT_EQ(totals_[2].count, 0);
}

TEST_F(ReadCountsTest, ReportsALoopThatReadsTheSameBytesOnce) {
  EXPECT_EQ(read(kAddress, ReadCounts::kPolls - 1, writer_), 0);
  EXPECT_TRUE(counts_.add(kAddress, 8, writer_));
  EXPECT_EQ(read(kAddress, 2 * ReadCounts::kPolls, writer_), 0);
  EXPECT_EQ(read(kAddress, 2 * ReadCounts::kPolls, other_), 0);
}

TEST_F(ReadCountsTest, ReportsAWriterOnceForAllItsAddresses) {
  EXPECT_EQ(read(kAddress, ReadCounts::kPolls, writer_), 1);
  EXPECT_EQ(read(kAddress + 8, ReadCounts::kPolls, writer_), 0);
  EXPECT_EQ(read(kAddress + 16, ReadCounts::kPolls, other_), 1);
}

TEST_F(ReadCountsTest, TakesReadsOfDifferentAddressesForNoLoop) {
  for (int i = 0; i < 2 * ReadCounts::kPolls; ++i) {
    EXPECT_FALSE(counts_.add(kAddress + 8 * static_cast<std::uint64_t>(i), 8, writer_));
  }
}

TEST_F(ReadCountsTest, TakesReadsOfManyBytesForNoLoop) {
  EXPECT_EQ(read(kAddress, ReadCounts::kPolls, writer_, ReadCounts::kPolledBytes + 1), 0);
  EXPECT_EQ(read(kAddress, ReadCounts::kPolls, writer_, ReadCounts::kPolledBytes), 1);
}

TEST_F(ReadCountsTest, ObservesALimitedNumberOfAddresses) {
  for (std::uint64_t i = 0; i < ReadCounts::kMaxAddresses; ++i) read(kAddress + i, 1, writer_);
  EXPECT_EQ(read(kAddress + ReadCounts::kMaxAddresses, ReadCounts::kPolls, writer_), 0);
  EXPECT_EQ(read(kAddress, ReadCounts::kPolls - 1, writer_), 1);
}

}  // namespace
}  // namespace gpemu::process
