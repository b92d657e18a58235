// SPDX-License-Identifier: Apache-2.0
#include "gpemu/device/process_priority.hpp"

#include <gtest/gtest.h>

namespace gpemu::device {
namespace {

Result<ProcessPriority> read(const char* value) {
  return process_priority([value](const char* /*name*/) { return value; });
}

TEST(ProcessPriorityVariable, HasThreeValues) {
  EXPECT_EQ(read("high").value(), ProcessPriority::kHigh);
  EXPECT_EQ(read("normal").value(), ProcessPriority::kNormal);
  EXPECT_EQ(read("low").value(), ProcessPriority::kLow);
}

TEST(ProcessPriorityVariable, IsNormalWhenItIsNotSet) {
  EXPECT_EQ(read(nullptr).value(), ProcessPriority::kNormal);
  EXPECT_EQ(read("").value(), ProcessPriority::kNormal);
}

TEST(ProcessPriorityVariable, OtherValuesAreRefusedByName) {
  const auto refused = read("urgent");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "GPEMU_GPU_PRIORITY is \"urgent\", not a priority: give high, normal or low");
}

}  // namespace
}  // namespace gpemu::device
