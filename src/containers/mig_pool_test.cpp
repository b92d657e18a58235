// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/base/file.hpp"
#include "gpemu/base/temporary_folder.hpp"
#include "gpemu/containers/gpu_places.hpp"
#include "gpemu/containers/gpu_pool.hpp"
#include "gpemu/device/device_config.hpp"
#include "gpemu/device/node.hpp"
#include "gpemu/device/node_view.hpp"
#include "gpemu/profile/gpu_spec.hpp"

namespace gpemu::containers {
namespace {

using Names = std::vector<std::string>;

class MigPoolTest : public testing::Test {
 protected:
  MigPoolTest() {
    std::filesystem::create_directories(installation() / "lib/gpemu/shims/bin");
    write_file_atomically(installation() / "lib/gpemu/shims/libgpemu_audit.so", "").value();
  }

  [[nodiscard]] std::filesystem::path installation() const { return folder_.path() / "gpemu"; }

  /// Two A100s, divided into such instances.
  [[nodiscard]] GpuPoolOptions options(Names mig, int replicas = 1) const {
    const profile::GpuSpec spec =
        profile::load_gpu_spec(std::filesystem::path(GPEMU_GPUS_FOLDER) / "A100-SXM4-40GB.toml")
            .value();
    return {.machine = "n1",
            .gpus = std::vector(2, device::device_config(spec)),
            .faults = {},
            .slices = {},
            .folder = folder_.path() / "state",
            .installation = installation(),
            .replicas = replicas,
            .mig_profiles = spec.mig_profiles,
            .mig = std::move(mig)};
  }
  [[nodiscard]] Result<GpuPool> pool(Names mig, int replicas = 1) const {
    return GpuPool::create(options(std::move(mig), replicas));
  }
  static Names profiles_of(const GpuPool& pool) {
    Names names;
    for (const PoolDevice& device : pool.devices()) {
      names.push_back(fmt::format("{} {}", device.gpu, device.profile));
    }
    std::ranges::sort(names);
    return names;
  }
  static std::filesystem::path node_of(const ContainerEdits& edits) {
    return std::ranges::find(edits.mounts, kNodeFolder, &Mount::container)->host;
  }
  /// Returns what a container sees: the UUIDs of its MIG devices, in its node's order.
  static Names seen(const ContainerEdits& edits) {
    const auto node = device::Node::open(kNodeName, node_of(edits)).value();
    const profile::GpuSpec spec =
        profile::load_gpu_spec(std::filesystem::path(GPEMU_GPUS_FOLDER) / "A100-SXM4-40GB.toml")
            .value();
    Names uuids;
    for (int gpu = 0; gpu < node->device_count(); ++gpu) {
      EXPECT_TRUE(node->mig(gpu).mode().divided);
      const std::string uuid = node->device_snapshot(gpu, TimePoint{}).uuid;
      for (const auto& mig : node->mig(gpu).layout(spec.mig_profiles).devices(gpu, uuid)) {
        uuids.push_back(mig.uuid);
      }
    }
    return uuids;
  }

