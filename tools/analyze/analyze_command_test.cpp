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
    return made_up_.run({"analyze", "--gpu", "V100", "--model", "resnet50", "--batch", batch,
                         "--data", folder_, "--json", "-"});
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

TEST_F(AnalyzeCommandTest, NeedsTwoBatches) {
  EXPECT_EQ(analyze("4"),
            (Outcome{2, "",
                     fmt::format("gpemu: a pass needs at least two batches to measure a step: {} "
                                 "holds 1 batches of 4\n",
                                 folder_)}));
}

}  // namespace
}  // namespace gpemu::tools
