// SPDX-License-Identifier: Apache-2.0
#include "gpemu/device/compute_shares.hpp"

#include <map>
#include <string>

#include <gtest/gtest.h>

namespace gpemu::device {
namespace {

using Variables = std::map<std::string, std::string>;

Result<ComputeShares> read(const Variables& variables) {
  return ComputeShares::read([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

/// Returns the part in per cent, negative if it is a cap.
double percent_of(const Variables& variables, int index = 0) {
  const ComputeShare share = read(variables).value().of(index);
  return share.part * (share.capped ? -100.0 : 100.0) / kWholeWidth;
}

TEST(ComputeShares, AreSharesOrLimits) {
  EXPECT_EQ(percent_of({}), 0);
  EXPECT_EQ(percent_of({{"GPEMU_GPU_SHARE", "0.5"}}), 50);
  EXPECT_EQ(percent_of({{"GPEMU_GPU_LIMIT", "0.25"}}), -25);
  EXPECT_EQ(percent_of({{"GPEMU_GPU_LIMIT", "1"}}), -100);
  EXPECT_EQ(percent_of({{"GPEMU_GPU_LIMIT", "1e-9"}}), -0.01) << "the least";
}

TEST(ComputeShares, AreThoseOfHami) {
  const Variables hami = {{"CUDA_DEVICE_SM_LIMIT", "30"}, {"CUDA_DEVICE_SM_LIMIT_1", "60"}};
  EXPECT_EQ(percent_of(hami), -30);
  EXPECT_EQ(percent_of(hami, 1), -60);
  EXPECT_EQ(percent_of(hami, 99), -30);
  EXPECT_TRUE(read({{"CUDA_DEVICE_SM_LIMIT_1", "60"}}).value().any());
  EXPECT_FALSE(read({{"CUDA_DEVICE_SM_LIMIT_1", "100"}}).value().any());
  for (const char* none : {"0", "100", ""}) {
    EXPECT_EQ(percent_of({{"CUDA_DEVICE_SM_LIMIT", none}}), 0);
  }
  Variables off = hami;
  off["GPU_CORE_UTILIZATION_POLICY"] = "DISABLE";
  EXPECT_EQ(percent_of(off), 0);
  EXPECT_EQ(percent_of(off, 1), 0);
  // Ours count instead.
  Variables both = hami;
  both["GPEMU_GPU_SHARE"] = "0.1";
  EXPECT_EQ(percent_of(both, 1), 10);
}

TEST(ComputeShares, HaveATenant) {
  EXPECT_EQ(read({}).value().of(0).tenant, 0);
  const auto shares = read({{"GPEMU_TENANT", "64"}, {"CUDA_DEVICE_SM_LIMIT_1", "20"}}).value();
  EXPECT_EQ(shares.of(0).tenant, 64);
  EXPECT_EQ(shares.of(0).part, 0U);
  EXPECT_EQ(shares.of(1).tenant, 64);
}

TEST(ComputeShares, NameTheVariableAtFault) {
  for (const auto* const text : {"0", "1.5", "-0.5", "half", "nan"}) {
    const auto wrong = read({{"GPEMU_GPU_SHARE", text}});
    ASSERT_FALSE(wrong);
    EXPECT_TRUE(wrong.error().message.starts_with("GPEMU_GPU_SHARE is ")) << wrong.error().message;
  }
  for (const auto* const text : {"101", "-1", "30%"}) {
    const auto wrong = read({{"CUDA_DEVICE_SM_LIMIT_3", text}});
    ASSERT_FALSE(wrong);
    EXPECT_TRUE(wrong.error().message.starts_with("CUDA_DEVICE_SM_LIMIT_3 is "))
        << wrong.error().message;
  }
  for (const auto* const text : {"0", "65", "256", "-1", "a", "1b"}) {
    const auto wrong = read({{"GPEMU_TENANT", text}});
    ASSERT_FALSE(wrong);
    EXPECT_TRUE(wrong.error().message.starts_with("GPEMU_TENANT is ")) << wrong.error().message;
  }
  EXPECT_NE(read({{"GPEMU_GPU_SHARE", "0.5"}, {"GPEMU_GPU_LIMIT", "0.5"}})
                .error()
                .message.find("are both set"),
            std::string::npos);
}

}  // namespace
}  // namespace gpemu::device
