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

TEST(Changed, PutsAFolderOfProgramsFirst) {
  EXPECT_EQ(changed({"PATH=/bin:/usr/bin"}, {.programs = "/p"}, "/"),
            Entries{"PATH=/p:/bin:/usr/bin"});
  EXPECT_EQ(changed({"PATH=/bin:/p"}, {.programs = "/p"}, "/"), Entries{"PATH=/p:/bin"})
      << "not twice";
  EXPECT_EQ(changed({"PATH="}, {.programs = "/p"}, "/"), Entries{"PATH="})
      << "it means the system's folders";
  EXPECT_EQ(changed({"XPATH=/bin"}, {.programs = "/p"}, "/"), Entries{"XPATH=/bin"});
}

}  // namespace
}  // namespace gpemu::run
