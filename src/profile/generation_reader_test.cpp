// SPDX-License-Identifier: Apache-2.0
#include "generation_reader.hpp"

#include <filesystem>

#include <gtest/gtest.h>

#include "gpemu/base/file.hpp"
#include "gpemu/profile/gpu_spec.hpp"

namespace gpemu::profile {
namespace {

constexpr std::string_view kSources = "[sources]\nguess = \"a guess\"\n";

std::string error_of(std::string_view facts) {
  const auto result = parse_generations(std::string(facts).append(kSources), "g.toml");
  return result ? "none" : result.error().message;
}

/// The file of an RTX 3090 with another capability, and more text.
Result<GpuSpec> invented(std::string_view capability, std::string_view more) {
  std::string text = read_file(std::filesystem::path(GPEMU_GPUS_FOLDER) / "RTX-3090.toml").value();
  text.replace(text.find("value = 8.6"), 11, std::string("value = ").append(capability));
  text.insert(text.find("[sources]"), more);
  return parse_gpu_spec(text, "x.toml");
}

TEST(Generation, OfAMinorNumberWinsOverThatOfTheMajorOne) {
  EXPECT_EQ(generation_facts(7, 0)->nvml_architecture, 5);
  EXPECT_EQ(generation_facts(7, 5)->nvml_architecture, 6);
}

TEST(Generation, WithoutAllFactsIsAnError) {
  const auto result = generation_facts(12, 0);
  ASSERT_FALSE(result);
  EXPECT_TRUE(
      result.error().message.contains("does not give compute capability 12.0 the keys "
                                      "copy_engines, concurrent_managed_access, "))
      << result.error().message;
  EXPECT_FALSE(generation_facts(9, 9));
}

TEST(Generation, FaultsOfItsFileHaveALine) {
  EXPECT_EQ(error_of("[[facts]]\nof = [\"8\"]\nmps_clients = { value = 0, source = \"guess\" }\n"),
            "g.toml:3: facts.mps_clients: expected a whole number from 1 to 1024");
  EXPECT_EQ(
      error_of("[[facts]]\nof = [\"8\"]\nmps_clients = 16\n"),
      "g.toml:3: facts.mps_clients: a fact needs a source: { value = ..., source = \"...\" }");
  EXPECT_EQ(error_of("[[facts]]\nof = [\"8\"]\nmps_client = { value = 1, source = \"guess\" }\n"),
            "g.toml:3: facts.mps_client: unknown key");
  EXPECT_EQ(error_of("[[facts]]\nof = [\"eight\"]\n"),
            "g.toml:2: facts.of: expected capabilities, as in [\"7\", \"8.6\"]");
  EXPECT_EQ(
      error_of("[[facts]]\nof = [\"8\"]\nmps_clients = { value = 16, source = \"guess\" }\n"
               "[[facts]]\nof = [\"7\", \"8\"]\nmps_clients = { value = 9, source = \"guess\" }\n"),
      "g.toml:6: facts.mps_clients: another group gives it to 8, too");
  EXPECT_EQ(
      error_of("[[facts]]\nof = [\"8\"]\nnccl_tuning = { value = \"x\", source = \"guess\" }\n"),
      "g.toml:3: facts.nccl_tuning: expected one of volta, ampere, hopper, blackwell");
  EXPECT_EQ(
      error_of("[[facts]]\nof = [\"8\"]\ncluster_launch = { value = 1, source = \"guess\" }\n"),
      "g.toml:3: facts.cluster_launch: expected true or false");
  EXPECT_EQ(
      error_of("[[facts]]\nof = [\"8\"]\nmps_clients = { value = 16, source = \"hearsay\" }\n"),
      "g.toml:3: facts.mps_clients: source 'hearsay' is not in [sources]; add hearsay = \"...\" "
      "there");
}

TEST(Generation, OfAnUnknownCapabilityNamesTheMissingKeys) {
  const auto spec = invented("13.7", "");
  ASSERT_FALSE(spec);
  EXPECT_TRUE(spec.error().message.starts_with(
      "x.toml:10: generation: catalog/generations.toml does not give compute capability 13.7 these "
      "keys: threads_per_multiprocessor, blocks_per_multiprocessor, "))
      << spec.error().message;
  EXPECT_TRUE(spec.error().message.ends_with(
      ", nvlink_switches; give them in the table [generation] (docs/reference/gpu-file.md)"));
}

TEST(Generation, IsThatOfTheFileBeforeThatOfItsCapability) {
  const auto spec =
      invented("8.6", "[generation]\nmps_clients = { value = 7, source = \"whitepaper\" }\n");
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->generation.mps_clients, 7);
  EXPECT_EQ(spec->generation.blocks_per_multiprocessor, 16);
  EXPECT_TRUE(spec->sources.at("generation.mps_clients").starts_with("\"NVIDIA Ampere GA102"));
  EXPECT_TRUE(spec->sources.at("generation.nvml_architecture").contains("nvml.h"));
}

TEST(Generation, LikeAnotherCapabilitySaysSoInItsSources) {
  const auto spec = invented("13.7",
                             "[generation]\nlike = { value = \"8.6\", source = \"techpowerup\" }\n"
                             "mps_clients = { value = 7, source = \"whitepaper\" }\n");
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->generation.mps_clients, 7);
  EXPECT_EQ(spec->generation.nvlink_link_gb_per_s, 14.0625);
  EXPECT_TRUE(spec->sources.at("generation.nvml_architecture")
                  .starts_with("As of compute capability 8.6 (\"GeForce RTX 3090\", TechPowerUp"))
      << spec->sources.at("generation.nvml_architecture");
}

TEST(Generation, LikeAnotherCapabilityIsRefusedWhereItHasNoEffect) {
  const auto spec =
      invented("8.6", "[generation]\nlike = { value = \"9.0\", source = \"techpowerup\" }\n");
  ASSERT_FALSE(spec);
  EXPECT_TRUE(spec.error().message.ends_with(
      "generation.like: catalog/generations.toml has all facts of compute capability 8.6"))
      << spec.error().message;
}

TEST(FactTexts, AreInTheUnitsOfTheFile) {
  std::string all;
  for (const auto& [key, value] : fact_texts(generation_facts(9, 0).value())) {
    all += std::string(key) + "=" + value + " ";
  }
  EXPECT_TRUE(all.contains("time_slice_us=2050 ")) << all;
  EXPECT_TRUE(all.contains("fit_start=H100-SXM5-80GB nccl_tuning=hopper nvlink_version=4 "));
}

}  // namespace
}  // namespace gpemu::profile
