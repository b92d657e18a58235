// SPDX-License-Identifier: Apache-2.0
#include "gpemu/scheduling/fleet.hpp"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

namespace gpemu::scheduling {
namespace {

Fleet fleet_of(std::initializer_list<std::uint32_t> gpus) {
  std::vector<Server> servers;
  for (const std::uint32_t count : gpus) servers.push_back({.name = "s", .gpus = count});
  return Fleet::create(servers).value();
}

std::vector<ServerGpus> parts_of(const std::optional<GpuSet>& set) {
  std::vector<ServerGpus> parts;
  for (std::size_t i = 0; set && i < set->parts(); ++i) parts.push_back(set->part(i));
  return parts;
}

using Parts = std::vector<ServerGpus>;

TEST(FleetTest, CountsTheGpusOfEachKind) {
  const Fleet fleet = Fleet::create({{.name = "a", .gpu = "V100", .gpus = 8},
                                     {.name = "b", .gpu = "K80", .gpus = 4},
                                     {.name = "c", .gpu = "V100", .gpus = 2}})
                          .value();
  EXPECT_EQ(fleet.gpus_by_kind(), (std::vector<std::uint32_t>{10, 4}));
}

TEST(FleetTest, RefusesNumbersOfGpusThatAWordCannotHold) {
  EXPECT_FALSE(Fleet::uniform(1, 65).has_value());
  EXPECT_FALSE(Fleet::uniform(1, 0).has_value());
  EXPECT_FALSE(Fleet::uniform(std::uint64_t{1} << 31U, 1).has_value());
  EXPECT_EQ(Fleet::uniform(2, 64).value().gpus(), 128U);
}

TEST(FreeResourcesTest, TakesTheFirstServerWithEnough) {
  const Fleet fleet = fleet_of({4, 4});
  FreeResources free(fleet);
  EXPECT_EQ(parts_of(free.take_together({.gpus = 3})), (Parts{{0, 0b0111}}));
  EXPECT_EQ(parts_of(free.take_together({.gpus = 2})), (Parts{{1, 0b0011}}));
  EXPECT_EQ(parts_of(free.take_together({.gpus = 1})), (Parts{{0, 0b1000}}));
  EXPECT_EQ(free.take_together({.gpus = 3}), std::nullopt);
  EXPECT_EQ(free.count(), 2U);
}

TEST(FreeResourcesTest, TakesWholeServersAndTheRestOfAnother) {
  const Fleet fleet = fleet_of({4, 4, 4});
  FreeResources free(fleet);
  ASSERT_TRUE(free.take_together({.gpus = 1}));
  EXPECT_EQ(parts_of(free.take_together({.gpus = 6})), (Parts{{1, 0b1111}, {0, 0b0110}}));
  // Five are free, but not four on one server besides a whole one.
  ASSERT_TRUE(free.take_together({.gpus = 3}));
  EXPECT_EQ(free.count(), 2U);
  EXPECT_EQ(free.take_together({.gpus = 2}), std::nullopt);
}

TEST(FreeResourcesTest, TakesAnywhereFromTheFullestServersFirst) {
  const Fleet fleet = fleet_of({4, 4});
  FreeResources free(fleet);
  ASSERT_TRUE(free.take({}, {}));
  ASSERT_TRUE(free.take_together({.gpus = 3}));
  EXPECT_EQ(parts_of(free.take_anywhere(2)), (Parts{{0, 0b1000}, {1, 0b0001}}));
  EXPECT_EQ(free.take_anywhere(4), std::nullopt);
}

TEST(FreeResourcesTest, FindsServersBeyondTheFirstWords) {
  const Fleet fleet = Fleet::uniform(10000, 1).value();
  FreeResources free(fleet);
  for (std::uint32_t server = 0; server < 9000; ++server) {
    EXPECT_EQ(parts_of(free.take_together({.gpus = 1})), (Parts{{server, 1}}));
  }
  GpuSet back;
  back.add({.server = 5000, .gpus = 1});
  free.give_back(back, {});
  EXPECT_EQ(parts_of(free.take_together({.gpus = 1})), (Parts{{5000, 1}}));
  EXPECT_EQ(parts_of(free.take_together({.gpus = 1})), (Parts{{9000, 1}}));
}

TEST(FreeResourcesTest, TakesNoGpuTwice) {
  const Fleet fleet = fleet_of({2});
  FreeResources free(fleet);
  const std::optional<GpuSet> both = free.take_together({.gpus = 2});
  ASSERT_TRUE(both);
  EXPECT_FALSE(free.take(*both, {.gpus = 2}));
  free.give_back(*both, {.gpus = 2});
  EXPECT_TRUE(free.take(*both, {.gpus = 2}));
}

TEST(FreeResourcesTest, SharesOfAGpuAreTakenFromTheFullestOne) {
  const Fleet fleet = fleet_of({2});
  FreeResources free(fleet);
  const Demand third{.gpus = 1, .gpu_share = 300, .host = {}};
  const Demand most{.gpus = 1, .gpu_share = 800, .host = {}};
  EXPECT_EQ(parts_of(free.take_together(third)), (Parts{{0, 0b01}}));
  EXPECT_EQ(parts_of(free.take_together(most)), (Parts{{0, 0b10}}));
  EXPECT_EQ(free.count(), 0U);
  EXPECT_EQ(parts_of(free.take_together(third)), (Parts{{0, 0b01}}));
  EXPECT_EQ(free.share_of(0, 0), 400U);
  EXPECT_EQ(free.take_together({.gpus = 1}), std::nullopt);
  GpuSet first;
  first.add({.server = 0, .gpus = 0b01});
  EXPECT_FALSE(free.take(first, most));
  free.give_back(first, third);
  EXPECT_EQ(free.share_of(0, 0), 700U);
  free.give_back(first, third);
  EXPECT_EQ(free.count(), 1U);
  EXPECT_EQ(parts_of(free.take_together({.gpus = 1})), (Parts{{0, 0b01}}));
}

TEST(FreeResourcesTest, CoresMemoryAndKindsCount) {
  const Fleet fleet = Fleet::create({{.name = "a", .gpu = "A", .gpus = 4, .host = {8000, 100}},
                                     {.name = "b", .gpu = "B", .gpus = 4, .host = {8000, 200}}})
                          .value();
  FreeResources free(fleet);
  EXPECT_EQ(parts_of(free.take_together({.gpus = 1, .host = {1000, 150}})), (Parts{{1, 0b0001}}));
  EXPECT_EQ(parts_of(free.take_together({.gpus = 1, .kinds = 0b10})), (Parts{{1, 0b0010}}));
  EXPECT_EQ(free.take_together({.gpus = 1, .host = {1000, 101}}), std::nullopt);
  // Without GPUs, too.
  const Demand host{.gpus = 0, .host = {8000, 10}};
  const std::optional<GpuSet> taken = free.take_together(host);
  EXPECT_EQ(parts_of(taken), (Parts{{0, 0}}));
  EXPECT_EQ(free.take_together({.gpus = 1, .host = {1, 0}, .kinds = 0b01}), std::nullopt);
  free.give_back(*taken, host);
  EXPECT_TRUE(free.take_together({.gpus = 1, .host = {1, 0}, .kinds = 0b01}));
}

TEST(FreeResourcesTest, AJobOnSeveralServersDividesItsCores) {
  const Fleet fleet = Fleet::create({{.name = "a", .gpus = 4, .host = {8000, kUnlimited}},
                                     {.name = "b", .gpus = 4, .host = {8000, kUnlimited}}})
                          .value();
  FreeResources free(fleet);
  EXPECT_EQ(parts_of(free.take_together({.gpus = 6, .host = {9001, 0}})),
            (Parts{{0, 0b1111}, {1, 0b0011}}));
  EXPECT_EQ(free.host_of(0).millicores, 8000U - 6001);
  EXPECT_EQ(free.host_of(1).millicores, 8000U - 3001);
}

TEST(FreeResourcesTest, KeepsOnlyWhatIsFreeInBoth) {
  const Fleet fleet = Fleet::create({{.name = "a", .gpus = 4, .host = {8000, 100}}}).value();
  FreeResources one(fleet);
  FreeResources other(fleet);
  ASSERT_TRUE(one.take_together({.gpus = 1, .gpu_share = 400, .host = {3000, 10}}));
  ASSERT_TRUE(other.take_together({.gpus = 2, .host = {1000, 50}}));
  one.keep_what_is_also_in(other);
  EXPECT_EQ(one.on(0), 0b1100U);
  EXPECT_EQ(one.share_of(0, 0), 0U);
  EXPECT_EQ(one.host_of(0), (HostShare{5000, 50}));
}

}  // namespace
}  // namespace gpemu::scheduling
