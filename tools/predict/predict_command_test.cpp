// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "cli/test_world.hpp"

namespace gpemu::tools {
namespace {

TEST(PredictCommandTest, RefusesOptionsBeforeItRunsTheProgram) {
  TestWorld made_up;
  made_up.variables["PATH"] = "/bin";
  const auto predict = [&made_up](std::vector<std::string> options) {
    options.insert(options.begin(), {"predict", "--gpu", "T4"});
    options.insert(options.end(), {"--", "sh"});
    return made_up.run(std::move(options));
  };
  EXPECT_EQ(predict({"--plot", "x.png"}),
            (Outcome{2, "",
                     "gpemu: --plot x.png: plots are SVG, so the name must end in .svg; "
                     "rsvg-convert converts one to PNG\n"}));
  const Outcome pattern = predict({"--step-pattern", "("});
  EXPECT_EQ(pattern.code, 2);
  EXPECT_TRUE(pattern.errors.starts_with("gpemu: --step-pattern (: ")) << pattern.errors;
  const Outcome gpu = predict({"--gpu", "T5"});
  EXPECT_EQ(gpu.code, 3);
  EXPECT_TRUE(gpu.errors.contains("T5")) << gpu.errors;
}

}  // namespace
}  // namespace gpemu::tools
