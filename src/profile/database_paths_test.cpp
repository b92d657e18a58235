// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "gpemu/profile/database.hpp"

namespace gpemu::profile {
namespace {

Database::Paths paths_with(const std::map<std::string, std::string>& variables) {
  return Database::default_paths([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(DatabasePaths, AVariableNamesTheInstalledDatabase) {
  EXPECT_EQ(paths_with({{"GPEMU_PROFILES", "/there/own.db"}}).installed, "/there/own.db");
}

TEST(DatabasePaths, TheInstalledDatabaseIsInTheNearestFolderAboveTheProgram) {
  const std::string end = "/share/gpemu/profiles.db";
  for (const auto& [why, paths] :
       {std::pair{"not set", paths_with({})}, {"empty", paths_with({{"GPEMU_PROFILES", ""}})}}) {
    EXPECT_TRUE(paths.installed.is_absolute()) << why << ": " << paths.installed;
    EXPECT_TRUE(paths.installed.native().ends_with(end)) << why << ": " << paths.installed;
  }
}

TEST(DatabasePaths, TheUsersDatabaseFollowsTheXdgSpecification) {
  EXPECT_EQ(paths_with({{"XDG_DATA_HOME", "/data"}, {"HOME", "/users/u"}}).user,
            "/data/gpemu/profiles.db");
  EXPECT_EQ(paths_with({{"HOME", "/users/u"}}).user, "/users/u/.local/share/gpemu/profiles.db");
}

TEST(DatabasePaths, RelativeFoldersOfTheUserAreIgnored) {
  EXPECT_EQ(paths_with({{"XDG_DATA_HOME", "data"}, {"HOME", "/users/u"}}).user,
            "/users/u/.local/share/gpemu/profiles.db");
  EXPECT_EQ(paths_with({{"XDG_DATA_HOME", "data"}, {"HOME", "u"}}).user, "");
  EXPECT_EQ(paths_with({}).user, "");
}

}  // namespace
}  // namespace gpemu::profile
