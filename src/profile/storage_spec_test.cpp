// SPDX-License-Identifier: Apache-2.0
#include "gpemu/profile/storage_spec.hpp"

#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace gpemu::profile {
namespace {

constexpr std::string_view kDisk = R"(name = "disk"
title = "a disk"
requests_at_once = 1
[sequential]
mb_per_s = 100
source = "us"
[random]
request_kb = [100, 300]
mb_per_s = [10, 20]
source = "us"
[queue]
waiting = [4, 64]
positioning = [1.0, 0.5]
source = "us"
[sources]
us = "made up"
)";

TEST(StorageSpec, DividesATimeIntoPositioningAndTransfer) {
  const auto disk = parse_storage_spec(kDisk, "disk.toml");
  ASSERT_TRUE(disk) << disk.error().message;
  // 102,400 bytes at 10 MB/s are 10.24 ms, of which 1.024 ms are for the bytes.
  EXPECT_EQ(disk->transfer(102'400), Duration(1'024'000));
  EXPECT_EQ(disk->positioning(102'400, 1), Duration(9'216'000));
  EXPECT_EQ(disk->positioning(1, 1), Duration(9'216'000)) << "smaller than the smallest size";
  EXPECT_EQ(disk->positioning(307'200, 4), Duration(12'288'000));
  EXPECT_EQ(disk->positioning(204'800, 4), Duration(10'752'000)) << "in the middle of two sizes";
  EXPECT_EQ(disk->positioning(1 << 30, 1), Duration(12'288'000));
  EXPECT_EQ(disk->positioning(102'400, 64), Duration(4'608'000));
  EXPECT_EQ(disk->positioning(102'400, 16), Duration(6'912'000)) << "half of the doublings";
  EXPECT_EQ(disk->positioning(102'400, 1e6), Duration(4'608'000));
  EXPECT_EQ(disk->sources.at("random"), "made up");
}

TEST(StorageSpec, NamesTheLineAndTheFault) {
  const auto error_of = [](std::string_view was, std::string_view is) {
    std::string text(kDisk);
    text.replace(text.find(was), was.size(), is);
    const auto disk = parse_storage_spec(text, "disk.toml");
    return disk ? std::string("no error") : disk.error().message;
  };
  EXPECT_EQ(error_of("[100, 300]", "[300, 100]"),
            "disk.toml:8: random: request_kb: expected numbers that ascend");
  EXPECT_EQ(error_of("[100, 300]", "[100]"),
            "disk.toml:7: random: request_kb has 1 numbers, mb_per_s has 2");
  EXPECT_EQ(error_of("[10, 20]", "[10, 200]"),
            "disk.toml:7: random: mb_per_s: 200 is more than the sequential rate, 100");
  EXPECT_EQ(error_of("[10, 20]", "[1, 20]"),
            "disk.toml:7: random: mb_per_s: 300 KB take less time than the size before");
  EXPECT_EQ(error_of("[10, 20]", "[10, nan]"),
            "disk.toml:9: random: mb_per_s: expected a number from 0.001 to 1000000");
  EXPECT_EQ(error_of("requests_at_once = 1", "requests_at_once = 0"),
            "disk.toml:3: requests_at_once: expected a whole number from 1 to 65536");
  EXPECT_EQ(error_of("waiting", "wating"), "disk.toml:12: queue: unknown key 'wating'");
  EXPECT_EQ(error_of("source = \"us\"", "source = \"them\""),
            "disk.toml:6: sequential: source 'them' is not in [sources]");
}

TEST(StorageSpec, ReadsTheDevicesThatComeWithGpemu) {
  const std::filesystem::path folder = GPEMU_STORAGE_FOLDER;
  const std::vector<std::string> names = storage_names(folder);
  ASSERT_FALSE(names.empty());
  for (const std::string& name : names) {
    const auto device = find_storage(folder, name);
    ASSERT_TRUE(device) << device.error().message;
    EXPECT_EQ(device->name, name);
    for (const RequestRate& rate : device->random) {
      // One request at a time takes as long as was measured.
      const Duration time = device->positioning(rate.bytes, 1) + device->transfer(rate.bytes);
      EXPECT_NEAR(static_cast<double>(rate.bytes) / to_seconds(time), rate.bytes_per_s,
                  rate.bytes_per_s * 1e-4);
    }
  }
  EXPECT_EQ(find_storage(folder, "hd").error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace gpemu::profile
