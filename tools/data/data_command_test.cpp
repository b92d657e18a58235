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

TEST(DataCommandTest, ConvertsAndReadsEveryFormat) {
  const TestWorld made_up;
  const std::string folder = (made_up.folder / "photos").string();
  ASSERT_EQ(made_up
                .run({"data", "make", folder, "--images", "6", "--classes", "2",
                      "--size-percentiles", "50:4,99:8", "--threads", "1", "--quiet"})
                .code,
            0);
  for (const std::string format : {"webdataset", "tfrecord", "groups", "pages"}) {
    const std::string target = (made_up.folder / (format + ".pages")).string();
    const Outcome converted =
        made_up.run({"data", "convert", folder, target, "--format", format, "--group", "4"});
    ASSERT_EQ(converted.code, 0) << converted.errors;
    EXPECT_TRUE(converted.output.starts_with(target + ": 6 images in 2 classes, "));
    EXPECT_NE(converted.output.find(", " + format + " in "), std::string::npos) << converted.output;
    const Outcome measured =
        made_up.run({"data", "bench", target, "--epochs", "1", "--batch", "2", "--json"});
    ASSERT_EQ(measured.code, 0) << measured.errors;
    const json result = parsed(measured.output);
    EXPECT_EQ(result["data"]["format"], format);
    EXPECT_EQ(result["images"], 6);
    EXPECT_EQ(result["corrupt"], 0);
    EXPECT_EQ(result["storage"], nullptr);
    EXPECT_EQ(made_up.run({"data", "convert", folder, target, "--format", format}).code, 2)
        << "it exists";
  }
}

TEST(DataCommandTest, MakesImagesInAnotherFormat) {
  const TestWorld made_up;
  const std::string shards = (made_up.folder / "shards").string();
  const Outcome made = made_up.run({"data", "make", shards, "--images", "3", "--classes", "2",
                                    "--size-percentiles", "50:4", "--format", "webdataset"});
  ASSERT_EQ(made.code, 0) << made.errors;
  EXPECT_NE(made.output.find("webdataset in 1 file, read in 1 part"), std::string::npos)
      << made.output;
  int left = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(made_up.folder)) {
    left += entry.path().filename().string().starts_with("shards") ? 1 : 0;
  }
  EXPECT_EQ(left, 1) << "the folder of images is gone";
}

TEST(DataCommandTest, ReadsFromADescribedDevice) {
  const TestWorld made_up;
  const std::string folder = (made_up.folder / "photos").string();
  ASSERT_EQ(made_up
                .run({"data", "make", folder, "--images", "4", "--classes", "2",
                      "--size-percentiles", "50:4,99:8", "--threads", "1", "--quiet"})
                .code,
            0);
  made_up.write("disk.toml", R"(name = "disk"
title = "a disk"
access_ms = 9
mb_per_s = 100
source = "us"
[sources]
us = "made up"
)");
  const std::string disk = (made_up.folder / "disk.toml").string();
  const Outcome measured = made_up.run(
      {"data", "bench", folder, "--epochs", "1", "--storage", disk, "--no-decode", "--json"});
  ASSERT_EQ(measured.code, 0) << measured.errors;
  const json result = parsed(measured.output);
  EXPECT_EQ(result["what"], "loader without decoding");
  EXPECT_EQ(result["storage"]["name"], "disk");
  EXPECT_EQ(result["options"]["cold"], true);
  // Nothing, where the test's folder lies in memory.
  EXPECT_LE(result["storage"]["reads"], 4);
  const Outcome unknown = made_up.run({"data", "bench", folder, "--storage", "floppy"});
  EXPECT_EQ(unknown.code, 3) << unknown.errors;
  EXPECT_TRUE(unknown.errors.starts_with("gpemu: there is no storage \"floppy\""))
      << unknown.errors;
}

TEST(DataCommandTest, NamesWhatItLeavesOutWithoutControlCharacters) {
  const TestWorld made_up;
  made_up.write("photos/cat/1.jpg", "x");
  std::filesystem::create_symlink("nowhere", made_up.folder / "photos/cat/a\x1b[31m.jpg");
  const json shown =
      parsed(made_up.run({"data", "show", (made_up.folder / "photos").string(), "--json"}).output);
  EXPECT_EQ(shown["images"], 1);
  EXPECT_EQ(shown["skipped"], 1);
}

}  // namespace
}  // namespace gpemu::tools
