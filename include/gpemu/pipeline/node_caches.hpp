// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "gpemu/base/units.hpp"
#include "gpemu/pipeline/cache.hpp"
#include "gpemu/pipeline/locality.hpp"

namespace gpemu::pipeline {

/// What the caches of several nodes do for each other.
enum class Peers : std::uint8_t {
  kNone,         ///< nothing.
  kPartitioned,  ///< a node reads what a peer caches from that peer, and does not cache it again
                 ///< (CoorDL's partitioned cache).
  kLocality,     ///< the same, and nodes prepare samples that they cache (LADL).
};
inline constexpr std::array<std::string_view, 3> kPeersNames = {"none", "partitioned", "locality"};

/// The caches of all nodes, one in each. Thread safety: none.
class NodeCaches {
 public:
  struct Options {
    CachePolicy policy = CachePolicy::kPage;
    Bytes capacity = 0;  ///< of each node.
    int nodes = 1;
    Peers peers = Peers::kNone;
    std::uint64_t seed = 0;
    /// Makes the cache of a node, in place of the policy, if there is such a function.
    std::function<std::unique_ptr<Cache>(Bytes capacity, std::span<const std::uint32_t> sizes)>
        make = nullptr;
  };
  /// Where a file is read from: `peer` is a node's number, kHere or kStorage.
  static constexpr int kHere = -1;
  static constexpr int kStorage = -2;

  /// `sizes`, the bytes of each file, must outlive it.
  NodeCaches(const Options& options, std::span<const std::uint32_t> sizes);

  /// Reads a file on a node: returns where it comes from, and may cache it.
  [[nodiscard]] int read(int node, FileId file);
  /// Says that the node may read the file soon, which changes nothing.
  void prefetch(int node, FileId file) const {
    if (!owners_.empty()) __builtin_prefetch(&owners_[file]);
    caches_[static_cast<std::size_t>(node)]->prefetch(file);
  }

  /// Returns the node that caches each file. Empty if peers do nothing for each other.
  [[nodiscard]] std::span<const Owner> owners() const { return owners_; }

 private:
  std::vector<std::unique_ptr<Cache>> caches_;
  std::vector<Owner> owners_;
};

}  // namespace gpemu::pipeline
