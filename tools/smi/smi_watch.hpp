// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/device/monitor.hpp"
#include "gpemu/profile/mig_profile.hpp"
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
  /// Returns the profiles of a kind of GPU that MIG divides. Without it, no MIG devices are shown.
  std::function<Result<std::vector<profile::MigProfile>>(const std::string& gpu)> mig_profiles;
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
  [[nodiscard]] Result<SmiDevice> sample_one(device::Monitor& monitor, int index) const;
  /// Returns a device's MIG devices. Errors: those of the profiles, and of reading the node.
  [[nodiscard]] Result<std::vector<SmiMigDevice>> mig_devices(
      const device::NodeView& node, const device::DeviceSnapshot& now) const;

  const SmiWatchOptions options_;
  Monitors monitors_;
};

}  // namespace gpemu::tools
