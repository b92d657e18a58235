// SPDX-License-Identifier: Apache-2.0
#include "profile/gpu_spec_table.hpp"

#include <algorithm>
#include <filesystem>

#include <gtest/gtest.h>

namespace gpemu::tools {
namespace {

TEST(SpecNumbers, AreAllThatTheFileGives) {
  for (const auto& file : std::filesystem::directory_iterator(GPEMU_GPUS_FOLDER)) {
    const profile::GpuSpec spec = profile::load_gpu_spec(file.path()).value();
    // The profiles of MIG are tables, which `gpemu mig -lgip` shows; others are no numbers.
    const auto is_number = [](const auto& source) {
      return !source.first.starts_with("mig.") && !source.first.starts_with("generation.");
    };
    EXPECT_EQ(spec_numbers(spec).size(), std::ranges::count_if(spec.sources, is_number))
        << file.path();
  }
}

TEST(SpecNumbers, AreInTheUnitsOfTheFile) {
  const profile::GpuSpec spec =
      profile::load_gpu_spec(GPEMU_GPUS_FOLDER "/V100-PCIE-32GB.toml").value();
  std::map<std::string_view, double> values;
  for (const SpecNumber& number : spec_numbers(spec)) values[number.path] = number.value;
  EXPECT_EQ(values.at("compute.capability"), 7.0);
  EXPECT_EQ(values.at("compute.fp32_tflops"), 14);
  EXPECT_EQ(values.at("memory.capacity_mib"), 32768);
  EXPECT_EQ(values.at("memory.bandwidth_gb_per_s"), 900);
  EXPECT_EQ(values.at("links.pinned_copy_gb_per_s"), 12);
}

}  // namespace
}  // namespace gpemu::tools
