// SPDX-License-Identifier: Apache-2.0
#include "gpemu/run/settings.hpp"

#include <map>

#include <gtest/gtest.h>

namespace gpemu::run {
namespace {

std::map<std::string, std::string> variables_of(const Settings& settings) {
  const Environment environment = environment_of(settings, "/shims", "/records");
  return {environment.set.begin(), environment.set.end()};
}

TEST(Settings, GiveTheProgramTheShimsAndAFolderForItsRecords) {
  EXPECT_EQ(variables_of({}), (std::map<std::string, std::string>{
                                  {"LD_AUDIT", "/shims/libgpemu_audit.so"},
                                  {"GPEMU_SHIMS", "/shims"},
                                  {"GPEMU_RECORD_DIR", "/records"},
                                  {"NVTX_INJECTION64_PATH", "/shims/common/libnvToolsExt.so.1"},
                                  {"TRITON_LIBCUDA_PATH", "/shims/common"}}));
}

TEST(Settings, GiveTheProgramTheShimsPrograms) {
  EXPECT_EQ(environment_of({}, "/shims", "/records").programs, "/shims/bin");
}

TEST(Settings, AGpuOfItsOwnHasTheVirtualClock) {
  const auto variables = variables_of({.gpu = "T4", .memory = 2 * kGiB, .batch = 8});
  EXPECT_EQ(variables.at("GPEMU_GPU"), "T4");
  EXPECT_EQ(variables.at("GPEMU_CLOCK"), "virtual");
  EXPECT_EQ(variables.at("GPEMU_MEMORY_MIB"), "2048");
  EXPECT_EQ(variables.at("GPEMU_BATCH"), "8");
  EXPECT_FALSE(variables.contains("GPEMU_NODE"));
}

TEST(Settings, HaveTheProgramsClocksFollowANodes) {
  const auto variables =
      variables_of({.node = "run-1", .clock_page = "4096:/node", .preloaded = "/mine.so"});
  EXPECT_EQ(variables.at("GPEMU_CLOCK_PAGE"), "4096:/node");
  EXPECT_EQ(variables.at("LD_PRELOAD"), "/shims/libgpemu_clock.so:/mine.so");
}

TEST(Settings, OfANodeHaveTheRealClock) {
  const auto variables = variables_of({.node = "run-1",
                                       .gpu_files = {"/a.toml", "/b.toml"},
                                       .context_mib = 500,
                                       .real_ranks = 2,
                                       .drop_data = true,
                                       .strict = true,
                                       .record_operations = true});
  EXPECT_EQ(variables.at("GPEMU_NODE"), "run-1");
  EXPECT_FALSE(variables.contains("GPEMU_CLOCK"));
  EXPECT_EQ(variables.at("GPEMU_GPU_FILES"), "/a.toml:/b.toml");
  EXPECT_EQ(variables.at("GPEMU_CONTEXT_MIB"), "500");
  EXPECT_EQ(variables.at("GPEMU_REAL_RANKS"), "2");
  EXPECT_EQ(variables.at("GPEMU_DROP_DATA"), "1");
  EXPECT_EQ(variables.at("GPEMU_STRICT"), "1");
  EXPECT_EQ(variables.at("GPEMU_RECORD_OPERATIONS"), "1");
}

/// The settings of a surrounding run do not apply to the program.
TEST(Settings, OfARunAroundThisOneAreNotTheProgramsOwn) {
  const std::vector<std::string> around = {"GPEMU_NODE=outer", "GPEMU_STRICT=1",
                                           "GPEMU_GPU_FILES=/a", "HOME=/x"};
  const Environment environment = environment_of({.gpu = "T4"}, "/shims", "/records");
  const std::vector<std::string> entries = changed(around, environment, "/");
  EXPECT_EQ(entries.front(), "HOME=/x");
  for (const std::string& entry : entries) {
    EXPECT_FALSE(entry.starts_with("GPEMU_NODE=") || entry.starts_with("GPEMU_STRICT=") ||
                 entry.starts_with("GPEMU_GPU_FILES="))
        << entry;
  }
}

TEST(Settings, HoldWhereverTheProgramGoes) {
  const std::vector<std::string> around = {"GPEMU_NODE_DIR=nodes", "GPEMU_PROFILES=p.db"};
  const std::vector<std::string> entries =
      changed(around, environment_of({.gpu = "T4"}, "/shims", "/records"), "/x");
  EXPECT_EQ(entries[0], "GPEMU_NODE_DIR=/x/nodes");
  EXPECT_EQ(entries[1], "GPEMU_PROFILES=/x/p.db");
}

}  // namespace
}  // namespace gpemu::run
