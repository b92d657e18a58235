// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/test_world.hpp"

namespace gpemu::tools {
namespace {

class AnalyzeCommandTest : public testing::Test {
 protected:
  AnalyzeCommandTest() {
    const Outcome made = made_up_.run({"data", "make", folder_, "--images", "6", "--classes", "2",
                                       "--size-percentiles", "50:4,99:8", "--threads", "1"});
    GPEMU_CHECK(made.code == 0, "the folder is new");
  }

  [[nodiscard]] Outcome analyze(const std::string& batch) const {
    return made_up_.run({"analyze", "files", folder_, "--gpu", "V100", "--model", "resnet50",
                         "--batch", batch, "--json", "-"});
  }

  TestWorld made_up_;
  const std::string folder_ = (made_up_.folder / "photos").string();
};

TEST_F(AnalyzeCommandTest, SeesNoStallIfLoadingTakesNoTime) {
  const Outcome outcome = analyze("2");
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const nlohmann::json result = parsed(outcome.output);
  const double compute_ms = result["profile_step_ms"]["forward"].get<double>() +
                            result["profile_step_ms"]["backward_optimizer"].get<double>();
  const double copy_ms = result["profile_step_ms"]["copy"];
  EXPECT_DOUBLE_EQ(result["passes"]["ingestion"]["step_ms"], compute_ms);
  EXPECT_DOUBLE_EQ(result["passes"]["copying"]["step_ms"], compute_ms + copy_ms);
  EXPECT_EQ(result["passes"]["cached"]["step_ms"], result["passes"]["copying"]["step_ms"]);
  EXPECT_EQ(result["passes"]["cold"]["step_ms"], result["passes"]["copying"]["step_ms"]);
  EXPECT_EQ(result["passes"]["cold"]["steps"], 3);
  EXPECT_EQ(result["verdict"],
            "limited by the GPU: the data path keeps up even when it reads from storage");
}

TEST_F(AnalyzeCommandTest, TellsTheStallsOfADescribedHostInVirtualTime) {
  // On batches of 2, a worker takes 20 s to prepare and 8 s to read.
  const std::string host = made_up_.write("slow.toml", slow_host(10000, R"([[storage]]
name = "disk"
access_ms = 4000
mb_per_s = 1000000
source = "s"
)"));
  const Outcome outcome =
      made_up_.run({"analyze", "host", host, "--data", folder_, "--gpu", "V100", "--model",
                    "resnet50", "--batch", "2", "--workers", "1", "--json", "-"});
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const nlohmann::json result = parsed(outcome.output);
  EXPECT_NEAR(result["passes"]["cached"]["step_ms"].get<double>(), 20'000, 200);
  EXPECT_NEAR(result["passes"]["cold"]["step_ms"].get<double>(), 28'000, 200);
  EXPECT_NEAR(result["fetch_stall"].get<double>(), 8.0 / 28, 0.01);
  EXPECT_EQ(result["data"]["images"], 6);
}

TEST_F(AnalyzeCommandTest, NeedsTwoBatches) {
  EXPECT_EQ(analyze("4"),
            (Outcome{2, "",
                     fmt::format("gpemu: a pass needs at least two batches to measure a step: {} "
                                 "holds 1 batches of 4\n",
                                 folder_)}));
}

}  // namespace
}  // namespace gpemu::tools
