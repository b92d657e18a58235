// SPDX-License-Identifier: Apache-2.0
#include "gpemu/containers/node_labels.hpp"

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/device/device_config.hpp"
#include "gpemu/profile/gpu_spec.hpp"

namespace gpemu::containers {
namespace {

std::map<std::string, std::string> labels_of(const std::string& gpu, std::size_t count,
                                             int replicas = 1) {
  const auto spec =
      profile::load_gpu_spec(std::filesystem::path(GPEMU_GPUS_FOLDER) / (gpu + ".toml")).value();
  return node_labels(std::vector(count, device::device_config(spec)), replicas);
}

TEST(NodeLabels, AreThoseOfGpuFeatureDiscovery) {
  auto labels = labels_of("A100-SXM4-40GB", 8);
  // As on such machines. Source: examples in NVIDIA's documentation of GPU feature discovery.
  EXPECT_EQ(labels["nvidia.com/gpu.product"], "NVIDIA-A100-SXM4-40GB");
  EXPECT_EQ(labels["nvidia.com/gpu.count"], "8");
  EXPECT_EQ(labels["nvidia.com/gpu.memory"], "40960");
  EXPECT_EQ(labels["nvidia.com/gpu.family"], "ampere");
  EXPECT_EQ(labels["nvidia.com/gpu.compute.major"], "8");
  EXPECT_EQ(labels["nvidia.com/gpu.compute.minor"], "0");
  EXPECT_EQ(labels["nvidia.com/gpu.replicas"], "1");
  EXPECT_EQ(labels["nvidia.com/gpu.sharing-strategy"], "none");
  EXPECT_EQ(labels["nvidia.com/mig.capable"], "true");
  EXPECT_EQ(labels["nvidia.com/cuda.driver-version.full"], "595.45.04");
  EXPECT_EQ(labels["nvidia.com/cuda.driver-version.revision"], "04");
  EXPECT_EQ(labels["nvidia.com/cuda.runtime-version.full"], "13.2");
}

TEST(NodeLabels, SayThatGpusAreShared) {
  auto labels = labels_of("V100-PCIE-32GB", 1, 4);
  EXPECT_EQ(labels["nvidia.com/gpu.product"], "Tesla-V100-PCIE-32GB-SHARED");
  EXPECT_EQ(labels["nvidia.com/gpu.replicas"], "4");
  EXPECT_EQ(labels["nvidia.com/gpu.sharing-strategy"], "time-slicing");
  EXPECT_EQ(labels["nvidia.com/mig.capable"], "false");
}

TEST(NodeLabels, FamiliesHaveTheirFullNames) {
  EXPECT_EQ(labels_of("RTX-4090", 1)["nvidia.com/gpu.family"], "ada-lovelace");
  EXPECT_EQ(labels_of("H100-SXM5-80GB", 1)["nvidia.com/gpu.family"], "hopper");
  EXPECT_EQ(labels_of("V100-PCIE-32GB", 1)["nvidia.com/gpu.family"], "volta");
}

TEST(NodeLabels, AMachineWithoutGpusHasNone) {
  EXPECT_TRUE(node_labels({}, 1).empty());
}

TEST(NodeLabels, MigDevicesHaveLabelsOfTheirProfilesOrAreTheGpus) {
  const auto spec =
      profile::load_gpu_spec(std::filesystem::path(GPEMU_GPUS_FOLDER) / "A100-SXM4-40GB.toml")
          .value();
  const std::vector gpus(8, device::device_config(spec));
  const std::vector<std::string> mixed{"3g.20gb", "1g.5gb", "1g.5gb"};
  auto labels = mig_node_labels(gpus, spec.mig_profiles, mixed, true).value();
  EXPECT_EQ(labels["nvidia.com/mig.strategy"], "mixed");
  EXPECT_EQ(labels["nvidia.com/gpu.product"], "NVIDIA-A100-SXM4-40GB");
  EXPECT_EQ(labels["nvidia.com/mig-1g.5gb.count"], "16");
  EXPECT_EQ(labels["nvidia.com/mig-3g.20gb.count"], "8");
  EXPECT_EQ(labels["nvidia.com/mig-3g.20gb.product"], "NVIDIA-A100-SXM4-40GB-MIG-3g.20gb");
  EXPECT_EQ(labels["nvidia.com/mig-3g.20gb.multiprocessors"], "42");
  EXPECT_EQ(labels["nvidia.com/mig-3g.20gb.slices.gi"], "3");
  const std::vector<std::string> alike(7, "1g.5gb");
  labels = mig_node_labels(gpus, spec.mig_profiles, alike, false).value();
  EXPECT_EQ(labels["nvidia.com/mig.strategy"], "single");
  EXPECT_EQ(labels["nvidia.com/gpu.product"], "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb");
  EXPECT_EQ(labels["nvidia.com/gpu.count"], "56");
  EXPECT_FALSE(mig_node_labels(gpus, spec.mig_profiles, mixed, false));
}

}  // namespace
}  // namespace gpemu::containers
