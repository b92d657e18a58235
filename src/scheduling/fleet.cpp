// SPDX-License-Identifier: Apache-2.0
#include "gpemu/scheduling/fleet.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <span>
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

HostShare Demand::host_beside(std::uint32_t part) const {
  if (part == gpus) return host;
  const auto share = [&](std::uint64_t of) { return (of * part + gpus - 1) / gpus; };
  return {.millicores = share(host.millicores), .memory_mib = share(host.memory_mib)};
}

std::uint8_t Fleet::kind_number(std::string_view gpu) const {
  return static_cast<std::uint8_t>(std::ranges::find(kinds_, gpu) - kinds_.begin());
}

std::uint32_t Fleet::most_on_one(std::uint64_t kinds) const {
  std::uint32_t most = 0;
  for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
    if ((kinds >> kind & 1U) != 0) most = std::max(most, most_of_kind_[kind]);
  }
  return most;
}

Result<void> Fleet::count() {
  // A server without GPUs is of no kind; it counts as of that of the others' first one.
  const auto first = std::ranges::find_if(servers_, [](const Server& s) { return s.gpus != 0; });
  for (Server& server : servers_) {
    if (server.gpus == 0 && first != servers_.end()) server.gpu = first->gpu;
    if (server.gpus > kMaxGpusPerServer) {
      return fail(ErrorCode::kInvalidArgument, "server {} has {} GPUs; it may have {}", server.name,
                  server.gpus, kMaxGpusPerServer);
    }
    const auto kind = std::ranges::find(kinds_, server.gpu);
    if (kind == kinds_.end() && kinds_.size() == kMaxKinds) {
      return fail(ErrorCode::kInvalidArgument, "server {} has GPUs of kind {} after {} other kinds",
                  server.name, server.gpu, kMaxKinds);
    }
    if (kind == kinds_.end()) {
      kinds_.push_back(server.gpu);
      most_of_kind_.push_back(0);
      gpus_by_kind_.push_back(0);
    }
    kind_of_.push_back(kind_number(server.gpu));
    std::uint32_t& most = most_of_kind_[kind_of_.back()];
    most = std::max(most, server.gpus);
    gpus_by_kind_[kind_of_.back()] += server.gpus;
    before_.push_back(static_cast<std::uint32_t>(gpus_));
    gpus_ += server.gpus;
    most_on_one_ = std::max(most_on_one_, server.gpus);
    has_hosts_ =
        has_hosts_ || server.host.millicores != kUnlimited || server.host.memory_mib != kUnlimited;
  }
  if (gpus_ != 0 && gpus_ <= kMaxGpusOfFleet) return {};
  return fail(ErrorCode::kInvalidArgument, "the fleet has {} GPUs; it may have 1 to {}", gpus_,
              kMaxGpusOfFleet);
}

HostShare Fleet::host_for_each_gpu() const {
  HostShare least{.millicores = kUnlimited, .memory_mib = kUnlimited};
  for (const Server& server : servers_) {
    if (server.gpus == 0) continue;
    least.millicores = std::min(least.millicores, server.host.millicores / server.gpus);
    least.memory_mib = std::min(least.memory_mib, server.host.memory_mib / server.gpus);
  }
  return least;
}

Result<Fleet> Fleet::create(std::vector<Server> servers) {
  if (servers.size() > kMaxGpusOfFleet) {
    return fail(ErrorCode::kInvalidArgument, "{} servers are more than {}", servers.size(),
                kMaxGpusOfFleet);
  }
  Fleet fleet(std::move(servers));
  GPEMU_TRY(fleet.count());
  return fleet;
}

