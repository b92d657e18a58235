// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gpemu/scheduling/fleet.hpp"
#include "gpemu/scheduling/job.hpp"

namespace gpemu::scheduling {

/// What is free of one server, for scores: its cores and its GPUs.
struct ServerRoom {
  std::uint64_t kind = 0;  ///< the bit of its kind of GPUs, as in Demand::kinds.
  std::uint64_t millicores = 0;
  std::uint32_t gpus = 0;
  std::array<std::uint16_t, kMaxGpusPerServer> shares{};  ///< what is free of each, in thousandths.

  /// Returns what is free of all GPUs together, in thousandths.
  [[nodiscard]] std::uint32_t free_shares() const;
};
[[nodiscard]] ServerRoom room_on(const FreeResources& free, std::uint32_t server);

/// A demand that is expected to come, and which part of all demands is like it.
struct TypicalDemand {
  Demand demand;  ///< its memory does not count.
  double part = 0;
};

/// Returns the most frequent demands of the jobs, so many that they are those of `percent` of the
/// jobs; their parts add up to 1. Demands that differ in memory alone are one.
///
/// Source: FGD (ATC'23), section 4.1; the ties and the 95 % are those of its simulator, function
/// GetTypicalPods in pkg/utils/frag.go of github.com/hkust-adsl/kubernetes-scheduler-simulator.
/// Requires: at least one job.
[[nodiscard]] std::vector<TypicalDemand> typical_demands(const Fleet& fleet,
                                                         std::span<const Job> jobs,
                                                         double percent = 95);

/// How much of what is free the expected demands cannot use (FGD's fragmentation). Thread
/// safety: none.
///
/// A demand cannot use any GPU of a server on which it does not fit, and none of which less is free
/// than its share. A demand without GPUs uses none.
class Fragmentation {
 public:
  explicit Fragmentation(std::span<const TypicalDemand> typical);

  /// Returns the expected amount, in thousandths of GPUs: F(n) of the paper.
  [[nodiscard]] double of(const ServerRoom& room);

 private:
  /// Why a demand cannot use what it cannot: the sums of these parts are added up one by one, so
  /// that the last bits are those of the published numbers.
  enum Reason : std::uint8_t { kGpusAndCores, kGpus, kCores, kNoGpus, kNoGpusAndCores, kKind };
  static constexpr std::size_t kReasons = 6;
  struct Entry {
    std::uint64_t kinds = 0;
    std::uint64_t millicores = 0;
    std::uint32_t gpus = 0;
    std::uint32_t share = 0;  ///< its place in shares_.
    double part = 0;
  };
  /// A share that demands ask for, and how the GPUs of the server are for it.
  struct Share {
    std::uint32_t share = 0;
    std::uint32_t gpus = 0;    ///< of which at least so much is free.
    std::uint32_t wasted = 0;  ///< what is free of the others.
  };
  std::vector<Entry> entries_;
  std::vector<Share> shares_;
};

}  // namespace gpemu::scheduling
