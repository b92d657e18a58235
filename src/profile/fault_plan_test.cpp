// SPDX-License-Identifier: Apache-2.0
#include "gpemu/profile/fault_plan.hpp"

#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace gpemu::profile {
namespace {

Result<FaultPlan> parse(std::string_view toml) {
  return parse_fault_plan(toml, "f.toml", 4);
}

/// Returns the message about a file of one fault, which begins in line 1.
std::string message_about(std::string_view fault) {
  const auto plan = parse(fmt::format("[[fault]]\n{}", fault));
  return plan ? "no error" : plan.error().message;
}

TEST(FaultPlan, ReadsEachKind) {
  const std::string toml = R"(
[[fault]]
kind = "slow"
gpu = 2
clock = 0.5
at_s = 1.5
for_s = 3
[[fault]]
kind = "lost"
gpu = 3
at_s = 0
[[fault]]
kind = "kill"
gpu = 0
at_collective = 5
)";
  const FaultPlan plan = parse(toml).value();
  EXPECT_EQ(plan.toml, toml);
  ASSERT_EQ(plan.faults.size(), 3U);
  EXPECT_EQ(plan.faults[0].kind, FaultKind::kSlow);
  EXPECT_EQ(plan.faults[0].gpu, 2);
  EXPECT_EQ(plan.faults[0].clock, 0.5);
  EXPECT_EQ(plan.faults[0].at, from_milliseconds(1500));
  EXPECT_EQ(plan.faults[0].at_collective, 0U);
  EXPECT_EQ(plan.faults[0].lasts, from_seconds(3));
  EXPECT_EQ(plan.faults[1].kind, FaultKind::kLost);
  EXPECT_EQ(plan.faults[1].at, Duration());
  EXPECT_EQ(plan.faults[2].kind, FaultKind::kKill);
  EXPECT_EQ(plan.faults[2].at_collective, 5U);
  EXPECT_EQ(plan.faults[2].lasts, std::nullopt);
}

TEST(FaultPlan, MessagesNameLineAndKey) {
  const struct {
    std::string_view fault, message;
  } wrong[] = {
      {"gpu = 0\nat_s = 1", "f.toml:1: fault: kind: expected \"slow\", \"lost\" or \"kill\""},
      {"kind = \"fire\"\ngpu = 0", "f.toml:2: fault: kind: expected \"slow\""},
      {"kind = \"kill\"\nat_s = 1", "f.toml:1: fault: gpu: expected a whole number from 0 to 3"},
      {"kind = \"kill\"\ngpu = 4\nat_s = 1", "f.toml:3: fault: gpu: expected a whole number"},
      {"kind = \"kill\"\ngpu = 1", "f.toml:1: fault: at_s: expected either at_s or at_collective"},
      {"kind = \"kill\"\ngpu = 1\nat_s = 1\nat_collective = 1", "f.toml:4: fault: at_s: expected"},
      {"kind = \"kill\"\ngpu = 1\nat_collective = 0", "f.toml:4: fault: at_collective: expected"},
      {"kind = \"kill\"\ngpu = 1\nat_s = -1", "f.toml:4: fault: at_s: expected a number from 0"},
      {"kind = \"kill\"\ngpu = 1\nat_s = nan", "f.toml:4: fault: at_s: expected a number"},
      {"kind = \"kill\"\ngpu = 1\nat_s = true", "f.toml:4: fault: at_s: expected a number"},
      {"kind = \"kill\"\ngpu = 1\nat_s = 1\nclock = 0.5", "f.toml:5: fault: unknown key 'clock'"},
      {"kind = \"slow\"\ngpu = 1\nat_s = 1", "f.toml:1: fault: clock: expected a number"},
      {"kind = \"slow\"\ngpu = 1\nat_s = 1\nclock = 0", "f.toml:5: fault: clock: expected"},
      {"kind = \"slow\"\ngpu = 1\nat_s = 1\nclock = 1", "f.toml:5: fault: clock: a GPU with 1"},
      {"kind = \"slow\"\ngpu = 1\nat_s = 1\nclock = 0.5\nfor_s = \"1\"",
       "f.toml:6: fault: for_s: expected a number"},
  };
  for (const auto& [fault, message] : wrong) {
    EXPECT_TRUE(message_about(fault).starts_with(message)) << message_about(fault);
  }
}

TEST(FaultPlan, AFileHasNothingButFaults) {
  const auto message = [](std::string_view toml) { return parse(toml).error().message; };
  EXPECT_TRUE(message("").starts_with("f.toml:")) << message("");
  EXPECT_TRUE(message("\nfaults = 1").starts_with("f.toml:2: faults: unknown key"));
  EXPECT_TRUE(message("fault = 1").starts_with("f.toml:1: fault: expected a table [[fault]]"));
  EXPECT_TRUE(message("fault = [1]").starts_with("f.toml:1: fault: expected a table [[fault]]"));
  EXPECT_TRUE(message("[[fault]\n").starts_with("f.toml:1:"));
}

TEST(FaultPlan, ANodeHasAtMostSoMany) {
  std::string toml;
  for (std::size_t i = 0; i < kMostFaults; ++i) {
    toml += "[[fault]]\nkind = \"kill\"\ngpu = 1\nat_s = 1\n";
  }
  EXPECT_EQ(parse(toml).value().faults.size(), kMostFaults);
  toml += "[[fault]]\nkind = \"kill\"\ngpu = 1\nat_s = 1\n";
  EXPECT_TRUE(parse(toml).error().message.contains("at most 64 faults"));
}

TEST(FaultPlan, AFileThatIsMissingIsNamed) {
  EXPECT_TRUE(
      load_fault_plan("no-such-faults.toml", 1).error().message.contains("no-such-faults.toml"));
}

}  // namespace
}  // namespace gpemu::profile
