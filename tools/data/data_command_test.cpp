// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/test_world.hpp"

namespace gpemu::tools {
namespace {

using nlohmann::json;

TEST(DataCommandTest, ShowsSizes) {
  const TestWorld made_up;
  for (int i = 1; i <= 20; ++i) {
    const char* const label = i % 2 == 0 ? "cat" : "dog";
    made_up.write(fmt::format("photos/{}/{}.jpg", label, i), std::string(1000 * i, 'x'));
  }
  const std::string folder = (made_up.folder / "photos").string();
  EXPECT_EQ(made_up.run({"data", "show", folder}),
            (Outcome{0,
                     fmt::format("{}: 20 images in 2 classes, 0.2 MB\n"
                                 "file size:  10 % 2 KB  25 % 5 KB  50 % 10 KB  75 % 15 KB  90 % "
                                 "18 KB  95 % 19 KB  99 % 20 KB\n",
                                 folder),
                     ""}));
  const json shown = parsed(made_up.run({"data", "show", folder, "--json"}).output);
  EXPECT_EQ(shown["bytes"], 210'000);
  EXPECT_EQ(shown["size_percentiles_kb"]["99"], 20);
}

TEST(DataCommandTest, MakesImagesAndMeasuresLoadingThem) {
  const TestWorld made_up;
  const std::string folder = (made_up.folder / "photos").string();
  const Outcome made = made_up.run({"data", "make", folder, "--images", "4", "--classes", "2",
                                    "--size-percentiles", "50:4,99:8", "--threads", "1"});
  EXPECT_EQ(made.code, 0) << made.errors;
  EXPECT_TRUE(made.output.starts_with(folder + ": 4 images in 2 classes, ")) << made.output;
  const Outcome measured = made_up.run(
      {"data", "bench", folder, "--workers", "1", "--epochs", "2", "--batch", "2", "--json"});
  ASSERT_EQ(measured.code, 0) << measured.errors;
  const json result = parsed(measured.output);
  EXPECT_EQ(result["what"], "loader");
  EXPECT_EQ(result["images"], 4);
  EXPECT_EQ(result["corrupt"], 0);
  EXPECT_EQ(result["images_per_s"].size(), 2U);
}

TEST(DataCommandTest, RefusesSizesThatAreNoPercentiles) {
  const TestWorld made_up;
  const std::string folder = (made_up.folder / "photos").string();
  for (const char* size : {"50", "50:", ":8", "a:8", "50:8x"}) {
    EXPECT_EQ(made_up.run({"data", "make", folder, "--size-percentiles", size}),
              (Outcome{2, "",
                       fmt::format("gpemu: '{}' is not a size percentile; write PERCENT:KILOBYTES, "
                                   "e.g. 50:108\n",
                                   size)}));
    EXPECT_FALSE(std::filesystem::exists(folder));
  }
}

}  // namespace
}  // namespace gpemu::tools
