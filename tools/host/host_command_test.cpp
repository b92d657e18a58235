// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include <gtest/gtest.h>

#include "gpemu/base/file.hpp"
#include "gpemu/data/make_dataset.hpp"
#include "gpemu/profile/host_spec.hpp"

#include "cli/test_world.hpp"
#include "host/measure_host.hpp"

namespace gpemu::tools {
namespace {

TEST(HostCommand, ListsHostsWithTheirStorage) {
  const TestWorld world;
  world.write("storage/disk.toml",
              "name = \"disk\"\ntitle = \"A disk\"\naccess_ms = 1\nmb_per_s = 1\nsource = \"s\"\n"
              "[sources]\ns = \"made up\"\n");
  world.write("hosts/slow.toml", slow_host(10, R"([[storage]]
device = "disk"
[[storage]]
name = "own"
access_ms = 10
mb_per_s = 1
source = "s"
)"));
  const Outcome list = world.run({"host", "list"});
  EXPECT_EQ(squeezed(list.output),
            "host description cores storage\nslow A slow host 4 disk, own\n");
}

TEST(HostCommand, WritesAHostThatItCanRead) {
  const TestWorld world;
  const std::filesystem::path photos = world.folder / "photos";
  ASSERT_TRUE(
      data::make_dataset(photos, {.images = 20, .classes = 2, .sizes = {{50, 2}, {90, 3}}}));
  const std::string file = (world.folder / "here.toml").string();
  const Outcome outcome = world.run({"host", "measure", file, "--data", photos.string(), "--images",
                                     "16", "--rounds", "1", "--quiet"});
  ASSERT_EQ(outcome.code, 0) << outcome;
  const auto host = profile::find_host({world.folder, world.folder}, file);
  ASSERT_TRUE(host) << host.error().message;
  EXPECT_EQ(host->name, "here");
  EXPECT_EQ(host->loaders.front().name, "gpemu-folder");
  EXPECT_TRUE(host->loaders.front().shared_batches);
  // The made-up clock does not move: nothing takes any time.
  EXPECT_EQ(host->loaders.front().image_s, 0);
  EXPECT_EQ(host->storages.front().name, "files");

  const Outcome twice =
      world.run({"host", "measure", file, "--data", photos.string(), "--data", photos.string()});
  EXPECT_EQ(twice.code, 2);
  EXPECT_TRUE(twice.errors.contains("have the format folder: name one data set of each format"))
      << twice.errors;
  const Outcome name = world.run({"host", "measure", (world.folder / "a b.toml").string(), "--data",
                                  photos.string(), "--images", "16", "--rounds", "1"});
  EXPECT_TRUE(name.errors.contains("name: expected at most 64 of the characters")) << name.errors;
  EXPECT_FALSE(std::filesystem::exists(world.folder / "a b.toml"));
}

TEST(HostFileText, HasWhatWasMeasured) {
  const MeasuredHost measured{
      .facts = {.cpu = "A \"processor\"", .cores = 2, .memory = 3 * kGiB},
      .speed_by_busy = {{1, 1}, {2, 0.875}},
      .loaders = {{"folder", 0.00125}, {"pages", 0.001}},
      .storage = {.access_s = 1e-4, .bytes_per_s = 5e8, .requests_at_once = 3},
      .image_bytes = 1e5,
      .date = "2026-01-01"};
  const auto host =
      profile::parse_host_spec(host_file_text("here", measured), "here.toml", "nowhere");
  ASSERT_TRUE(host) << host.error().message;
  EXPECT_EQ(host->cpu.model, "A \"processor\"");
  EXPECT_EQ(host->cpu.cores, 2);
  EXPECT_DOUBLE_EQ(host->cpu.speed_by_busy.at(2), 0.875);
  EXPECT_EQ(host->memory, 3 * kGiB);
  EXPECT_DOUBLE_EQ(host->loader("gpemu-pages").value().image_s, 0.001);
  EXPECT_DOUBLE_EQ(host->storages[0].access_s, 1e-4);
  EXPECT_DOUBLE_EQ(host->storages[0].bytes_per_s, 5e8);
  EXPECT_EQ(host->storages[0].requests_at_once, 3);
}

TEST(FitStorage, FindsTheAccessTheRateAndWhatOverlaps) {
  // 2 ms for an access, and 100 MB/s.
  std::vector<TimedRead> reads;
  for (const double bytes : {1e5, 2e5, 3e5, 4e5}) reads.push_back({bytes, 2e-3 + bytes / 1e8});
  const double alone_s = 2e-3 + 2.5e5 / 1e8;
  const MeasuredStorage disk = fit_storage(reads, 1 / alone_s);
  EXPECT_NEAR(disk.access_s, 2e-3, 1e-9);
  EXPECT_NEAR(disk.bytes_per_s, 1e8, 1);
  EXPECT_EQ(disk.requests_at_once, 1);
  const MeasuredStorage two = fit_storage(reads, 1.8 / alone_s);
  EXPECT_EQ(two.requests_at_once, 2);
  EXPECT_NEAR(two.bytes_per_s, 1e8, 1);
  // With eight times as many, the bytes must pass faster than single reads show.
  const MeasuredStorage fast = fit_storage(reads, 8 / alone_s);
  EXPECT_EQ(fast.requests_at_once, 8);
  EXPECT_NEAR(fast.bytes_per_s, 8 * 2.5e5 / alone_s, 1);
  EXPECT_NEAR(fast.access_s + 2.5e5 / fast.bytes_per_s, alone_s, 1e-9);
}

}  // namespace
}  // namespace gpemu::tools
