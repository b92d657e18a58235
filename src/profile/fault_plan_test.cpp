// SPDX-License-Identifier: Apache-2.0
#include "gpemu/profile/fault_plan.hpp"

#include <array>
#include <string>
#include <string_view>
#include <vector>

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
[[fault]]
kind = "slow-link"
gpu = 0
link = "nvlink"
peer = 3
rate = 0.25
at_s = 1
[[fault]]
kind = "illegal-address"
gpu = 1
at_kernel = 7
)";
  const FaultPlan plan = parse(toml).value();
  EXPECT_EQ(plan.toml, toml);
  ASSERT_EQ(plan.faults.size(), 5U);
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
  EXPECT_EQ(plan.faults[3].kind, FaultKind::kSlowLink);
  EXPECT_EQ(plan.faults[3].link, GpuLink::kNvlink);
  EXPECT_EQ(plan.faults[3].peer, 3);
  EXPECT_EQ(plan.faults[3].rate, 0.25);
  EXPECT_EQ(plan.faults[4].kind, FaultKind::kIllegalAddress);
  EXPECT_EQ(plan.faults[4].at_kernel, 7U);
  EXPECT_EQ(plan.faults[4].at_collective, 0U);
}

TEST(FaultPlan, AnIllegalAddressIsCountedInKernels) {
  EXPECT_EQ(message_about("kind = \"illegal-address\"\ngpu = 1\nat_s = 1\n"), "no error");
  EXPECT_NE(message_about("kind = \"illegal-address\"\ngpu = 1\nat_collective = 1\n")
                .find("unknown key 'at_collective'"),
            std::string::npos);
  EXPECT_NE(message_about("kind = \"kill\"\ngpu = 1\nat_kernel = 1\n").find("unknown key"),
            std::string::npos);
}

TEST(FaultPlan, AGpuWithABrokenPcieLinkIsLost) {
  const auto plan = parse_fault_plan(
      "[[fault]]\nkind = \"broken-link\"\ngpu = 1\nlink = \"nvlink\"\npeer = 2\nat_s = 1\n"
      "[[fault]]\nkind = \"broken-link\"\ngpu = 1\nlink = \"pcie\"\nat_s = 1\n",
      "f.toml", 4);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->faults[0].kind, FaultKind::kBrokenLink);
  EXPECT_EQ(plan->faults[0].peer, 2);
  EXPECT_EQ(plan->faults[1].kind, FaultKind::kLost);
}

TEST(FaultPlan, ALostGpuCanComeBack) {
  const FaultPlan plan =
      parse("[[fault]]\nkind = \"lost\"\ngpu = 3\nat_s = 1\nfor_s = 2\n").value();
  EXPECT_EQ(plan.faults[0].lasts, from_seconds(2));
}

/// Returns what is left of faults of a node of four GPUs for a node with GPUs 3 and 1 of it.
std::vector<Fault> left(std::string_view toml, Duration elapsed) {
  constexpr std::array<std::size_t, 2> kGpus = {3, 1};
  const std::string text = faults_left(parse(toml).value(), kGpus, elapsed);
  if (text.empty()) return {};
  return parse_fault_plan(text, "left", kGpus.size()).value().faults;
}

TEST(FaultPlan, SomeOfTheGpusHaveTheirFaultsUnderNewNumbers) {
  const auto faults = left(
      "[[fault]]\nkind = \"lost\"\ngpu = 3\nat_s = 9.5\nfor_s = 2.5\n"
      "[[fault]]\nkind = \"lost\"\ngpu = 0\nat_s = 9\n"
      "[[fault]]\nkind = \"slow-link\"\ngpu = 1\npeer = 3\nlink = \"nvlink\"\nrate = 0.1\nat_s = "
      "8\n"
      "[[fault]]\nkind = \"broken-link\"\ngpu = 1\npeer = 0\nlink = \"nvlink\"\nat_s = 8\n"
      "[[fault]]\nkind = \"kill\"\ngpu = 1\nat_collective = 5\n"
      "[[fault]]\nkind = \"illegal-address\"\ngpu = 1\nat_kernel = 7\n",
      from_seconds(2));
  ASSERT_EQ(faults.size(), 4U);
  EXPECT_EQ(faults[0].gpu, 0);
  EXPECT_EQ(faults[0].at, from_milliseconds(7500));
  EXPECT_EQ(faults[0].lasts, from_milliseconds(2500));
  EXPECT_EQ(faults[1].gpu, 1);
  EXPECT_EQ(faults[1].peer, 0);
  EXPECT_EQ(faults[1].rate, 0.1);
  EXPECT_EQ(faults[2].at_collective, 5U);
  EXPECT_EQ(faults[3].at_kernel, 7U);
}

TEST(FaultPlan, WhatIsOverIsLeftOut) {
  const std::string toml =
      "[[fault]]\nkind = \"lost\"\ngpu = 3\nat_s = 1\nfor_s = 2\n"
      "[[fault]]\nkind = \"kill\"\ngpu = 3\nat_s = 1\n"
      "[[fault]]\nkind = \"slow\"\ngpu = 1\nat_s = 1\nclock = 0.5\n";
  auto faults = left(toml, from_seconds(1));
  ASSERT_EQ(faults.size(), 3U) << "they begin now";
  faults = left(toml, from_milliseconds(1500));
  ASSERT_EQ(faults.size(), 2U);
  EXPECT_EQ(faults[0].at, Duration());
  EXPECT_EQ(faults[0].lasts, from_milliseconds(1500));
  EXPECT_EQ(faults[1].kind, FaultKind::kSlow);
  faults = left(toml, from_seconds(3));
  ASSERT_EQ(faults.size(), 1U);
  EXPECT_EQ(faults[0].kind, FaultKind::kSlow);
}

TEST(FaultPlan, MessagesNameLineAndKey) {
  const struct {
    std::string_view fault, message;
  } wrong[] = {
      {"gpu = 0\nat_s = 1", "f.toml:1: fault: kind: expected \"slow\", \"lost\", \"kill\", "},
      {"kind = \"broken-link\"\ngpu = 1\nat_s = 1\nlink = \"nvlink\"\nrate = 0.5",
       "f.toml:6: fault: unknown key 'rate'"},
      {"kind = \"broken-link\"\ngpu = 1\nat_s = 1\nlink = \"pcie\"\npeer = 2",
       "f.toml:6: fault: peer: the PCIe link"},
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
      {"kind = \"slow\"\ngpu = 1\nat_s = 1\nclock = 1", "f.toml:5: fault: clock: 1 is all of it"},
      {"kind = \"slow\"\ngpu = 1\nat_s = 1\nclock = 0.5\nfor_s = \"1\"",
       "f.toml:6: fault: for_s: expected a number"},
      {"kind = \"slow-link\"\ngpu = 1\nat_s = 1\nrate = 0.5", "f.toml:1: fault: link: expected"},
      {"kind = \"slow-link\"\ngpu = 1\nat_s = 1\nlink = \"nvlink\"", "f.toml:1: fault: rate:"},
      {"kind = \"slow-link\"\ngpu = 1\nat_s = 1\nlink = \"pcie\"\nrate = 0.5\npeer = 0",
       "f.toml:7: fault: peer: the PCIe link"},
      {"kind = \"slow-link\"\ngpu = 1\nat_s = 1\nlink = \"nvlink\"\nrate = 0.5\npeer = 1",
       "f.toml:7: fault: peer: expected another GPU"},
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
