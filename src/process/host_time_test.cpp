// SPDX-License-Identifier: Apache-2.0
#include "host_time.hpp"

#include <cstdint>

#include <gtest/gtest.h>

namespace gpemu::process {
namespace {

class HostTimeTest : public testing::Test {
 protected:
  void SetUp() override {
    used_ = 5'000'000;
    samples_ = 0;
  }

  void sample_at(std::int64_t now) { host_.sample(now, processor_time); }

  void expect_parts(std::int64_t gap, std::int64_t now, std::int64_t computing,
                    std::int64_t blocked) {
    const HostTime::Parts parts = host_.divide(gap, now, processor_time);
    EXPECT_EQ(parts.computing, computing);
    EXPECT_EQ(parts.blocked, blocked);
  }

  static std::int64_t processor_time() {
    ++samples_;
    return used_;
  }

  static inline std::int64_t used_ = 0;  ///< the thread's CPU time.
  static inline int samples_ = 0;        ///< how often it was asked for.
  HostTime host_;
};

TEST_F(HostTimeTest, DividesAGapByTheCpuTimeSinceTheLastSample) {
  sample_at(1'000'000);
  used_ += 300'000;
  expect_parts(200'000, 1'400'000, 150'000, 50'000);  // 300 of 400 us.
  used_ += 20'000;
  expect_parts(60'000, 1'500'000, 12'000, 48'000);  // 20 of 100 us since then.
}

TEST_F(HostTimeTest, CountsAShortGapAsComputingWithoutASample) {
  sample_at(1'000'000);
  expect_parts(HostTime::kShortGap, 1'400'000, HostTime::kShortGap, 0);
  EXPECT_EQ(samples_, 1);
  expect_parts(HostTime::kShortGap + 1, 1'500'000, 0, HostTime::kShortGap + 1);
  EXPECT_EQ(samples_, 2);
}

TEST_F(HostTimeTest, CountsNothingBeforeTheFirstSample) {
  expect_parts(200'000, 1'400'000, 0, 0);
  used_ += 50'000;
  expect_parts(100'000, 1'500'000, 50'000, 50'000);  // The gap before took a sample.
}

TEST_F(HostTimeTest, CountsNothingIfNoTimeHasPassedSinceTheLastSample) {
  sample_at(1'400'000);
  expect_parts(200'000, 1'400'000, 0, 0);
  expect_parts(200'000, 1'300'000, 0, 0);  // A thread asked that read the clock earlier.
}

TEST_F(HostTimeTest, CountsNoMoreThanTheGap) {
  sample_at(1'000'000);
  used_ += 500'000;  // More than 400 us, because the clocks differ.
  expect_parts(200'000, 1'400'000, 200'000, 0);
}

TEST_F(HostTimeTest, CountsAWaitForLateBytesAsBlockedOnce) {
  sample_at(1'000'000);
  used_ += 400'000;
  host_.add_late_wait(30'000);
  host_.add_late_wait(20'000);
  expect_parts(200'000, 1'400'000, 150'000, 50'000);
  expect_parts(10'000, 1'410'000, 10'000, 0);
}

TEST_F(HostTimeTest, CountsNoMoreOfALateWaitThanTheGap) {
  host_.add_late_wait(30'000);
  expect_parts(20'000, 1'400'000, 0, 20'000);
  expect_parts(20'000, 1'500'000, 20'000, 0);
}

TEST_F(HostTimeTest, SamplesAgainOnlyWhenTheLastSampleIsOld) {
  sample_at(1'000'000);
  used_ += 400'000;
  host_.sample_if_old(1'000'000 + HostTime::kSamplePeriod, processor_time);
  EXPECT_EQ(samples_, 1);
  host_.sample_if_old(1'000'001 + HostTime::kSamplePeriod, processor_time);
  EXPECT_EQ(samples_, 2);
  expect_parts(200'000, 2'400'001, 0, 200'000);  // What it computed is before the new sample.
}

}  // namespace
}  // namespace gpemu::process
