// SPDX-License-Identifier: Apache-2.0
#include "gpemu/scheduling/fleet.hpp"

#include <algorithm>
#include <utility>

namespace gpemu::scheduling {
namespace {

constexpr std::uint32_t kWordBits = 64;

constexpr std::uint64_t bit_of(std::uint32_t index) {
  return std::uint64_t{1} << (index % kWordBits);
}

constexpr std::size_t words_for(std::size_t bits) {
  return (bits + kWordBits - 1) / kWordBits;
}

/// Returns the lowest `count` bits of `bits`, which has so many.
std::uint64_t lowest_bits(std::uint64_t bits, std::uint32_t count) {
  std::uint64_t rest = bits;
  for (std::uint32_t i = 0; i < count; ++i) rest &= rest - 1;
  return bits & ~rest;
}

}  // namespace

std::uint32_t GpuSet::count() const {
  std::uint32_t count = first_.count();
  for (const ServerGpus& part : more_) count += part.count();
  return count;
}

void GpuSet::add(const ServerGpus& part) {
  if (empty()) {
    first_ = part;
  } else {
    more_.push_back(part);
  }
}

void GpuSet::clear() {
  first_ = {};
  more_.clear();
}

Fleet::Fleet(std::vector<Server> servers) : servers_(std::move(servers)) {
  for (const Server& server : servers_) {
    gpus_ += server.gpus;
    most_on_one_ = std::max(most_on_one_, server.gpus);
  }
}

Result<Fleet> Fleet::create(std::vector<Server> servers) {
  if (servers.empty()) return fail(ErrorCode::kInvalidArgument, "a fleet needs a server");
  if (servers.size() > kMaxGpusOfFleet) {
    return fail(ErrorCode::kInvalidArgument, "{} servers are more than {}", servers.size(),
                kMaxGpusOfFleet);
  }
  for (const Server& server : servers) {
    if (server.gpus == 0 || server.gpus > kMaxGpusPerServer) {
      return fail(ErrorCode::kInvalidArgument, "server {} has {} GPUs; it may have 1 to {}",
                  server.name, server.gpus, kMaxGpusPerServer);
    }
  }
  Fleet fleet(std::move(servers));
  if (fleet.gpus() > kMaxGpusOfFleet) {
    return fail(ErrorCode::kInvalidArgument, "the fleet has {} GPUs; it may have {}", fleet.gpus(),
                kMaxGpusOfFleet);
  }
  return fleet;
}

Result<Fleet> Fleet::uniform(std::uint64_t servers, std::uint64_t gpus, const std::string& gpu) {
  if (gpus == 0 || gpus > kMaxGpusPerServer) {
    return fail(ErrorCode::kInvalidArgument, "servers have {} GPUs; they may have 1 to {}", gpus,
                kMaxGpusPerServer);
  }
  if (servers == 0 || servers > kMaxGpusOfFleet / gpus) {
    return fail(ErrorCode::kInvalidArgument, "{} servers with {} GPUs; a fleet has 1 to {} GPUs",
                servers, gpus, kMaxGpusOfFleet);
  }
  std::vector<Server> all(servers);
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i] = {
        .name = fmt::format("server{}", i), .gpu = gpu, .gpus = static_cast<std::uint32_t>(gpus)};
  }
  return create(std::move(all));
}

void FreeGpus::Level::set(std::uint32_t server) {
  const std::uint32_t word = server / kWordBits;
  words[word] |= bit_of(server);
  summary[word / kWordBits] |= bit_of(word);
  first = std::min(first, server);
}

void FreeGpus::Level::reset(std::uint32_t server) {
  const std::uint32_t word = server / kWordBits;
  words[word] &= ~bit_of(server);
  if (words[word] == 0) summary[word / kWordBits] &= ~bit_of(word);
  if (server == first) first = first_from(server);
}

std::uint32_t FreeGpus::Level::first_from(std::uint32_t from) const {
  const std::uint32_t word = from / kWordBits;
  if (word >= words.size()) return kNoServer;
  const std::uint64_t here = words[word] & ~(bit_of(from) - 1);
  if (here != 0) return word * kWordBits + static_cast<std::uint32_t>(std::countr_zero(here));
  const std::uint32_t next = word + 1;
  for (std::uint32_t i = next / kWordBits; i < summary.size(); ++i) {
    std::uint64_t set = summary[i];
    if (i == next / kWordBits) set &= ~(bit_of(next) - 1);
    if (set == 0) continue;
    const std::uint32_t found = i * kWordBits + static_cast<std::uint32_t>(std::countr_zero(set));
    return found * kWordBits + static_cast<std::uint32_t>(std::countr_zero(words[found]));
  }
  return kNoServer;
}

