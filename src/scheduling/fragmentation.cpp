// SPDX-License-Identifier: Apache-2.0
#include "gpemu/scheduling/fragmentation.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

namespace gpemu::scheduling {
namespace {

/// The names of the kinds that a demand may have, as tables list them; empty: any.
std::string names_of(const Fleet& fleet, std::uint64_t kinds) {
  if (kinds == ~std::uint64_t{0}) return {};
  std::vector<std::string> names;
  for (std::size_t i = 0; i < fleet.kinds().size(); ++i) {
    if ((kinds >> i & 1U) != 0) names.push_back(fleet.kinds()[i]);
  }
  std::ranges::sort(names);
  return fmt::format("{}", fmt::join(names, "|"));
}

}  // namespace

std::uint32_t ServerRoom::free_shares() const {
  std::uint32_t sum = 0;
  for (std::uint32_t i = 0; i < gpus; ++i) sum += shares[i];
  return sum;
}

ServerRoom room_on(const FreeResources& free, std::uint32_t server) {
  ServerRoom room;
  room.kind = std::uint64_t{1} << free.fleet().kind_of(server);
  room.millicores = free.host_of(server).millicores;
  room.gpus = free.fleet().servers()[server].gpus;
  for (std::uint32_t i = 0; i < room.gpus; ++i) {
    room.shares[i] = static_cast<std::uint16_t>(free.share_of(server, i));
  }
  return room;
}

std::vector<TypicalDemand> typical_demands(const Fleet& fleet, std::span<const Job> jobs,
                                           double percent) {
  std::map<Demand, double> counts;
  for (const Job& job : jobs) {
    Demand demand = job.demand;
    demand.host.memory_mib = 0;
    if (demand.gpus == 0) demand.gpu_share = kWholeGpu;
    counts[demand] += 1;
  }
  std::vector<TypicalDemand> typical;
  for (const auto& [demand, count] : counts) typical.push_back({demand, count});
  // The most frequent first; of equally frequent ones, those that ask for more.
  std::ranges::sort(typical, std::greater<>(), [&](const TypicalDemand& one) {
    const Demand& demand = one.demand;
    return std::tuple(one.part, demand.host.millicores, demand.gpus == 0 ? 0 : demand.gpu_share,
                      demand.gpus, names_of(fleet, demand.kinds));
  });
  const auto all = static_cast<double>(jobs.size());
  const double wanted = percent * all / 100;
  double counted = 0;
  std::size_t taken = 0;
  while (taken < typical.size() && counted < wanted) counted += typical[taken++].part;
  const bool chopped = taken < typical.size();
  typical.resize(taken);
  for (TypicalDemand& one : typical) {
    one.part /= all;
    if (chopped) one.part /= counted / all;
  }
  return typical;
}

Fragmentation::Fragmentation(std::span<const TypicalDemand> typical) {
  for (const TypicalDemand& one : typical) {
    const auto found = std::ranges::find(shares_, one.demand.gpu_share, &Share::share);
    const auto place = static_cast<std::uint32_t>(found - shares_.begin());
    if (found == shares_.end()) shares_.push_back({.share = one.demand.gpu_share});
    entries_.push_back({.kinds = one.demand.kinds,
                        .millicores = one.demand.host.millicores,
                        .gpus = one.demand.gpus,
                        .share = place,
                        .part = one.part});
  }
}

double Fragmentation::of(const ServerRoom& room) {
  const std::uint32_t all = room.free_shares();
  for (Share& share : shares_) {
    share.gpus = 0;
    share.wasted = 0;
    for (std::uint32_t gpu = 0; gpu < room.gpus; ++gpu) {
      const bool enough = room.shares[gpu] >= share.share;
      share.gpus += enough ? 1 : 0;
      share.wasted += enough ? 0 : room.shares[gpu];
    }
  }
  std::array<double, kReasons> wasted{};
  for (const Entry& entry : entries_) {
    const bool cores = room.millicores >= entry.millicores;
    const Share& of_share = shares_[entry.share];
    Reason reason = cores ? kNoGpus : kNoGpusAndCores;
    std::uint32_t amount = all;
    if (entry.gpus != 0) {
      if ((entry.kinds & room.kind) == 0) {
        reason = kKind;
      } else if (of_share.gpus < entry.gpus) {
        reason = cores ? kGpus : kGpusAndCores;
      } else {
        reason = cores ? kGpus : kCores;
        if (cores) amount = of_share.wasted;
      }
    }
    wasted[reason] += entry.part * amount;
  }
  double sum = 0;
  for (const double part : wasted) sum += part;
  return sum;
}

}  // namespace gpemu::scheduling
