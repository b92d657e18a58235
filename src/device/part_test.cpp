// SPDX-License-Identifier: Apache-2.0
#include "gpemu/device/part.hpp"

#include <gtest/gtest.h>

namespace gpemu::device {
namespace {

using Devices = std::vector<int>;

TEST(PartOfNode, IsWhatTheListNames) {
  EXPECT_EQ(*part_of_node("0", 1), Devices({0}));
  EXPECT_EQ(*part_of_node("4-7", 8), Devices({4, 5, 6, 7}));
  EXPECT_EQ(*part_of_node("6,0-2", 8), Devices({6, 0, 1, 2}));
  EXPECT_EQ(*part_of_node("3-3", 4), Devices({3}));
}

TEST(PartOfNode, IsAllWithoutAList) {
  EXPECT_EQ(*part_of_node("", 3), Devices({0, 1, 2}));
}

TEST(PartOfNode, RefusesWhatIsNoListAndWhatTheNodeHasNot) {
  for (const char* list : {",", "0,", ",0", "0,,1", "a", "0x1", "-1", "0-", "2-1", "0 1", "0-1-2",
                           "4", "0-4", "99999999999", "1,1", "0-2,1", "0;1"}) {
    const auto part = part_of_node(list, 4);
    ASSERT_FALSE(part) << list;
    EXPECT_EQ(part.error().code, ErrorCode::kInvalidArgument) << list;
    EXPECT_NE(part.error().message.find(list), std::string::npos) << part.error().message;
  }
}

}  // namespace
}  // namespace gpemu::device
