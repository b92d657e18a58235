// SPDX-License-Identifier: Apache-2.0
#include "run/summary_text.hpp"

#include <gtest/gtest.h>

#include "gpemu/record/summary.hpp"

namespace gpemu::tools {
namespace {

TEST(SummaryText, BeginsWithTheVerdict) {
  const nlohmann::ordered_json summary = record::summarise({});
  EXPECT_TRUE(
      summary_text(summary, 80).starts_with("gpemu: no CUDA call gave the emulated GPU work\n"));
}

TEST(TimeText, HasFourSignificantDigits) {
  EXPECT_EQ(time_text(1'234'567'890), "1.235 s");
  EXPECT_EQ(time_text(1'234'567'890'000), "1235 s");
  EXPECT_EQ(time_text(12'345'678), "12.35 ms");
  EXPECT_EQ(time_text(1'234), "1.234 us");
  EXPECT_EQ(time_text(0), "0 us");
}

}  // namespace
}  // namespace gpemu::tools
