// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/scheduling/placement.hpp"

#include "go_random.hpp"
#include "placements/place_demands.hpp"
#include "random_draws.hpp"

namespace gpemu::scheduling {
namespace {

using Places = std::vector<Place>;

/// Left in the first case: 56 cores of 128 and 3 GPUs of 8, half of which is 41 %, on the first
/// server; 24 and 1, half of which is 16 %, on the second.
TEST(PlacementsTest, BestFitLeavesTheLeast) {
  const Places places = places_by("best-fit", {server_of(4, 64), server_of(2, 32)},
                                  {whole_gpus(1, 8), whole_gpus(2, 8), share_of_gpu(500, 4),
                                   share_of_gpu(500, 4), whole_gpus(0, 20), whole_gpus(1)});
  EXPECT_EQ(places, (Places{{1, {0}}, {0, {0, 1}}, {1, {1}}, {1, {1}}, {0, {}}, {0, {2}}}));
}

/// The sums are 64 * 8 / 128^2 + 4 * 1 / 8^2 = 0.094 and half of it; later both servers have 24
/// cores and one GPU, and the first is taken.
TEST(PlacementsTest, DotProductKeepsLargeServersFree) {
  const Places places = places_by("dot-product", {server_of(4, 64), server_of(2, 32)},
                                  {whole_gpus(1, 8), whole_gpus(2, 8), whole_gpus(1, 32),
                                   whole_gpus(1), whole_gpus(0, 8), share_of_gpu(500)});
  EXPECT_EQ(places, (Places{{1, {0}}, {0, {0, 1}}, {0, {2}}, {0, {3}}, {0, {}}, {1, {1}}}));
}

/// Scores in turn: 29 and 31 (free servers), 29 and 93 (a shared GPU), 29 and 49 (a whole GPU of a
/// server in use), 29 alone, 48 alone, 49 and 98.
TEST(PlacementsTest, GpuPackingSharesFirst) {
  const Places places = places_by("gpu-packing", {server_of(4, 64), server_of(2, 64)},
                                  {share_of_gpu(300), share_of_gpu(500), share_of_gpu(400),
                                   whole_gpus(1), whole_gpus(2), share_of_gpu(200)});
  EXPECT_EQ(places, (Places{{1, {0}}, {1, {0}}, {1, {1}}, {0, {0}}, {0, {1, 2}}, {1, {0}}}));
}

/// Scores in turn: 37 and 37 (free servers), 14 (only others) and 37, 89 (only such) and 37, 15 and
/// 90, 15 and 18 (only others on both), 15 alone.
TEST(PlacementsTest, GpuClusteringKeepsSizesTogether) {
  const Places places = places_by("gpu-clustering", {server_of(4, 64), server_of(4, 64)},
                                  {share_of_gpu(500), whole_gpus(1), share_of_gpu(500),
                                   whole_gpus(1), whole_gpus(2), whole_gpus(1)});
  EXPECT_EQ(places, (Places{{0, {0}}, {1, {0}}, {0, {0}}, {1, {1}}, {1, {2, 3}}, {0, {1}}}));
}

/// Half of the demands are whole GPUs, and half are half ones. The fragmentation grows by 250
/// thousandths on both servers; it shrinks by 250 if the half GPU is filled; it grows by 300 on
/// both servers; it shrinks by 300, or grows by 350.
TEST(PlacementsTest, FgdFragmentsTheLeast) {
  const std::array typical{TypicalDemand{whole_gpus(1), 0.5},
                           TypicalDemand{share_of_gpu(500), 0.5}};
  const Places places = places_by("fgd", {server_of(2, 64), server_of(2, 64)},
                                  {share_of_gpu(500), share_of_gpu(500), share_of_gpu(700),
                                   share_of_gpu(300), whole_gpus(2), whole_gpus(1)},
                                  {.typical = typical});
  EXPECT_EQ(places, (Places{{0, {0}}, {0, {0}}, {0, {1}}, {0, {1}}, {1, {0, 1}}, kNowhere}));
}

/// The last server has too few cores. The share fits on all GPUs but the one that is taken.
TEST(PlacementsTest, RandomDrawsAServerAndAGpu) {
  GoRandom random(7);
  const int first = static_cast<int>(random.below(3));
  const int second = static_cast<int>(random.below(3));
  const int taken = second == first ? 1 : 0;
  const int gpu = taken + static_cast<int>(random.below(static_cast<std::uint32_t>(4 - taken)));
  const Places places =
      places_by("random", {server_of(4, 2), server_of(4, 2), server_of(4, 2), server_of(4, 0)},
                {whole_gpus(1, 1), share_of_gpu(600, 1)}, {.typical = {}, .seed = 7});
  EXPECT_EQ(places, (Places{{first, {0}}, {second, {gpu}}}));
}

TEST(PlacementsTest, OnlyServersOfTheRightKind) {
  Server other = server_of(2, 64);
  other.gpu = "T4";
  Demand demand = whole_gpus(1);
  demand.kinds = 1U << 1U;
  for (const PlacementEntry& entry : placements()) {
    const Places places =
        places_by(entry.name, {server_of(2, 64), other}, {demand, demand, demand});
    EXPECT_EQ(places, (Places{{1, {0}}, {1, {1}}, kNowhere})) << entry.name;
  }
}

/// What the demands of a test have, counted apart from FreeResources.
struct Accounts {
  std::vector<std::array<std::int64_t, 8>> gpus;
  std::vector<std::int64_t> millicores;
  std::vector<std::int64_t> memory_mib;

