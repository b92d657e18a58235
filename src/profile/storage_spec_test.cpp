// SPDX-License-Identifier: Apache-2.0
#include "gpemu/profile/storage_spec.hpp"

#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace gpemu::profile {
namespace {

constexpr std::string_view kDisk = R"(name = "disk"
title = "a disk"
access_ms = 4
access_depth = 8
access_by_depth = [[1, 1], [8, 0.5]]
mb_per_s = 100
source = "us"
[sources]
us = "made up"
)";

TEST(StorageSpec, DividesATimeIntoAccessAndBytes) {
  const auto disk = parse_storage_spec(kDisk, "disk.toml");
  ASSERT_TRUE(disk) << disk.error().message;
  EXPECT_EQ(disk->sources.at("storage"), "made up");
  // Alone, an access takes 8 ms, and 1e5 bytes 1 ms.
  EXPECT_DOUBLE_EQ(disk->read_time(1e5, 1).alone_s, 0.009);
  EXPECT_DOUBLE_EQ(disk->read_time(1e5, 1).busy_s, 0.009);
  EXPECT_DOUBLE_EQ(disk->read_time(1e5, 4.5).alone_s, 0.007) << "in the middle of two depths";
  EXPECT_DOUBLE_EQ(disk->read_time(1e5, 100).alone_s, 0.005);
  EXPECT_DOUBLE_EQ(disk->read_time(1e5, 100, /*continues=*/true).alone_s, 0.001);
}

TEST(StorageSpec, AccessesOverlapAndBytesDoNot) {
  StorageSpec spec{.access_s = 0.008, .bytes_per_s = 1e8, .requests_at_once = 3};
  EXPECT_DOUBLE_EQ(spec.read_time(1e5, 1).alone_s, 0.009);
  EXPECT_DOUBLE_EQ(spec.read_time(1e5, 1).busy_s, 0.003);
  spec.requests_at_once = 100;
  EXPECT_DOUBLE_EQ(spec.read_time(1e5, 1).busy_s, 0.001) << "not less than its bytes take";
}

TEST(StorageSpec, NamesTheLineAndTheFault) {
  const auto error_of = [](std::string_view was, std::string_view is) {
    std::string text(kDisk);
    text.replace(text.find(was), was.size(), is);
    const auto disk = parse_storage_spec(text, "disk.toml");
    return disk ? std::string("no error") : disk.error().message;
  };
  EXPECT_EQ(error_of("access_ms = 4", "access_ms = -1"),
            "disk.toml:3: storage: access_ms: expected a number from 0 to 1000000");
  EXPECT_EQ(error_of("mb_per_s = 100", "mb_per_s = nan"),
            "disk.toml:6: storage: mb_per_s: expected a number from 0.001 to 1000000");
  EXPECT_EQ(error_of("mb_per_s = 100\n", ""), "disk.toml:1: storage: mb_per_s: missing");
  EXPECT_EQ(error_of("mb_per_s = 100", "mb_per_s = 100\nrequests_at_once = 0"),
            "disk.toml:7: storage: requests_at_once: expected a number from 1 to 65536");
  EXPECT_EQ(error_of("mb_per_s", "gb_per_s"), "disk.toml:6: storage: unknown key 'gb_per_s'");
  EXPECT_EQ(error_of("source = \"us\"", "source = \"them\""),
            "disk.toml:7: storage: source 'them' is not in [sources]; add them = \"...\" there");
}

TEST(StorageSpec, ReadsTheDevicesThatComeWithGpemu) {
  const std::filesystem::path folder = GPEMU_STORAGE_FOLDER;
  const std::vector<std::string> names = storage_names(folder);
  ASSERT_FALSE(names.empty());
  for (const std::string& name : names) {
    const auto device = find_storage(folder, name);
    ASSERT_TRUE(device) << device.error().message;
    EXPECT_EQ(device->name, name);
  }
  EXPECT_EQ(find_storage(folder, "hd").error().code, ErrorCode::kNotFound);
}

TEST(StorageSpec, ReadsAsTheMeasuredDevicesDo) {
  // Source: GPEmu, plots/new/sff/thru/data.dat: sizes in KiB, and MB/s.
  const StorageSpec hdd = find_storage(GPEMU_STORAGE_FOLDER, "hdd").value();
  for (const auto& [kib, mb_per_s] :
       {std::pair{64.0, 13.1}, {128.0, 23.1}, {256.0, 36.0}, {512.0, 55.9}, {1024.0, 74.4}}) {
    const double measured_s = kib * 1024 / (mb_per_s * 1e6);
    EXPECT_NEAR(hdd.read_time(kib * 1024, 8).alone_s / measured_s, 1, 0.08) << kib;
  }
  // Source: its data sheet: 4 KB reads a second, one at a time and many.
  const StorageSpec ssd = find_storage(GPEMU_STORAGE_FOLDER, "sata-ssd").value();
  EXPECT_NEAR(1 / ssd.read_time(4096, 1).alone_s, 13'000, 130);
  EXPECT_NEAR(1 / ssd.read_time(4096, 32).busy_s, 98'000, 9'800);
}

}  // namespace
}  // namespace gpemu::profile
