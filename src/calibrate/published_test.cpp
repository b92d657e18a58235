// SPDX-License-Identifier: Apache-2.0
#include "gpemu/calibrate/published.hpp"

#include <gtest/gtest.h>

#include "test_gpu.hpp"

namespace gpemu::calibrate {
namespace {

TEST(Published, FamiliesAreNamesWithoutPortsAndSizes) {
  EXPECT_EQ(published_family("gluon_resnext50_32x4d"), "resnext");
  EXPECT_EQ(published_family("tv_resnet50"), "resnet");
  EXPECT_EQ(published_family("regnety_016"), "regnety");
  EXPECT_EQ(published_family("vgg19_bn"), "vgg");
}

TEST(Published, SomeFamiliesAreHeldOutForGood) {
  int held_out = 0;
  constexpr std::array kFamilies = {"resnext", "regnetx", "regnety", "regnetz", "deit", "xcit",
                                    "cait",    "vgg",     "hrnet",   "dpn",     "gpt",  "opt",
                                    "resmlp",  "twins",   "tnt",     "convit"};
  for (const char* family : kFamilies) held_out += is_held_out(family) ? 1 : 0;
  EXPECT_GE(held_out, 1);
  EXPECT_LE(held_out, 8);
  EXPECT_EQ(is_held_out("resnext"), is_held_out("resnext"));
}

}  // namespace
}  // namespace gpemu::calibrate
