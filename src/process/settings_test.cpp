// SPDX-License-Identifier: Apache-2.0
#include "gpemu/process/settings.hpp"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace gpemu::process {
namespace {

/// Looks variables up in a map rather than in the environment.
Lookup variables(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const std::string& name) {
    const auto found = values.find(name);
    return found == values.end() ? nullptr : found->second.c_str();
  };
}

TEST(Settings, AreDefaultsWithoutVariables) {
  const Result<Settings> settings = read_settings(variables({}));
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->node, "");
  EXPECT_EQ(settings->gpu, "");
  EXPECT_FALSE(settings->virtual_clock);
  EXPECT_FALSE(settings->memory);
  EXPECT_TRUE(settings->gpu_files.empty());
  EXPECT_FALSE(settings->context_bytes);
  EXPECT_FALSE(settings->visible_devices);
  EXPECT_FALSE(settings->launches_block);
  EXPECT_FALSE(settings->drop_data);
  EXPECT_EQ(settings->record.folder, "");
  EXPECT_FALSE(settings->record.operations);
  EXPECT_FALSE(settings->record.strict);
}

TEST(Settings, TakeAnEmptyVariableAsUnsetExceptForTheChoiceOfDevices) {
  const Result<Settings> settings = read_settings(variables({{"GPEMU_MEMORY_MIB", ""},
                                                             {"GPEMU_CONTEXT_MIB", ""},
                                                             {"GPEMU_DROP_DATA", ""},
                                                             {"GPEMU_RECORD_OPERATIONS", ""},
                                                             {"CUDA_VISIBLE_DEVICES", ""}}));
  ASSERT_TRUE(settings);
  EXPECT_FALSE(settings->memory);
  EXPECT_FALSE(settings->context_bytes);
  EXPECT_FALSE(settings->drop_data);
  EXPECT_FALSE(settings->record.operations);
  EXPECT_EQ(settings->visible_devices, "");
}

TEST(Settings, HaveNoFileBetweenTwoColons) {
  const auto settings = read_settings(variables({{"GPEMU_GPU_FILES", ":/a.toml::/b.toml:"}}));
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->gpu_files, (std::vector<std::string>{"/a.toml", "/b.toml"}));
}

TEST(Settings, SwitchOnWith1) {
  for (const char* const value : {"0", "1", "true"}) {
    const auto settings =
        read_settings(variables({{"CUDA_LAUNCH_BLOCKING", value}, {"GPEMU_STRICT", value}}));
    ASSERT_TRUE(settings);
    EXPECT_EQ(settings->launches_block, value == std::string("1"));
    EXPECT_EQ(settings->record.strict, value == std::string("1"));
  }
}

TEST(Settings, NameAPartOfANodeAndANetwork) {
  const auto settings =
      read_settings(variables({{"GPEMU_DEVICES", "4-7"}, {"GPEMU_NETWORK", "tcp:10gbit"}}));
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->devices, "4-7");
  EXPECT_EQ(settings->network->bytes_per_s, 1.25e9);
  EXPECT_FALSE(read_settings(variables({{"GPEMU_NETWORK", ""}}))->network);
  const auto wrong = read_settings(variables({{"GPEMU_NETWORK", "10gbit"}}));
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(wrong.error().message.starts_with("GPEMU_NETWORK: ")) << wrong.error().message;
}

TEST(Settings, RefuseSizesThatAreNone) {
  for (const char* const name : {"GPEMU_MEMORY_MIB", "GPEMU_CONTEXT_MIB"}) {
    for (const char* const value : {"0", "-1", "1.5", "16G", "99999999999"}) {
      const auto settings = read_settings(variables({{name, value}}));
      ASSERT_FALSE(settings);
      EXPECT_EQ(settings.error().code, ErrorCode::kInvalidArgument);
      EXPECT_EQ(settings.error().message,
                fmt::format("{} is \"{}\", not a number of MiB", name, value));
    }
  }
}

TEST(Settings, LimitTheMemoryByAFractionAndAsHamiDoes) {
  const auto settings = read_settings(variables({{"GPEMU_GPU_FRACTION", "0.25"},
                                                 {"CUDA_DEVICE_MEMORY_LIMIT_1", "1g"},
                                                 {"CUDA_DEVICE_SM_LIMIT", "30"}}));
  ASSERT_TRUE(settings) << settings.error().message;
  EXPECT_EQ(settings->memory_limits.limit(0, 16 * kGiB), 4 * kGiB);
  EXPECT_EQ(settings->memory_limits.limit(1, 16 * kGiB), kGiB);
  EXPECT_EQ(settings->compute_shares.of(0).part, 3000U);
  for (const char* const name :
       {"GPEMU_GPU_FRACTION", "CUDA_DEVICE_MEMORY_LIMIT", "CUDA_DEVICE_SM_LIMIT"}) {
    const auto wrong = read_settings(variables({{name, "much"}}));
    ASSERT_FALSE(wrong) << name;
    EXPECT_TRUE(wrong.error().message.starts_with(name)) << wrong.error().message;
  }
}

TEST(Settings, HaveAJobIfSomeOfItsRanksArePhantoms) {
  std::map<std::string, std::string> values = {
      {"GPEMU_REAL_RANKS", "1"}, {"RANK", "0"}, {"WORLD_SIZE", "16"}, {"LOCAL_WORLD_SIZE", "8"}};
  Result<Settings> settings = read_settings(variables(values));
  ASSERT_TRUE(settings && settings->job);
  EXPECT_EQ(settings->job->ranks, 16);
  EXPECT_EQ(settings->job->rank, 0);
  EXPECT_EQ(settings->job->ranks_per_host, 8);
  EXPECT_EQ(settings->job->real_ranks, 1);
  values["GPEMU_REAL_RANKS"] = "16";
  EXPECT_FALSE(read_settings(variables(values))->job) << "all ranks run";
  values["GPEMU_REAL_RANKS"] = "0";
  settings = read_settings(variables(values));
  ASSERT_FALSE(settings);
  EXPECT_EQ(settings.error().message, "GPEMU_REAL_RANKS is \"0\", not a number from 1 on");
  values["GPEMU_REAL_RANKS"] = "1";
  values.erase("RANK");
  EXPECT_FALSE(read_settings(variables(values))->job) << "no launcher says which rank this is";
}

}  // namespace
}  // namespace gpemu::process
