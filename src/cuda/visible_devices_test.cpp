// SPDX-License-Identifier: Apache-2.0
#include "visible_devices.hpp"

#include <array>

#include <gtest/gtest.h>

namespace gpemu::cuda {
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

}  // namespace
}  // namespace gpemu::cuda
