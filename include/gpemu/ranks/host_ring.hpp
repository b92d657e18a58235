// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gpemu::ranks {

/// The hosts of a communicator, in the order of their first ranks. Each has a next one; the last
/// one's is the first.
class HostRing {
 public:
  /// `hosts`: of each rank, a number that is the same for the ranks of one host.
  explicit HostRing(std::span<const std::uint64_t> hosts) {
    std::vector<std::uint64_t> known;
    for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
      const auto found = std::ranges::find(known, hosts[rank]);
      host_of_.push_back(static_cast<int>(found - known.begin()));
      if (found != known.end()) continue;
      known.push_back(hosts[rank]);
      first_ranks_.push_back(static_cast<int>(rank));
    }
  }

  [[nodiscard]] int size() const { return static_cast<int>(first_ranks_.size()); }
  [[nodiscard]] int host_of(int rank) const { return host_of_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] int first_rank(int host) const {
    return first_ranks_[static_cast<std::size_t>(host)];
  }
  [[nodiscard]] int next(int host) const { return (host + 1) % size(); }
  [[nodiscard]] int previous(int host) const { return (host + size() - 1) % size(); }
  /// Returns whether a rank is the one that its host's connections belong to.
  [[nodiscard]] bool is_first(int rank) const { return first_rank(host_of(rank)) == rank; }
  /// Returns how many ranks of its host come before a rank.
  [[nodiscard]] int place_on_host(int rank) const {
    return static_cast<int>(std::count(host_of_.begin(), host_of_.begin() + rank, host_of(rank)));
  }

 private:
  std::vector<int> host_of_;      ///< by rank.
  std::vector<int> first_ranks_;  ///< by host.
};

}  // namespace gpemu::ranks
