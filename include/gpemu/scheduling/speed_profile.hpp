// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "gpemu/scheduling/fleet.hpp"

namespace gpemu::scheduling {

/// How fast a model trains, relative to the time of an iteration that its jobs state: 2 is twice as
/// fast, 0 means that it cannot run. Either kind and host are independent, so that their speeds are
/// multiplied, or it is known for each kind with each host.
struct SpeedProfile {
  /// How fast with so many cores and so much memory for each GPU.
  struct WithHost {
    HostShare per_gpu;
    double speed = 1;
  };

  std::vector<double> by_kind;  ///< by Fleet::kinds(); empty: the same on all.
  /// By rising cores and memory, both at once; empty: the same with all.
  std::vector<WithHost> by_host;
  /// As by_host, for each of Fleet::kinds(); then the two above are empty.
  std::vector<std::vector<WithHost>> by_kind_and_host;
  std::string evidence;  ///< on what it rests; empty: not stated.

  /// Returns what is known of cores and memory beside GPUs of a kind; empty: they do not matter.
  [[nodiscard]] std::span<const WithHost> hosts_on(std::size_t kind) const;
  /// Returns whether it can run on a kind at all.
  [[nodiscard]] bool runs_on(std::size_t kind) const;
  /// Returns the speed on a kind with the fastest host that needs no more than `per_gpu`; 0 if none
  /// does.
  [[nodiscard]] double speed(std::size_t kind, const HostShare& per_gpu) const;
};

}  // namespace gpemu::scheduling
