// SPDX-License-Identifier: Apache-2.0
#include "analyze/analyze_report.hpp"

#include <gtest/gtest.h>

namespace gpemu::tools {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): literals only.

constexpr StallPasses kPasses{.ingestion = 60ms, .copying = 80ms, .cached = 100ms, .cold = 200ms};

TEST(StallPasses, TakesDifferencesOfPasses) {
  EXPECT_DOUBLE_EQ(kPasses.copy_share(), 0.25);
  EXPECT_DOUBLE_EQ(kPasses.prep_stall(), 0.2);
  EXPECT_DOUBLE_EQ(kPasses.fetch_stall(), 0.5);
}

TEST(StallPasses, HasNoStallWhereNoiseMakesAPassFaster) {
  const StallPasses passes{.ingestion = 60ms, .copying = 80ms, .cached = 79ms, .cold = 78ms};
  EXPECT_EQ(passes.prep_stall(), 0);
  EXPECT_EQ(passes.fetch_stall(), 0);
}

TEST(AnalyzeVerdict, NamesTheLargestStall) {
  EXPECT_TRUE(analyze_verdict(kPasses, false).starts_with("limited by storage"));
  StallPasses passes = kPasses;
  passes.cold = 101ms;
  EXPECT_TRUE(
      analyze_verdict(passes, false).starts_with("limited by the GPU, which spends 25.0 %"));
  EXPECT_TRUE(analyze_verdict(passes, false).ends_with("try --overlap-copy"));
  EXPECT_TRUE(analyze_verdict(passes, true).ends_with("try pinned memory"));
  passes.cached = passes.cold = 800ms;
  EXPECT_TRUE(analyze_verdict(passes, false).starts_with("limited by preprocessing"));
}

TEST(AnalyzeJson, HasRatesOfEachPass) {
  AnalyzeReport report{.gpu = "V100-PCIE-32GB", .model = "resnet18", .passes = kPasses};
  report.options.gpu.batch = 8;
  const auto json = analyze_json(report);
  EXPECT_DOUBLE_EQ(json["passes"]["cold"]["images_per_s"].get<double>(), 40);
  EXPECT_DOUBLE_EQ(json["passes"]["ingestion"]["step_ms"].get<double>(), 60);
  EXPECT_DOUBLE_EQ(json["fetch_stall"].get<double>(), 0.5);
  EXPECT_NE(analyze_page(report).find("fetch stall"), std::string::npos);
}

TEST(AnalyzePage, DrawsAPassAsLongAsItsStepAlsoWhereNoiseMadeItFaster) {
  AnalyzeReport report{.gpu = "V100-PCIE-32GB", .model = "resnet18", .passes = kPasses};
  report.passes.cold = 90ms;
  const std::string page = analyze_page(report);
  EXPECT_NE(page.find("files in storage, preprocessing stall: 10 ms (11.1 %)"), std::string::npos);
  EXPECT_NE(page.find(">90.0</text>"), std::string::npos);
}

}  // namespace
}  // namespace gpemu::tools
