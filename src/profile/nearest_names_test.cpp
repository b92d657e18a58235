// SPDX-License-Identifier: Apache-2.0
#include "nearest_names.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace gpemu::profile {
namespace {

const std::vector<std::string> kNames = {"alexnet", "resnet101", "resnet18", "resnet34", "vgg16"};

TEST(DidYouMean, NamesTheNearestFirst) {
  EXPECT_EQ(did_you_mean("resnet19", kNames), " (did you mean resnet18, resnet101 or resnet34?)");
}

TEST(DidYouMean, IgnoresCaseAndOneSlip) {
  EXPECT_EQ(did_you_mean("ALEXNT", kNames), " (did you mean alexnet?)");
  EXPECT_EQ(did_you_mean("vg16", kNames), " (did you mean vgg16?)");
}

TEST(DidYouMean, FindsAPartOfAName) {
  EXPECT_EQ(did_you_mean("101", kNames), " (did you mean resnet101?)");
}

TEST(DidYouMean, StaysSilentWhenNothingIsNear) {
  EXPECT_EQ(did_you_mean("transformer", kNames), "");
  EXPECT_EQ(did_you_mean("", kNames), "");
  EXPECT_EQ(did_you_mean("resnet18", {}), "");
}

}  // namespace
}  // namespace gpemu::profile
