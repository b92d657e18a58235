// SPDX-License-Identifier: Apache-2.0
#include "gpemu/report/provenance.hpp"

#include <gtest/gtest.h>

namespace gpemu::report {
namespace {

TEST(Provenance, HasTheTimeThatItIsGivenInUtc) {
  const auto time = std::chrono::sys_days{std::chrono::year{2026} / 11 / 22} +
                    std::chrono::hours(8) + std::chrono::minutes(5) + std::chrono::seconds(9);
  const Provenance provenance = provenance_at(time);
  EXPECT_EQ(provenance.date, "2026-11-22T08:05:09Z");
  EXPECT_FALSE(provenance.command.empty());
  EXPECT_FALSE(provenance.load);
}

TEST(ShellLine, QuotesWhatAShellWouldNotTakeAsItIs) {
  EXPECT_EQ(shell_line({"gpemu", "--gpu=V100:2", "my data", "it's", "", "$(x)"}),
            R"(gpemu --gpu=V100:2 'my data' 'it'\''s' '' '$(x)')");
}

TEST(ProvenanceJson, HasNoLoadWhereNoneWasMeasured) {
  Provenance provenance{.date = "2026-11-22T08:05:09Z", .command = {"gpemu", "cost"}};
  provenance.host.cores = 2;
  nlohmann::ordered_json json;
  add_provenance(json, provenance);
  EXPECT_EQ(json["date"], "2026-11-22T08:05:09Z");
  EXPECT_EQ(json["command"][1], "cost");
  EXPECT_TRUE(json["host"]["load"].is_null());
  provenance.load = HostLoad{.elapsed = std::chrono::seconds(1), .queued = {}};
  add_provenance(json, provenance);
  EXPECT_TRUE(json["host"]["load"]["queued_s"].is_null());
  EXPECT_EQ(json["host"]["load"]["elapsed_s"], 1.0);
}

}  // namespace
}  // namespace gpemu::report
