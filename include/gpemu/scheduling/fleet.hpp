// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpemu/base/error.hpp"

namespace gpemu::scheduling {

/// The most GPUs that a server may have: a set of them is a word of 64 bits.
inline constexpr std::uint32_t kMaxGpusPerServer = 64;
/// The most GPUs that a fleet may have, which is more than any that is known.
inline constexpr std::uint64_t kMaxGpusOfFleet = 16U << 20U;

/// The most kinds of GPUs that a fleet may have: a set of them is a word of 64 bits.
inline constexpr std::size_t kMaxKinds = 64;
/// A whole GPU, in the unit of shares.
inline constexpr std::uint32_t kWholeGpu = 1000;
/// The cores and memory of a server for which they are not stated: more than any has.
inline constexpr std::uint64_t kUnlimited = std::uint64_t{1} << 60U;

/// Processor cores and memory of servers. Units: thousandths of a core, MiB.
struct HostShare {
  std::uint64_t millicores = 0;
  std::uint64_t memory_mib = 0;

  [[nodiscard]] bool fits_in(const HostShare& room) const {
    return millicores <= room.millicores && memory_mib <= room.memory_mib;
  }
  friend auto operator<=>(const HostShare&, const HostShare&) = default;
};

/// What a job asks of a fleet.
struct Demand {
  std::uint32_t gpus = 1;               ///< 0: it needs cores and memory of one server alone.
  std::uint32_t gpu_share = kWholeGpu;  ///< of each of its GPUs, in thousandths, 1 to kWholeGpu.
  HostShare host;                       ///< of all its servers together, in proportion to the GPUs.
  std::uint64_t kinds = ~std::uint64_t{0};  ///< bit i: it may have the GPUs of Fleet::kinds()[i].

  [[nodiscard]] bool shares_gpus() const { return gpu_share < kWholeGpu; }
  /// Returns the cores and memory that it needs beside `part` of its GPUs, rounded up.
  [[nodiscard]] HostShare host_beside(std::uint32_t part) const;
  friend auto operator<=>(const Demand&, const Demand&) = default;
};

/// A computer whose GPUs jobs get.
struct Server {
  std::string name;
  std::string gpu;         ///< the kind of its GPUs; empty: not stated.
  std::uint32_t gpus = 0;  ///< at most kMaxGpusPerServer.
  HostShare host{.millicores = kUnlimited, .memory_mib = kUnlimited};

  /// Returns the set of all its GPUs.
  [[nodiscard]] std::uint64_t all_gpus() const {
    return gpus == kMaxGpusPerServer ? ~std::uint64_t{0} : (std::uint64_t{1} << gpus) - 1;
  }
};

inline constexpr std::uint32_t kNoServer = ~std::uint32_t{0};

/// Some GPUs of one server: bit i is GPU i.
struct ServerGpus {
  std::uint32_t server = kNoServer;
  std::uint64_t gpus = 0;

  [[nodiscard]] std::uint32_t count() const {
    return static_cast<std::uint32_t>(std::popcount(gpus));
  }
  friend bool operator==(const ServerGpus&, const ServerGpus&) = default;
};

/// Which GPUs a job has. Each server occurs once; a job without GPUs has one part. Most jobs fit on
/// one server, so the first part needs no memory of its own.
class GpuSet {
 public:
  [[nodiscard]] bool empty() const { return first_.server == kNoServer; }
  [[nodiscard]] std::size_t parts() const { return empty() ? 0 : 1 + more_.size(); }
  [[nodiscard]] const ServerGpus& part(std::size_t index) const {
    return index == 0 ? first_ : more_[index - 1];
  }
  [[nodiscard]] std::uint32_t count() const;
  /// Requires: no part of that server is in the set.
  void add(const ServerGpus& part);
  void clear();
  friend bool operator==(const GpuSet&, const GpuSet&) = default;

 private:
  ServerGpus first_;
  std::vector<ServerGpus> more_;
};

/// All servers whose GPUs one policy hands out. Immutable.
class Fleet {
 public:
  /// Errors: kInvalidArgument if a server has too many GPUs, or all have none or too many, or they
  /// are of too many kinds.
  [[nodiscard]] static Result<Fleet> create(std::vector<Server> servers);
  /// Returns `servers` servers with `gpus` GPUs each, named server0, server1, ... Errors: as
  /// create.
  [[nodiscard]] static Result<Fleet> uniform(std::uint64_t servers, std::uint64_t gpus,
                                             const std::string& gpu = {});

