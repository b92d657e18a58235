// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gpemu/base/error.hpp"

namespace gpemu::scheduling {

/// The most GPUs that a server may have: a set of them is a word of 64 bits.
inline constexpr std::uint32_t kMaxGpusPerServer = 64;
/// The most GPUs that a fleet may have, which is more than any that is known.
inline constexpr std::uint64_t kMaxGpusOfFleet = 16U << 20U;

/// A computer whose GPUs jobs get.
struct Server {
  std::string name;
  std::string gpu;         ///< the kind of its GPUs; empty: not stated.
  std::uint32_t gpus = 0;  ///< 1 to kMaxGpusPerServer.

  /// Returns the set of all its GPUs.
  [[nodiscard]] std::uint64_t all_gpus() const {
    return gpus == kMaxGpusPerServer ? ~std::uint64_t{0} : (std::uint64_t{1} << gpus) - 1;
  }
};

/// Some GPUs of one server: bit i is GPU i.
struct ServerGpus {
  std::uint32_t server = 0;
  std::uint64_t gpus = 0;

  [[nodiscard]] std::uint32_t count() const {
    return static_cast<std::uint32_t>(std::popcount(gpus));
  }
  friend bool operator==(const ServerGpus&, const ServerGpus&) = default;
};

/// Which GPUs a job has. Each server occurs once. Most jobs fit on one server, so the first part
/// needs no memory of its own.
class GpuSet {
 public:
  [[nodiscard]] bool empty() const { return first_.gpus == 0; }
  [[nodiscard]] std::size_t parts() const { return empty() ? 0 : 1 + more_.size(); }
  [[nodiscard]] const ServerGpus& part(std::size_t index) const {
    return index == 0 ? first_ : more_[index - 1];
  }
  [[nodiscard]] std::uint32_t count() const;
  /// Requires: no part of that server is in the set, and the part is not empty.
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
  /// Errors: kInvalidArgument if a server has no GPU or too many, or all have too many.
  [[nodiscard]] static Result<Fleet> create(std::vector<Server> servers);
  /// Returns `servers` servers with `gpus` GPUs each, named server0, server1, ... Errors: as
  /// create.
  [[nodiscard]] static Result<Fleet> uniform(std::uint64_t servers, std::uint64_t gpus,
                                             const std::string& gpu = {});

  [[nodiscard]] const std::vector<Server>& servers() const { return servers_; }
  [[nodiscard]] std::uint64_t gpus() const { return gpus_; }
  /// Returns the number of GPUs of the largest server.
  [[nodiscard]] std::uint32_t most_on_one() const { return most_on_one_; }

 private:
  explicit Fleet(std::vector<Server> servers);

  std::vector<Server> servers_;
  std::uint64_t gpus_ = 0;
  std::uint32_t most_on_one_ = 0;
};

/// Which GPUs of a fleet are free. Copies are independent; the fleet must outlive them.
///
/// Servers are sorted by how many of their GPUs are free, so that finding one costs a few words.
class FreeGpus {
 public:
  /// All GPUs are free.
  explicit FreeGpus(const Fleet& fleet);

  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] std::uint64_t on(std::uint32_t server) const { return free_[server]; }

  /// Takes GPUs close together: of the first server on which so many are free; if no server has so
  /// many, of the first servers of which all are free, and the rest of the first other server.
  /// Returns nothing, and takes nothing, if there are none.
  [[nodiscard]] std::optional<GpuSet> take_together(std::uint32_t gpus);

  /// Takes any GPUs, those of the fullest servers first. Returns nothing, and takes nothing, if
  /// fewer are free.
  [[nodiscard]] std::optional<GpuSet> take_anywhere(std::uint32_t gpus);

  /// Takes these GPUs. Returns false, and takes nothing, if one is not free.
  [[nodiscard]] bool take(const GpuSet& gpus);

  /// Requires: the GPUs are taken.
  void give_back(const GpuSet& gpus);

 private:
  /// The servers with one number of free GPUs: a bit each, and a bit for each word that is not 0.
  struct Level {
    std::vector<std::uint64_t> words;
    std::vector<std::uint64_t> summary;
    std::uint32_t first = kNoServer;
    void set(std::uint32_t server);
    void reset(std::uint32_t server);
    /// Returns the first server from `from` on, or kNoServer.
    [[nodiscard]] std::uint32_t first_from(std::uint32_t from) const;
  };
  static constexpr std::uint32_t kNoServer = ~std::uint32_t{0};

  /// Sets which GPUs of the server are free, and how many these are.
  void change(std::uint32_t server, std::uint64_t free, std::uint32_t count);
  /// Returns the first server with so many free GPUs, or kNoServer.
  [[nodiscard]] std::uint32_t first_with(std::uint32_t gpus) const;
  /// Takes the first `gpus` free ones of the server.
  ServerGpus take_of(std::uint32_t server, std::uint32_t gpus);
  [[nodiscard]] std::optional<GpuSet> take_whole_servers(std::uint32_t gpus);

  const Fleet* fleet_;
  std::uint64_t count_;
  std::vector<std::uint64_t> free_;   ///< of each server.
  std::vector<std::uint8_t> counts_;  ///< how many of each server's are free.
  std::vector<Level> levels_;         ///< by the number of free GPUs; nobody looks for 0.
};

}  // namespace gpemu::scheduling
