// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/device/fault_table.hpp"
#include "gpemu/device/mig_layout.hpp"
#include "gpemu/device/node.hpp"
#include "gpemu/sim/clock.hpp"

namespace gpemu::device {

/// A watcher's view of a node. A watcher has no place among the node's processes.
///
/// Reads copies of the segment and never maps, locks or writes it. So watching waits for nobody,
/// works when all places are taken, and does not keep a run's node alive. Owned by the caller that
/// opened it. Thread safety: any thread.
class NodeView {
 public:
  /// Opens a node to watch it; `name` is as for Node::open.
  ///
  /// Errors: kNotFound, also for a node of a run that has ended; kIncompatible; kCorruptData.
  [[nodiscard]] static Result<std::shared_ptr<NodeView>> open(
      std::string_view name, const std::filesystem::path& directory = default_node_folder());

  /// Watches a node in which this process takes part.
  [[nodiscard]] static std::shared_ptr<NodeView> of(std::shared_ptr<Node> node);

  NodeView(const NodeView&) = delete;
  NodeView& operator=(const NodeView&) = delete;
  ~NodeView();

  [[nodiscard]] const std::string& name() const;
  [[nodiscard]] int device_count() const;
  [[nodiscard]] SharingPolicy policy() const;
  [[nodiscard]] bool temporary() const;
  /// Returns what joins the devices; null if that is not described. Lives as long as this view.
  [[nodiscard]] const profile::TopologySpec* topology() const;

  /// Returns the instances into which MIG divides a device; none if it does not divide it.
  /// `profiles`: as for DeviceMig::layout. Errors: as device_snapshot.
  [[nodiscard]] Result<MigLayout> mig_layout(int index,
                                             std::span<const profile::MigProfile> profiles) const;

  /// Returns the memory that processes hold of the GPU instance whose MIG devices have that
  /// memory_place. Errors: as device_snapshot. Requires: the policy is kMig.
  [[nodiscard]] Result<Bytes> mig_memory_used(int index, int memory_place) const;

  /// Returns whether the node was removed, or belongs to a run that has ended.
  [[nodiscard]] bool over() const;

  /// The node's clock as a watcher sees it: it does not wait for time that a run skips. Lives as
  /// long as this view.
  [[nodiscard]] sim::Clock& clock() const;

  /// Returns what goes wrong with the devices, as far as it is known now. Errors: as
  /// device_snapshot.
  [[nodiscard]] Result<FaultTable> faults() const;

  /// Returns the state of a device at time `now`. Requires: 0 <= index < device_count().
  ///
  /// Errors: kCorruptData if the segment was truncated.
  [[nodiscard]] Result<DeviceSnapshot> device_snapshot(int index, TimePoint now) const;

 private:
  struct State;
  explicit NodeView(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace gpemu::device