  /// Adds what a demand takes, or gives back with the sign -1. Returns whether all is within
  /// bounds.
  bool change(const ServerGpus& part, const Demand& demand, std::int64_t sign) {
    bool good = static_cast<std::uint32_t>(std::popcount(part.gpus)) == demand.gpus;
    for (std::size_t gpu = 0; gpu < 8; ++gpu) {
      if ((part.gpus >> gpu & 1U) == 0) continue;
      std::int64_t& left = gpus[part.server][gpu];
      left -= sign * demand.gpu_share;
      good = good && left >= 0 && left <= kWholeGpu;
    }
    std::int64_t& cores = millicores[part.server];
    std::int64_t& memory = memory_mib[part.server];
    cores -= sign * static_cast<std::int64_t>(demand.host.millicores);
    memory -= sign * static_cast<std::int64_t>(demand.host.memory_mib);
    return good && cores >= 0 && memory >= 0;
  }
};

Demand drawn_demand(GoRandom& random) {
  constexpr std::array<std::uint32_t, 5> kGpus{0, 1, 1, 2, 4};
  Demand demand;
  demand.gpus = kGpus[random.below(5)];
  if (demand.gpus == 1 && random.below(2) == 0) demand.gpu_share = 10 + 10 * random.below(99);
  demand.host = {.millicores = 500 * (1 + random.below(40)), .memory_mib = 64 * random.below(100)};
  if (random.below(4) == 0) demand.kinds = 1U << random.below(2);
  return demand;
}

/// A job of the test below.
struct Held {
  GpuSet gpus;
  Demand demand;
};

/// 100,000 arrivals and ends.
void expect_bounds(const PlacementEntry& entry) {
  std::vector<Server> servers;
  Accounts ledger;
  for (std::uint32_t i = 0; i < 12; ++i) {
    Server server = server_of(i % 3 == 0 ? 8 : 4, 48);
    server.host.memory_mib = 20'000;
    if (i % 2 == 1) server.gpu = "T4";
    ledger.gpus.emplace_back();
    for (std::uint32_t gpu = 0; gpu < server.gpus; ++gpu) ledger.gpus.back()[gpu] = kWholeGpu;
    ledger.millicores.push_back(static_cast<std::int64_t>(server.host.millicores));
    ledger.memory_mib.push_back(static_cast<std::int64_t>(server.host.memory_mib));
    servers.push_back(server);
  }
  const Fleet fleet = Fleet::create(servers).value();
  FreeResources free(fleet, Tracking::kServers);
  const std::array typical{TypicalDemand{whole_gpus(1), 0.5},
                           TypicalDemand{share_of_gpu(300), 0.5}};
  const auto placement = entry.make({.typical = typical, .seed = 3});
  GoRandom random(11);
  std::vector<Held> held;
  int placed = 0;
  for (int event = 0; event < instances(100'000); ++event) {
    if (!held.empty() && random.below(20) < 9) {
      Held& ends = held[random.below(static_cast<std::uint32_t>(held.size()))];
      free.give_back(ends.gpus, ends.demand);
      ASSERT_TRUE(ledger.change(ends.gpus.part(0), ends.demand, -1)) << entry.name;
      std::swap(ends, held.back());
      held.pop_back();
      continue;
    }
    const Demand demand = drawn_demand(random);
    const std::optional<ServerGpus> chosen = placement->choose(free, demand);
    if (!chosen) continue;
    ASSERT_NE(demand.kinds >> fleet.kind_of(chosen->server) & 1U, 0U) << entry.name;
    ASSERT_TRUE(ledger.change(*chosen, demand, 1)) << entry.name << ", event " << event;
    held.push_back({.gpus = {}, .demand = demand});
    held.back().gpus.add(*chosen);
    ASSERT_TRUE(free.take(held.back().gpus, demand)) << entry.name;
    ++placed;
  }
  EXPECT_GT(placed, instances(10'000)) << entry.name;
}

TEST(PlacementsTest, NeverGiveMoreThanThereIs) {
  for (const PlacementEntry& entry : placements()) expect_bounds(entry);
}

/// What a placement remembers of servers does not outlive their changes.
TEST(PlacementsTest, ForgetWhatHasChanged) {
  for (const PlacementEntry& entry : placements()) {
    const Fleet fleet = Fleet::create({server_of(1, 4)}).value();
    FreeResources free(fleet, Tracking::kServers);
    const auto placement = entry.make({});
    GpuSet gpus;
    gpus.add(placement->choose(free, whole_gpus(1)).value());
    ASSERT_TRUE(free.take(gpus, whole_gpus(1)));
    EXPECT_FALSE(placement->choose(free, whole_gpus(1))) << entry.name;
    free.give_back(gpus, whole_gpus(1));
    EXPECT_TRUE(placement->choose(free, whole_gpus(1))) << entry.name;
  }
}

TEST(PlacementsTest, NamesThoseThatThereAre) {
  EXPECT_EQ(find_placement("worst").error().message,
            "there is no placement worst; there are best-fit, dot-product, fgd, gpu-clustering, "
            "gpu-packing, random");
}

}  // namespace
}  // namespace gpemu::scheduling
