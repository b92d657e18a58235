// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/device/monitor.hpp"
#include "gpemu/sim/clock.hpp"

#include "smi/smi_sample.hpp"

namespace gpemu::tools {

/// What an SmiWatch watches, and how.
struct SmiWatchOptions {
  std::filesystem::path folder;  ///< of the nodes.
  std::string node;              ///< the only node to watch; empty: all in the folder.
  int device = -1;               ///< the only device of each node to watch; -1: all.
  Duration period{};             ///< the shortest time over which load is measured.
  sim::Clock* clock = nullptr;   ///< measures the periods; null: the clock of each node.
};

/// The devices that `gpemu smi` shows. Nodes are kept from one sample to the next: each period
/// begins at the end of the previous one. Thread safety: none.
class SmiWatch {
 public:
  explicit SmiWatch(SmiWatchOptions options) : options_(std::move(options)) {}

  /// Returns all devices now. Waits for the first period of new nodes to end. Damaged nodes are
  /// left out.
  ///
  /// Errors: kNotFound if no node has the requested device; errors of reading the
  /// folder, or the node if there is only one.
  Result<std::vector<SmiDevice>> sample();

 private:
  /// By the requested names: the user's own node may be requested as USER/NAME.
  using Monitors = std::vector<std::pair<std::string, std::unique_ptr<device::Monitor>>>;

  [[nodiscard]] Result<std::vector<std::string>> node_names() const;
  /// Starts watching new nodes, and stops watching nodes that are gone.
  Result<void> follow();
  [[nodiscard]] Result<std::unique_ptr<device::Monitor>> watch(const std::string& name) const;

  const SmiWatchOptions options_;
  Monitors monitors_;
};

}  // namespace gpemu::tools