  TemporaryFolder folder_ =
      TemporaryFolder::create(testing::TempDir(), "gpemu-containers-").value();
};

TEST_F(MigPoolTest, EachGpuIsDividedAlike) {
  const GpuPool mixed = pool({"2g.10gb", "3g.20gb", "2g.10gb"}).value();
  EXPECT_EQ(profiles_of(mixed),
            (Names{"0 2g.10gb", "0 2g.10gb", "0 3g.20gb", "1 2g.10gb", "1 2g.10gb", "1 3g.20gb"}));
  for (const PoolDevice& device : mixed.devices()) EXPECT_TRUE(device.id.starts_with("MIG-"));
  EXPECT_EQ(pool(Names(7, "1g.5gb")).value().devices().size(), 14U);
}

TEST_F(MigPoolTest, AContainerHasItsInstancesAloneUnderTheirNames) {
  GpuPool all = pool(Names(7, "1g.5gb")).value();
  const Names one{all.devices()[3].id};
  EXPECT_EQ(seen(all.allocate(one).value()), one);
  const Names two{all.devices()[0].id, all.devices()[9].id};
  const ContainerEdits edits = all.allocate(two).value();
  EXPECT_EQ(seen(edits), two);
  EXPECT_NE(
      std::ranges::find(edits.environment, std::pair<std::string, std::string>(
                                               "NVIDIA_VISIBLE_DEVICES", two[0] + "," + two[1])),
      edits.environment.end());
}

TEST_F(MigPoolTest, GpusMayBeThoseOfAMachine) {
  GpuPoolOptions of_dgx = options(Names(2, "3g.20gb"));
  of_dgx.topology = profile::find_topology(GPEMU_TOPOLOGIES_FOLDER, "dgx-a100").value();
  of_dgx.gpus.resize(8, of_dgx.gpus.front());
  GpuPool dgx = GpuPool::create(std::move(of_dgx)).value();
  Names all;
  for (const PoolDevice& device : dgx.devices()) all.push_back(device.id);
  ASSERT_EQ(all.size(), 16U);
  EXPECT_EQ(dgx.prefer(all, {}, 2), Names(all.begin(), all.begin() + 2));
  const ContainerEdits edits = dgx.allocate(Names{all[15]}).value();
  EXPECT_EQ(seen(edits), Names{all[15]});
  const auto node = device::Node::open(kNodeName, node_of(edits)).value();
  ASSERT_NE(node->topology(), nullptr);
  EXPECT_EQ(node->topology()->gpus.size(), 1U);
}

TEST_F(MigPoolTest, ContainersOnOneGpuDisturbNobody) {
  GpuPool all = pool(Names(7, "1g.5gb")).value();
  const auto first = node_of(all.allocate(Names{all.devices()[0].id}).value());
  const auto second = node_of(all.allocate(Names{all.devices()[1].id}).value());
  EXPECT_TRUE(std::filesystem::exists(first));
  const auto both = node_of(all.allocate(Names{all.devices()[1].id, all.devices()[2].id}).value());
  EXPECT_TRUE(std::filesystem::exists(first));
  EXPECT_FALSE(std::filesystem::exists(second)) << "its instance is another container's";
  EXPECT_TRUE(std::filesystem::exists(both));
}

TEST_F(MigPoolTest, AClaimHasTheSameInstancesEachTime) {
  GpuPool all = pool({}).value();
  const GpuPart part{.gpu = 1, .mig = MigPlacement{.profile = 9, .start = 4}};
  const ContainerEdits given = all.give("claim", std::vector{part}).value();
  ASSERT_EQ(seen(given).size(), 1U);
  const auto node = device::Node::open(kNodeName, node_of(given)).value();
  EXPECT_EQ(node_of(all.give("claim", std::vector{part}).value()), node_of(given));
  EXPECT_FALSE(device::NodeView::of(node)->over()) << "a container may use it";
  const auto mixed = all.give("other", std::vector{part, GpuPart{.gpu = 0}});
  EXPECT_EQ(mixed.error().code, ErrorCode::kInvalidArgument);
  const auto impossible = all.give(
      "other", std::vector{GpuPart{.gpu = 0, .mig = MigPlacement{.profile = 9, .start = 1}}});
  EXPECT_EQ(impossible.error().code, ErrorCode::kInvalidArgument);
}

TEST_F(MigPoolTest, WhatDoesNotFitIsNamed) {
  EXPECT_NE(
      pool({"5g.5gb"}).error().message.find("MIG has no profile '5g.5gb' on this GPU; it has"),
      std::string::npos);
  EXPECT_NE(pool({"4g.20gb", "4g.20gb"})
                .error()
                .message.find("a GPU has no room for the instances 4g.20gb, 4g.20gb"),
            std::string::npos);
  EXPECT_EQ(pool({"1g.5gb"}, 2).error().code, ErrorCode::kUnsupported);
}

TEST(GpuPlacesTest, AreInTheFoldersName) {
  const GpuPlaces whole{{0, {}}, {3, {}}};
  const GpuPlaces mig{{0, {{.profile = 9, .start = 4}, {.profile = 19, .start = 0}}}, {2, {}}};
  EXPECT_EQ(folder_name(whole), "gpus-0-3");
  EXPECT_EQ(folder_name(mig), "gpus-0.9.4-0.19.0-2");
  EXPECT_EQ(places_of_folder("gpus-0-3@a.b"), whole);
  EXPECT_EQ(places_of_folder(folder_name(mig)), mig);
  EXPECT_TRUE(places_of_folder("machine").empty());
  EXPECT_TRUE(places_of_folder("tenant-0-1@a").empty());
  EXPECT_TRUE(overlap(whole, mig));
  EXPECT_TRUE(overlap(mig, {{0, {{.profile = 19, .start = 0}}}}));
  EXPECT_FALSE(overlap(mig, {{0, {{.profile = 19, .start = 1}}}, {1, {}}}));
}

}  // namespace
}  // namespace gpemu::containers
