// SPDX-License-Identifier: Apache-2.0
// Tests the packs that come with gpemu, by what they say of themselves.
#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/profile/gpu_spec.hpp"
#include "gpemu/profile/pack.hpp"

namespace gpemu::profile {
namespace {

namespace fs = std::filesystem;

fs::path gpemu_pack() {
  return fs::path(GPEMU_PACKS_FOLDER) / "gpemu-vldb25";
}

std::vector<std::string> known_gpus() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(GPEMU_GPUS_FOLDER)) {
    names.push_back(entry.path().stem().string());
  }
  return names;
}

TEST(PackData, HasNoFaults) {
  const std::vector<std::string> gpus = known_gpus();
  int packs = 0;
  for (const auto& entry : fs::directory_iterator(GPEMU_PACKS_FOLDER)) {
    if (!entry.is_directory()) continue;
    ++packs;
    for (const PackFault& fault : check_pack(entry.path(), gpus)) {
      ADD_FAILURE() << fault.file.string() << ":" << fault.line << ": " << fault.message;
    }
  }
  EXPECT_GE(packs, 1);
}

TEST(GpemuPack, CoversTheTables) {
  const Result<Pack> pack = load_pack(gpemu_pack());
  ASSERT_TRUE(pack.has_value()) << pack.error().message;
  EXPECT_EQ(pack->models.size(), 36U);
  std::map<Quantity, int> rows;
  std::map<Quantity, int> curves;
  std::set<std::string> gpus;
  for (const Curve& curve : pack->curves) {
    rows[curve.key.quantity] += curve.measured_rows;
    ++curves[curve.key.quantity];
    gpus.insert(curve.key.gpu);
    EXPECT_EQ(curve.key.precision, curve.key.gpu == "A100-SXM4-40GB" ? "tf32" : "fp32");
  }
  EXPECT_EQ(gpus.size(), 6U);
  EXPECT_EQ(rows[Quantity::kForward], 43684);
  EXPECT_EQ(rows[Quantity::kBackwardOptimizer], 43684);
  EXPECT_EQ(rows[Quantity::kInputCopyPageable], 55296);
  EXPECT_EQ(curves[Quantity::kForward], 216);
  EXPECT_EQ(curves[Quantity::kBackwardOptimizer], 216);
  EXPECT_EQ(curves[Quantity::kInputCopyPageable], 216);
  // No memory row of four pairs of model and GPU could be told to be measured.
  EXPECT_EQ(curves[Quantity::kPeakMemory], 212);
  EXPECT_EQ(curves[Quantity::kPersistentMemory], 212);
  EXPECT_EQ(pack->limits.size(), 216U);
}

TEST(GpemuPack, ReproducesTheMeasuredTimes) {
  const Result<Pack> pack = load_pack(gpemu_pack());
  ASSERT_TRUE(pack.has_value()) << pack.error().message;
  double sum = 0;
  int rows = 0;
  int loose_curves = 0;
  for (const Curve& curve : pack->curves) {
    if (curve.key.quantity != Quantity::kForward &&
        curve.key.quantity != Quantity::kBackwardOptimizer) {
      continue;
    }
    sum += curve.mean_relative_error * curve.measured_rows;
    rows += curve.measured_rows;
    loose_curves += curve.p95_relative_error > 0.02 ? 1 : 0;
  }
  EXPECT_LE(sum / rows, 0.006);
  // With each curve within the bar, so are all together.
  EXPECT_EQ(loose_curves, 0);
}

TEST(GpemuPack, IsSmall) {
  std::uintmax_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(gpemu_pack())) {
    const bool measured = entry.path().parent_path().filename() != "operations";
    if (measured && entry.is_regular_file()) bytes += entry.file_size();
  }
  EXPECT_LE(bytes, 600'000U);
}

TEST(GpemuPack, KnowsWhereMemoryEnds) {
  const Result<Pack> pack = load_pack(gpemu_pack());
  ASSERT_TRUE(pack.has_value()) << pack.error().message;
  const auto limit = [&](std::string_view gpu, std::string_view model) {
    return *std::ranges::find_if(pack->limits, [&](const MemoryLimit& candidate) {
      return candidate.gpu == gpu && candidate.model == model;
    });
  };
  EXPECT_EQ(limit("K80", "resnext101_32x8d").largest_batch_measured, 41);
  EXPECT_EQ(limit("K80", "resnext101_32x8d").first_batch_out_of_memory, 42);
  EXPECT_EQ(limit("A100-SXM4-40GB", "resnext101_32x8d").first_batch_out_of_memory, 157);
  EXPECT_EQ(limit("V100-PCIE-32GB", "resnet50").largest_batch_measured, 256);
  EXPECT_EQ(limit("V100-PCIE-32GB", "resnet50").first_batch_out_of_memory, std::nullopt);
}

}  // namespace
}  // namespace gpemu::profile