  /// Returns the fleet with its servers in another order, which `places` gives; kinds() stays.
  /// Requires: `places` has the place of each server once.
  [[nodiscard]] Fleet in_order(std::span<const std::uint32_t> places) const;

  [[nodiscard]] const std::vector<Server>& servers() const { return servers_; }
  [[nodiscard]] std::uint64_t gpus() const { return gpus_; }
  /// Returns the number of GPUs of the largest server.
  [[nodiscard]] std::uint32_t most_on_one() const { return most_on_one_; }
  /// Returns that of those of some kinds, a bit each.
  [[nodiscard]] std::uint32_t most_on_one(std::uint64_t kinds) const;
  /// Returns the kinds of GPUs, in the order in which servers name them; "" if one does not.
  [[nodiscard]] const std::vector<std::string>& kinds() const { return kinds_; }
  /// Returns the place in kinds() of the kind of a server's GPUs.
  [[nodiscard]] std::uint8_t kind_of(std::uint32_t server) const { return kind_of_[server]; }
  /// Returns the numbers of GPUs of each kind, by kinds().
  [[nodiscard]] const std::vector<std::uint32_t>& gpus_by_kind() const { return gpus_by_kind_; }
  /// Returns the number of GPUs of the servers before this one.
  [[nodiscard]] std::uint32_t gpus_before(std::uint32_t server) const { return before_[server]; }
  /// Returns the cores and the memory that a GPU has of its server if it has as much as the others
  /// there; the least of all servers.
  [[nodiscard]] HostShare host_for_each_gpu() const;
  /// Returns whether the cores or the memory of a server are stated.
  [[nodiscard]] bool has_hosts() const { return has_hosts_; }

 private:
  explicit Fleet(std::vector<Server> servers) : servers_(std::move(servers)) {}
  /// Adds the kinds of the servers to kinds_, and counts their GPUs.
  [[nodiscard]] Result<void> count();
  /// Returns the place of a name in kinds_, or their number.
  [[nodiscard]] std::uint8_t kind_number(std::string_view gpu) const;

  std::vector<Server> servers_;
  std::vector<std::string> kinds_;
  std::vector<std::uint8_t> kind_of_;
  std::vector<std::uint32_t> gpus_by_kind_;
  std::vector<std::uint32_t> most_of_kind_;  ///< GPUs of a server.
  std::vector<std::uint32_t> before_;
  std::uint64_t gpus_ = 0;
  std::uint32_t most_on_one_ = 0;
  bool has_hosts_ = false;
};

/// Whether free resources keep what placements (placement.hpp) need beside what is free.
enum class Tracking : std::uint8_t { kNone, kServers };

/// Servers sorted into levels, so that the first one of a level is found at once: a bit for each
/// server and level, and a bit for each word of these that is not 0.
class ServerLevels {
 public:
  ServerLevels(std::size_t levels, std::size_t servers);

  [[nodiscard]] std::size_t count() const { return first_.size(); }
  void set(std::size_t level, std::uint32_t server);
  void reset(std::size_t level, std::uint32_t server);
  /// Returns the first server of a level, or kNoServer.
  [[nodiscard]] std::uint32_t first(std::size_t level) const { return first_[level]; }
  /// Returns the first server of a level from `from` on, or kNoServer.
  [[nodiscard]] std::uint32_t first_from(std::size_t level, std::uint32_t from) const;

 private:
  [[nodiscard]] std::size_t begin_of(std::size_t level) const {
    return level * (words_ + summary_words_);
  }

  std::size_t words_;
  std::size_t summary_words_;
  std::vector<std::uint64_t> bits_;  ///< of each level, its words and then their summary.
  std::vector<std::uint32_t> first_;
};

/// What is free of a fleet. Copies are independent; the fleet must outlive them.
///
/// Servers are sorted by how many of their GPUs are free, so that finding one costs a few words
/// unless kinds, cores or memory rule out many.
class FreeResources {
 public:
  /// All is free.
  explicit FreeResources(const Fleet& fleet, Tracking tracking = Tracking::kNone);

  /// Returns the number of GPUs of which nobody has a share.
  [[nodiscard]] std::uint64_t count() const { return count_; }
  /// Returns those of a server.
  [[nodiscard]] std::uint64_t on(std::uint32_t server) const { return free_[server]; }
  /// Returns which share of a GPU is free, in thousandths.
  [[nodiscard]] std::uint32_t share_of(std::uint32_t server, std::uint32_t gpu) const;
  [[nodiscard]] HostShare host_of(std::uint32_t server) const {
    return hosts_.empty() ? fleet_->servers()[server].host : hosts_[server];
  }
  [[nodiscard]] const Fleet& fleet() const { return *fleet_; }