FreeGpus::FreeGpus(const Fleet& fleet)
    : fleet_(&fleet),
      count_(fleet.gpus()),
      free_(fleet.servers().size()),
      counts_(fleet.servers().size()) {
  const std::size_t words = words_for(free_.size());
  levels_.resize(fleet.most_on_one() + 1,
                 {.words = std::vector<std::uint64_t>(words),
                  .summary = std::vector<std::uint64_t>(words_for(words))});
  for (std::uint32_t i = 0; i < free_.size(); ++i) {
    free_[i] = fleet.servers()[i].all_gpus();
    counts_[i] = static_cast<std::uint8_t>(fleet.servers()[i].gpus);
    levels_[counts_[i]].set(i);
  }
}

void FreeGpus::change(std::uint32_t server, std::uint64_t free, std::uint32_t count) {
  const std::uint32_t before = counts_[server];
  free_[server] = free;
  counts_[server] = static_cast<std::uint8_t>(count);
  if (before != 0) levels_[before].reset(server);
  if (count != 0) levels_[count].set(server);
  count_ = count_ - before + count;
}

std::uint32_t FreeGpus::first_with(std::uint32_t gpus) const {
  std::uint32_t best = kNoServer;
  for (std::size_t level = gpus; level < levels_.size(); ++level) {
    best = std::min(best, levels_[level].first);
  }
  return best;
}

ServerGpus FreeGpus::take_of(std::uint32_t server, std::uint32_t gpus) {
  const std::uint64_t taken = lowest_bits(free_[server], gpus);
  change(server, free_[server] & ~taken, counts_[server] - gpus);
  return {.server = server, .gpus = taken};
}

std::optional<GpuSet> FreeGpus::take_whole_servers(std::uint32_t gpus) {
  GpuSet set;
  const auto undo = [&]() -> std::optional<GpuSet> {
    give_back(set);
    return std::nullopt;
  };
  std::uint32_t left = gpus;
  for (std::uint32_t server = 0; left != 0 && server < free_.size(); ++server) {
    const Server& whole = fleet_->servers()[server];
    if (whole.gpus > left || counts_[server] != whole.gpus) continue;
    set.add(take_of(server, whole.gpus));
    left -= whole.gpus;
  }
  if (left == 0) return set;
  if (left >= fleet_->most_on_one()) return undo();
  const std::uint32_t rest = first_with(left);
  if (rest == kNoServer) return undo();
  set.add(take_of(rest, left));
  return set;
}

std::optional<GpuSet> FreeGpus::take_together(std::uint32_t gpus) {
  if (gpus == 0 || gpus > count_) return std::nullopt;
  if (gpus > fleet_->most_on_one()) return take_whole_servers(gpus);
  const std::uint32_t server = first_with(gpus);
  if (server == kNoServer) return std::nullopt;
  GpuSet set;
  set.add(take_of(server, gpus));
  return set;
}

std::optional<GpuSet> FreeGpus::take_anywhere(std::uint32_t gpus) {
  if (gpus == 0 || gpus > count_) return std::nullopt;
  GpuSet set;
  std::uint32_t left = gpus;
  for (std::uint32_t level = 1; left != 0; ++level) {
    for (std::uint32_t server = levels_[level].first; left != 0 && server != kNoServer;
         server = levels_[level].first_from(server + 1)) {
      const std::uint32_t taken = std::min(level, left);
      set.add(take_of(server, taken));
      left -= taken;
    }
  }
  return set;
}

bool FreeGpus::take(const GpuSet& gpus) {
  for (std::size_t i = 0; i < gpus.parts(); ++i) {
    const ServerGpus& part = gpus.part(i);
    if (part.server >= free_.size() || (part.gpus & ~free_[part.server]) != 0) return false;
  }
  for (std::size_t i = 0; i < gpus.parts(); ++i) {
    const ServerGpus& part = gpus.part(i);
    change(part.server, free_[part.server] & ~part.gpus, counts_[part.server] - part.count());
  }
  return true;
}

void FreeGpus::give_back(const GpuSet& gpus) {
  for (std::size_t i = 0; i < gpus.parts(); ++i) {
    const ServerGpus& part = gpus.part(i);
    GPEMU_CHECK((free_[part.server] & part.gpus) == 0, "a GPU is given back that is free");
    change(part.server, free_[part.server] | part.gpus, counts_[part.server] + part.count());
  }
}

}  // namespace gpemu::scheduling
