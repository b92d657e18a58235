// SPDX-License-Identifier: Apache-2.0
#include "visible_devices.hpp"

#include <array>

#include <gtest/gtest.h>

namespace gpemu::process {
namespace {

using Indices = std::vector<int>;

Indices seen(std::optional<std::string_view> selection) {
  static const std::array<std::string, 3> uuids = {"GPU-aa00", "GPU-ab00", "GPU-bb00"};
  return visible_devices(selection, uuids);
}

TEST(VisibleDevices, AreAllWithoutASelection) {
  EXPECT_EQ(seen(std::nullopt), (Indices{0, 1, 2}));
}

TEST(VisibleDevices, AreNoneOfAnEmptySelection) {
  EXPECT_EQ(seen(""), Indices{});
  EXPECT_EQ(seen(" "), Indices{});
}

TEST(VisibleDevices, ComeInTheOrderOfTheSelection) {
  EXPECT_EQ(seen("2,0"), (Indices{2, 0}));
  EXPECT_EQ(seen(" 1 , 2 "), (Indices{1, 2}));
}

TEST(VisibleDevices, HaveIndicesUpToTheFirstCharacterThatIsNoDigit) {
  EXPECT_EQ(seen("1gpu,2"), (Indices{1, 2}));
}

TEST(VisibleDevices, EndBeforeAnEntryThatNamesNone) {
  for (const std::string_view wrong :
       {"3", "-1", "99999999999", "none", "GPU-c", "GPU-a", "MIG-aa00", ""}) {
    EXPECT_EQ(seen("1," + std::string(wrong) + ",0"), Indices{1}) << wrong;
  }
}

TEST(VisibleDevices, AreNoneIfOneIsNamedTwice) {
  EXPECT_EQ(seen("1,0,1"), Indices{});
  EXPECT_EQ(seen("GPU-bb00,GPU-b"), Indices{});
}

TEST(VisibleDevices, MayBeNamedByTheBeginningOfTheirUuid) {
  EXPECT_EQ(seen("GPU-bb00,GPU-aa"), (Indices{2, 0}));
}

std::optional<std::size_t> mig(std::optional<std::string_view> selection) {
  static const std::array<std::string, 2> uuids = {"GPU-aa00", "GPU-ab00"};
  static const std::array<device::MigDevice, 3> devices = {
      device::MigDevice{.gpu = 1, .gpu_instance = 2, .compute_instance = 0, .uuid = "MIG-1200"},
      device::MigDevice{.gpu = 1, .gpu_instance = 7, .compute_instance = 0, .uuid = "MIG-1700"},
      device::MigDevice{.gpu = 1, .gpu_instance = 7, .compute_instance = 1, .uuid = "MIG-1710"}};
  return visible_mig_device(selection, uuids, devices);
}

TEST(VisibleMigDevice, IsOneAndTheFirstByDefault) {
  EXPECT_EQ(mig(std::nullopt), 0U);
  EXPECT_EQ(mig("1"), 0U);
  EXPECT_EQ(mig("GPU-ab"), 0U);
}

TEST(VisibleMigDevice, IsTheFirstThatIsListed) {
  EXPECT_EQ(mig("MIG-1710,MIG-1200"), 2U);
  EXPECT_EQ(mig(" MIG-1700 "), 1U);
  EXPECT_EQ(mig("MIG-GPU-ab00/7/1"), 2U);
}

TEST(VisibleMigDevice, IsNoneIfTheFirstEntryNamesNone) {
  for (const std::string_view wrong : {"", "0", "GPU-aa00", "MIG-1800", "MIG-1", "MIG-17,MIG-1200",
                                       "MIG-GPU-ab00/7/2", "MIG-GPU-aa00/7/1", "none"}) {
    EXPECT_EQ(mig(wrong), std::nullopt) << wrong;
  }
}

}  // namespace
}  // namespace gpemu::process
