// SPDX-License-Identifier: Apache-2.0
//
// Checks that a program under emulation reads from its environment what `gpemu run` writes there.
#include "gpemu/process/settings.hpp"

#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/run/settings.hpp"

namespace gpemu {
namespace {

/// Returns what a program reads with these settings.
process::Settings read_back(const run::Settings& settings) {
  const run::Environment environment = run::environment_of(settings, "/shims", "/records");
  const std::map<std::string, std::string> variables(environment.set.begin(),
                                                     environment.set.end());
  const auto read = process::read_settings([&variables](const std::string& name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
  EXPECT_TRUE(read) << read.error().message;
  return read.value_or(process::Settings{});
}

TEST(SettingsOfARun, AreReadAsWritten) {
  const process::Settings on_node = read_back({.node = "run-1",
                                               .gpu_files = {"/a.toml", "/b.toml"},
                                               .context_mib = 500,
                                               .drop_data = true,
                                               .strict = true,
                                               .record_operations = true});
  EXPECT_EQ(on_node.node, "run-1");
  EXPECT_EQ(on_node.gpu, "");
  EXPECT_FALSE(on_node.virtual_clock);
  EXPECT_EQ(on_node.gpu_files, (std::vector<std::string>{"/a.toml", "/b.toml"}));
  EXPECT_EQ(on_node.context_bytes, 500 * kMiB);
  EXPECT_TRUE(on_node.drop_data);
  EXPECT_EQ(on_node.record.folder, "/records");
  EXPECT_TRUE(on_node.record.operations);
  EXPECT_TRUE(on_node.record.strict);

  const process::Settings alone = read_back({.gpu = "T4", .memory = 2 * kGiB});
  EXPECT_EQ(alone.node, "");
  EXPECT_EQ(alone.gpu, "T4");
  EXPECT_TRUE(alone.virtual_clock);
  EXPECT_EQ(alone.memory, 2 * kGiB);
}

TEST(SettingsOfARun, KeepTheirDefaults) {
  const process::Settings read = read_back({.node = "run-1"});
  EXPECT_FALSE(read.memory);
  EXPECT_EQ(read.context_bytes, process::Settings{}.context_bytes);
  EXPECT_FALSE(read.visible_devices);
  EXPECT_FALSE(read.drop_data);
  EXPECT_FALSE(read.launches_block);
  EXPECT_FALSE(read.record.operations);
  EXPECT_FALSE(read.record.strict);
}

}  // namespace
}  // namespace gpemu
