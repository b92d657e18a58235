// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "gpemu/scheduling/interleaving.hpp"

namespace gpemu::scheduling {

/// How well jobs share their GPUs. Many jobs have the same stages, so what groups of them do is
/// computed once.
///
/// Thread safety: none.
class SharedUse {
 public:
  /// The stages of up to kMostInGroup jobs, in order.
  using Mix = std::uint32_t;

  [[nodiscard]] Mix of(const Stages& stages);
  /// Returns the jobs of `a` and then those of `b`. Requires: they are kMostInGroup or fewer.
  [[nodiscard]] Mix together(Mix a, Mix b);
  /// Returns how long an iteration of each takes. Requires: two jobs or more.
  [[nodiscard]] double iteration_s(Mix mix);
  /// Returns which share of the resources the jobs of both use together, on average: 0 if they are
  /// too many, or the stages of one are not known.
  [[nodiscard]] double share(Mix a, Mix b);

 private:
  struct Jobs {
    std::array<Stages, kMostInGroup> stages{};
    std::size_t count = 0;
    double iteration_s = 0;  ///< 0: not computed.
  };
  [[nodiscard]] Mix add(const Jobs& jobs);
  [[nodiscard]] Jobs joined(Mix a, Mix b) const;
  [[nodiscard]] double computed_share(Mix a, Mix b);

  std::vector<Jobs> mixes_;
  std::map<std::vector<Stages>, Mix> known_;
  std::unordered_map<std::uint64_t, Mix> together_;  ///< by two mixes.
  std::unordered_map<std::uint64_t, double> shares_;
};

}  // namespace gpemu::scheduling
