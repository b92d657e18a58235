// SPDX-License-Identifier: Apache-2.0
#include "gpemu/run/environment.hpp"

#include <gtest/gtest.h>

namespace gpemu::run {
namespace {

using Entries = std::vector<std::string>;

TEST(Changed, ReplacesWhatIsSetAndLeavesOutWhatIsUnset) {
  const Entries own = {"A=1", "AB=2", "C=3", "D=4"};
  EXPECT_EQ(changed(own, {.set = {{"A", "5"}, {"E", "6"}}, .unset = {"C"}}, "/"),
            (Entries{"AB=2", "D=4", "A=5", "E=6"}));
  EXPECT_EQ(changed(own, {}, "/"), own);
}

TEST(Changed, SetsWhatIsUnsetAsWell) {
  EXPECT_EQ(changed({"A=1"}, {.set = {{"A", "2"}}, .unset = {"A"}}, "/"), Entries{"A=2"});
}

TEST(Changed, MakesPathsAbsolute) {
  EXPECT_EQ(changed({"A=a/b", "AB=a", "B=/b", "C=", "D=d"},
                    {.set = {{"D", "e"}}, .paths = {"A", "B", "C", "D"}}, "/x"),
            (Entries{"A=/x/a/b", "AB=a", "B=/b", "C=", "D=e"}));
}

}  // namespace
}  // namespace gpemu::run