Fleet Fleet::in_order(std::span<const std::uint32_t> places) const {
  Fleet fleet(*this);
  for (std::size_t i = 0; i < places.size(); ++i) {
    fleet.servers_[i] = servers_[places[i]];
    fleet.kind_of_[i] = kind_of_[places[i]];
    fleet.before_[i] = i == 0 ? 0 : fleet.before_[i - 1] + fleet.servers_[i - 1].gpus;
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

ServerLevels::ServerLevels(std::size_t levels, std::size_t servers)
    : words_(words_for(servers)),
      summary_words_(words_for(words_)),
      bits_(levels * (words_ + summary_words_)),
      first_(levels, kNoServer) {}

void ServerLevels::set(std::size_t level, std::uint32_t server) {
  const std::uint32_t word = server / kWordBits;
  const std::size_t begin = begin_of(level);
  bits_[begin + word] |= bit_of(server);
  bits_[begin + words_ + word / kWordBits] |= bit_of(word);
  first_[level] = std::min(first_[level], server);
}

void ServerLevels::reset(std::size_t level, std::uint32_t server) {
  const std::uint32_t word = server / kWordBits;
  const std::size_t begin = begin_of(level);
  bits_[begin + word] &= ~bit_of(server);
  if (bits_[begin + word] == 0) bits_[begin + words_ + word / kWordBits] &= ~bit_of(word);
  if (server == first_[level]) first_[level] = first_from(level, server);
}

std::uint32_t ServerLevels::first_from(std::size_t level, std::uint32_t from) const {
  const std::uint32_t word = from / kWordBits;
  if (word >= words_) return kNoServer;
  const std::size_t begin = begin_of(level);
  const std::uint64_t here = bits_[begin + word] & ~(bit_of(from) - 1);
  if (here != 0) return word * kWordBits + static_cast<std::uint32_t>(std::countr_zero(here));
  const std::uint32_t next = word + 1;
  for (std::uint32_t i = next / kWordBits; i < summary_words_; ++i) {
    std::uint64_t set = bits_[begin + words_ + i];
    if (i == next / kWordBits) set &= ~(bit_of(next) - 1);
    if (set == 0) continue;
    const std::uint32_t found = i * kWordBits + static_cast<std::uint32_t>(std::countr_zero(set));
    return found * kWordBits + static_cast<std::uint32_t>(std::countr_zero(bits_[begin + found]));
  }
  return kNoServer;
}

FreeResources::FreeResources(const Fleet& fleet, Tracking tracking)
    : fleet_(&fleet),
      count_(fleet.gpus()),
      free_(fleet.servers().size()),
      counts_(fleet.servers().size()),
      levels_(fleet.most_on_one() + 1, fleet.servers().size()) {
  for (std::uint32_t i = 0; i < free_.size(); ++i) {
    free_[i] = fleet.servers()[i].all_gpus();
    counts_[i] = static_cast<std::uint8_t>(fleet.servers()[i].gpus);
    levels_.set(counts_[i], i);
  }
  if (tracking == Tracking::kNone) return;
  versions_.resize(free_.size());
  takers_.resize(free_.size() * takers_stride());
  for (std::uint32_t i = 0; i < free_.size(); ++i) make_version(i);
}

void FreeResources::make_version(std::uint32_t server) {
  static std::atomic<std::uint64_t> last = 0;
  if (!versions_.empty()) versions_[server] = ++last;
}

std::uint16_t& FreeResources::takers_like(const ServerGpus& part, const Demand& demand) {
  return takers_[part.server * takers_stride() + (demand.shares_gpus() ? 0 : part.count())];
}

std::uint32_t FreeResources::share_of(std::uint32_t server, std::uint32_t gpu) const {
  if ((free_[server] >> gpu & 1U) != 0) return kWholeGpu;
  if (shared_.empty() || (shared_[server] >> gpu & 1U) == 0) return 0;
  return shares_[fleet_->gpus_before(server) + gpu];
}

void FreeResources::change(std::uint32_t server, std::uint64_t free) {
  const auto count = static_cast<std::uint8_t>(std::popcount(free));
  const std::uint8_t before = counts_[server];
  free_[server] = free;
  if (count == before) return;
  counts_[server] = count;
  levels_.reset(before, server);
  levels_.set(count, server);
  count_ = count_ - before + count;
}

bool FreeResources::suits(std::uint32_t server, std::uint32_t gpus, const Demand& demand) const {
  return (demand.kinds >> fleet_->kind_of(server) & 1U) != 0 &&
         demand.host_beside(gpus).fits_in(host_of(server));
}

std::uint64_t FreeResources::shares_of(std::uint32_t server, const Demand& demand) const {
  const std::uint64_t shared = shared_.empty() ? 0 : shared_[server];
  std::array<std::uint32_t, kMaxGpusPerServer> rooms{};
  std::array<std::uint32_t, kMaxGpusPerServer> gpus{};
  std::size_t found = 0;
  for (std::uint64_t rest = shared | free_[server]; rest != 0; rest &= rest - 1) {
    const auto gpu = static_cast<std::uint32_t>(std::countr_zero(rest));
    rooms[gpu] = share_of(server, gpu);
    if (rooms[gpu] >= demand.gpu_share) gpus[found++] = gpu;
  }
  if (found < demand.gpus) return 0;
  std::ranges::stable_sort(std::span(gpus).first(found), {},
                           [&](std::uint32_t gpu) { return rooms[gpu]; });
  std::uint64_t chosen = 0;
  for (std::uint32_t i = 0; i < demand.gpus; ++i) chosen |= bit_of(gpus[i]);
  return chosen;
}

std::uint64_t FreeResources::tightest_on(std::uint32_t server, const Demand& demand) const {
  if (demand.shares_gpus()) return shares_of(server, demand);
  return lowest_bits(free_[server], demand.gpus);
}

bool FreeResources::fits(std::uint32_t server, const Demand& demand) const {
  if (!suits(server, demand.gpus, demand)) return false;
  if (!demand.shares_gpus()) return demand.gpus <= counts_[server];
  return shares_of(server, demand) != 0;
}

std::uint32_t FreeResources::first_with(std::uint32_t gpus, const Demand& demand) const {
  std::uint32_t best = kNoServer;
  for (std::size_t level = gpus; level < levels_.count(); ++level) {
    std::uint32_t server = levels_.first(level);
    while (server < best && !suits(server, gpus, demand)) {
      server = levels_.first_from(level, server + 1);
    }
    best = std::min(best, server);
  }
  return best;
}

std::uint32_t FreeResources::first_with_shares(const Demand& demand) const {
  for (std::uint32_t server = 0; server < free_.size(); ++server) {
    const std::uint64_t shared = shared_.empty() ? 0 : shared_[server];
    if ((free_[server] | shared) != 0 && fits(server, demand)) return server;
  }
  return kNoServer;
}

void FreeResources::take_shares(const ServerGpus& part, std::uint32_t share) {
  make_shares();
  for (std::uint64_t rest = part.gpus; rest != 0; rest &= rest - 1) {
    const auto gpu = static_cast<std::uint32_t>(std::countr_zero(rest));
    const std::uint32_t left = share_of(part.server, gpu) - share;
    shares_[fleet_->gpus_before(part.server) + gpu] = static_cast<std::uint16_t>(left);
    if (left != 0) shared_[part.server] |= bit_of(gpu);
    if (left == 0) shared_[part.server] &= ~bit_of(gpu);
  }
  change(part.server, free_[part.server] & ~part.gpus);
}

void FreeResources::give_back_shares(const ServerGpus& part, std::uint32_t share) {
  std::uint64_t whole = 0;
  for (std::uint64_t rest = part.gpus; rest != 0; rest &= rest - 1) {
    const auto gpu = static_cast<std::uint32_t>(std::countr_zero(rest));
    const std::uint32_t room = share_of(part.server, gpu) + share;
    GPEMU_CHECK(room <= kWholeGpu, "more of a GPU is given back than was taken");
    shares_[fleet_->gpus_before(part.server) + gpu] = static_cast<std::uint16_t>(room);
    shared_[part.server] |= bit_of(gpu);
    if (room == kWholeGpu) whole |= bit_of(gpu);
  }
  shared_[part.server] &= ~whole;
  change(part.server, free_[part.server] | whole);
}

void FreeResources::take_part(const ServerGpus& part, const Demand& demand) {
  make_version(part.server);
  if (!takers_.empty() && part.gpus != 0) ++takers_like(part, demand);
  if (demand.shares_gpus()) {
    take_shares(part, demand.gpu_share);
  } else {
    change(part.server, free_[part.server] & ~part.gpus);
  }
  if (demand.host == HostShare{} || !fleet_->has_hosts()) return;
  make_hosts();
  const HostShare host = demand.host_beside(part.count());
  hosts_[part.server].millicores -= host.millicores;
  hosts_[part.server].memory_mib -= host.memory_mib;
}

void FreeResources::give_back_part(const ServerGpus& part, const Demand& demand) {
  make_version(part.server);
  if (!takers_.empty() && part.gpus != 0) --takers_like(part, demand);
  if (demand.shares_gpus()) {
    give_back_shares(part, demand.gpu_share);
  } else {
    GPEMU_CHECK((free_[part.server] & part.gpus) == 0, "a GPU is given back that is free");
    change(part.server, free_[part.server] | part.gpus);
  }
  if (hosts_.empty()) return;
  const HostShare host = demand.host_beside(part.count());
  hosts_[part.server].millicores += host.millicores;
  hosts_[part.server].memory_mib += host.memory_mib;
}

ServerGpus FreeResources::take_of(std::uint32_t server, std::uint32_t gpus, const Demand& demand) {
  const ServerGpus part{.server = server, .gpus = lowest_bits(free_[server], gpus)};
  take_part(part, demand);
  return part;
}

std::optional<GpuSet> FreeResources::take_whole_servers(const Demand& demand) {
  GpuSet set;
  const auto undo = [&]() -> std::optional<GpuSet> {
    give_back(set, demand);
    return std::nullopt;
  };
  std::uint32_t left = demand.gpus;
  for (std::uint32_t server = 0; left != 0 && server < free_.size(); ++server) {
    const std::uint32_t all = fleet_->servers()[server].gpus;
    if (all == 0 || all > left || counts_[server] != all) continue;
    if (!suits(server, all, demand)) continue;
    set.add(take_of(server, all, demand));
    left -= all;
  }
  if (left == 0) return set;
  if (left >= fleet_->most_on_one(demand.kinds)) return undo();
  const std::uint32_t rest = first_with(left, demand);
  if (rest == kNoServer) return undo();
  set.add(take_of(rest, left, demand));
  return set;
}

std::optional<GpuSet> FreeResources::take_together(const Demand& demand) {
  GpuSet set;
  if (demand.shares_gpus()) {
    const std::uint32_t server = first_with_shares(demand);
    if (server == kNoServer) return std::nullopt;
    set.add({.server = server, .gpus = shares_of(server, demand)});
    take_part(set.part(0), demand);
    return set;
  }
  if (demand.gpus > count_) return std::nullopt;
  if (demand.gpus > fleet_->most_on_one(demand.kinds)) return take_whole_servers(demand);
  const std::uint32_t server = first_with(demand.gpus, demand);
  if (server == kNoServer) return std::nullopt;
  set.add(take_of(server, demand.gpus, demand));
  return set;
}

std::optional<GpuSet> FreeResources::take_anywhere(std::uint32_t gpus) {
  if (gpus == 0 || gpus > count_) return std::nullopt;
  GpuSet set;
  std::uint32_t left = gpus;
  for (std::uint32_t level = 1; left != 0; ++level) {
    for (std::uint32_t server = levels_.first(level); left != 0 && server != kNoServer;
         server = levels_.first_from(level, server + 1)) {
      const std::uint32_t taken = std::min(level, left);
      set.add(take_of(server, taken, {.gpus = gpus}));
      left -= taken;
    }
  }
  return set;
}

bool FreeResources::take(const GpuSet& gpus, const Demand& demand) {
  for (std::size_t i = 0; i < gpus.parts(); ++i) {
    const ServerGpus& part = gpus.part(i);
    if (part.server >= free_.size() || !suits(part.server, part.count(), demand)) return false;
    std::uint64_t enough = free_[part.server];
    for (std::uint64_t rest = part.gpus & ~enough; rest != 0; rest &= rest - 1) {
      const auto gpu = static_cast<std::uint32_t>(std::countr_zero(rest));
      if (share_of(part.server, gpu) >= demand.gpu_share) enough |= bit_of(gpu);
    }
    if ((part.gpus & ~enough) != 0) return false;
  }
  for (std::size_t i = 0; i < gpus.parts(); ++i) take_part(gpus.part(i), demand);
  return true;
}

void FreeResources::give_back(const GpuSet& gpus, const Demand& demand) {
  for (std::size_t i = 0; i < gpus.parts(); ++i) give_back_part(gpus.part(i), demand);
}

void FreeResources::keep_what_is_also_in(const FreeResources& other) {
  const bool any_shares = !shared_.empty() || !other.shared_.empty();
  for (std::uint32_t server = 0; server < free_.size(); ++server) {
    make_version(server);
    if (any_shares) keep_shares_in(server, other);
    if ((free_[server] & ~other.free_[server]) != 0) {
      change(server, free_[server] & other.free_[server]);
    }
    if (other.hosts_.empty()) continue;
    make_hosts();
    const HostShare& host = other.hosts_[server];
    hosts_[server] = {.millicores = std::min(hosts_[server].millicores, host.millicores),
                      .memory_mib = std::min(hosts_[server].memory_mib, host.memory_mib)};
  }
}

void FreeResources::keep_shares_in(std::uint32_t server, const FreeResources& other) {
  make_shares();
  std::uint64_t shared = 0;
  for (std::uint32_t gpu = 0; gpu < fleet_->servers()[server].gpus; ++gpu) {
    const std::uint32_t share = std::min(share_of(server, gpu), other.share_of(server, gpu));
    if (share == 0 || share == kWholeGpu) continue;
    shared |= bit_of(gpu);
    shares_[fleet_->gpus_before(server) + gpu] = static_cast<std::uint16_t>(share);
  }
  shared_[server] = shared;
}

void FreeResources::make_shares() {
  if (!shared_.empty()) return;
  shared_.resize(free_.size());
  shares_.resize(fleet_->gpus());
}

void FreeResources::make_hosts() {
  if (!hosts_.empty()) return;
  for (const Server& server : fleet_->servers()) hosts_.push_back(server.host);
}

}  // namespace gpemu::scheduling