  /// Returns a number that stands for what is free of a server: at another time, or in a copy, the
  /// same number means that the same is free there. Requires: Tracking::kServers.
  [[nodiscard]] std::uint64_t version_of(std::uint32_t server) const { return versions_[server]; }
  /// Returns how many have which number of GPUs of a server, by that number; at 0, how many have
  /// shares. Requires: Tracking::kServers.
  [[nodiscard]] std::span<const std::uint16_t> takers_on(std::uint32_t server) const {
    return std::span(takers_).subspan(server * takers_stride(), takers_stride());
  }

  /// Returns whether a server has what is asked, all of it.
  [[nodiscard]] bool fits(std::uint32_t server, const Demand& demand) const;

  /// Returns the GPUs of a server of which the least is free that is enough. Requires: it fits.
  [[nodiscard]] std::uint64_t tightest_on(std::uint32_t server, const Demand& demand) const;

  /// Takes what is close together: of the first server that has it; if no server has so many GPUs,
  /// of the first servers of which all are free, and the rest of the first other server. A share
  /// is taken of those GPUs of the server of which the least is free. Returns nothing, and takes
  /// nothing, if there is none.
  [[nodiscard]] std::optional<GpuSet> take_together(const Demand& demand);

  /// Takes whole GPUs of any servers, those with the fewest free ones first. Returns nothing, and
  /// takes nothing, if fewer are free.
  ///
  /// Requires: the demand asks for no cores, memory or kind.
  [[nodiscard]] std::optional<GpuSet> take_anywhere(std::uint32_t gpus);

  /// Takes these GPUs, or the demand's share of them, and the cores and memory. Returns false, and
  /// takes nothing, if something is not free.
  [[nodiscard]] bool take(const GpuSet& gpus, const Demand& demand);

  /// Keeps only what is also free in `other`, which is of the same fleet.
  void keep_what_is_also_in(const FreeResources& other);

  /// Requires: they were taken by this demand.
  void give_back(const GpuSet& gpus, const Demand& demand);

 private:
  /// Sets which GPUs of the server are free.
  void change(std::uint32_t server, std::uint64_t free);
  /// Returns the first server that has the `gpus` GPUs of the demand and what it needs beside them,
  /// or kNoServer.
  [[nodiscard]] std::uint32_t first_with(std::uint32_t gpus, const Demand& demand) const;
  [[nodiscard]] std::uint32_t first_with_shares(const Demand& demand) const;
  /// Returns whether kind, cores and memory of a server are right for `gpus` GPUs of the demand.
  [[nodiscard]] bool suits(std::uint32_t server, std::uint32_t gpus, const Demand& demand) const;
  /// Returns the GPUs of which enough is free, those with the least first.
  [[nodiscard]] std::uint64_t shares_of(std::uint32_t server, const Demand& demand) const;
  /// Takes the first `gpus` free ones of the server, and what the demand needs beside them.
  ServerGpus take_of(std::uint32_t server, std::uint32_t gpus, const Demand& demand);
  void take_part(const ServerGpus& part, const Demand& demand);
  void give_back_part(const ServerGpus& part, const Demand& demand);
  void make_shares();
  void make_hosts();
  [[nodiscard]] std::size_t takers_stride() const { return fleet_->most_on_one() + 1; }
  [[nodiscard]] std::uint16_t& takers_like(const ServerGpus& part, const Demand& demand);
  void make_version(std::uint32_t server);
  void keep_shares_in(std::uint32_t server, const FreeResources& other);
  void take_shares(const ServerGpus& part, std::uint32_t share);
  void give_back_shares(const ServerGpus& part, std::uint32_t share);
  [[nodiscard]] std::optional<GpuSet> take_whole_servers(const Demand& demand);

  const Fleet* fleet_;
  std::uint64_t count_;
  std::vector<std::uint64_t> free_;   ///< GPUs of each server of which nobody has a share.
  std::vector<std::uint8_t> counts_;  ///< how many of each server's are free.
  ServerLevels levels_;               ///< by the number of free GPUs.
  /// GPUs of each server of which some have a share and some is free; empty: nobody has shares.
  std::vector<std::uint64_t> shared_;
  std::vector<std::uint16_t> shares_;    ///< what is free of these, by GPU of the fleet.
  std::vector<HostShare> hosts_;         ///< empty: nobody has cores or memory.
  std::vector<std::uint64_t> versions_;  ///< of each server; empty without tracking.
  std::vector<std::uint16_t> takers_;    ///< see takers_on(); empty without tracking.
};

}  // namespace gpemu::scheduling
