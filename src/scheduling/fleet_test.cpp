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

}  // namespace
}  // namespace gpemu::scheduling
