// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <utility>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/device/bells.hpp"
#include "gpemu/device/device_mig.hpp"
#include "gpemu/device/device_settings.hpp"
#include "gpemu/device/node_faults.hpp"
#include "gpemu/device/node_files.hpp"
#include "gpemu/device/node_state.hpp"
#include "gpemu/sim/shared_clock.hpp"

namespace gpemu::sim {
class Clock;
}
namespace gpemu::profile {
struct TopologySpec;
}

namespace gpemu::device {

/// Makes fork wait while this process opens a node, so that no child keeps its parent's locks.
/// Call this before you register fork handlers (pthread_atfork) that take a lock under which nodes
/// are opened.
void handle_forks();

class Schedule;  ///< all work that this process has queued, and when it runs.
class Segment;   ///< this process's part in a node's segment.
class Settler;   ///< the thread that settles its open work.

/// An emulated computer: a segment of shared memory that holds the state of its devices, and this
/// process's entry in its registry of processes.
///
/// There is no daemon. When a process dies, Linux releases the locks that show the others that the
/// process is alive, and everything that the process held becomes free. No process ever waits for
/// another one's lock, so a process that is killed or stopped cannot block the others. A node is
/// named NAME, or USER/NAME if it belongs to another user; docs/reference/security.md says how far
/// that user must be trusted. Owned by the caller that attached. Thread safety: any thread.
class Node {
 public:
  /// Creates a node and attaches to it. The node appears under its name complete or not at all.
  ///
  /// Errors: kInvalidArgument for a bad configuration or a name that is taken, kResourceLimit if
  /// the file system is full, kIo otherwise, e.g. if the folder is not this user's own.
  [[nodiscard]] static Result<std::shared_ptr<Node>> create(
      const NodeConfig& config, const std::filesystem::path& directory = default_node_folder());

  /// Like create, but if the configuration's name is taken, tries NAME-2, NAME-3 and so on. This is
  /// for names made of pids, because two pid namespaces may have the same pid. Errors: as create.
  [[nodiscard]] static Result<std::shared_ptr<Node>> create_under_free_name(
      NodeConfig config, const std::filesystem::path& directory = default_node_folder());

  /// Creates a node in this process's own memory, which no other process can see: for tests and
  /// simulations.
  [[nodiscard]] static Result<std::shared_ptr<Node>> create_private(const NodeConfig& config);

  /// Attaches to an existing node.
  ///
  /// Errors: kNotFound, also for another user's node if the name does not include the user;
  /// kIncompatible for a file that is not a segment or has another version; kCorruptData for a
  /// damaged segment; kResourceLimit if the node's registry is full.
  [[nodiscard]] static Result<std::shared_ptr<Node>> open(
      std::string_view name, const std::filesystem::path& directory = default_node_folder());

  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  /// Detaches; removes a temporary node that no other process uses.
  ~Node();

  /// Returns the name by which `open` finds the node, with the user if it is another user's.
  [[nodiscard]] const std::string& name() const;
  [[nodiscard]] int device_count() const;
  [[nodiscard]] SharingPolicy policy() const;
  [[nodiscard]] bool temporary() const;
  /// Returns what joins the devices; null if that is not described. Lives as long as the node.
  [[nodiscard]] const profile::TopologySpec* topology() const;

  /// How MIG divides a device. Requires: 0 <= device < device_count().
  [[nodiscard]] DeviceMig mig(int device) const;
  /// What may be set for a device. Requires: 0 <= device < device_count().
  [[nodiscard]] DeviceSettings settings(int device) const;
  /// What goes wrong with the devices.
  [[nodiscard]] NodeFaults faults() const;
  /// The bells of the node's processes.
  [[nodiscard]] Bells& bells() { return bells_; }

  /// Counts bytes between a device and others over one of its NVLinks or, without one, over PCIe.
  /// Requires: 0 <= device < device_count(); 0 <= nvlink < kMostNvlinks.
  void count_traffic(int device, std::optional<int> nvlink, const LinkTraffic& bytes) const;

  /// Says how urgent this process is on the devices that it opens from now on.
  void set_priority(ProcessPriority priority) { priority_ = priority; }
  [[nodiscard]] ProcessPriority priority() const { return priority_; }

  /// Returns how much work an engine of a device has from a time on, at most `most`, as far as
  /// processes have queued it by now. Requires: 0 <= device < device_count().
  [[nodiscard]] Duration work_after(int device, Engine engine, TimePoint from, Duration most) const;

  /// Settles rounds of rendezvous up to `now`. Returns the time at which to call it again, or the
  /// last TimePoint if nothing can change until another process acts. On a real clock, a separate
  /// thread does this; call it to run several attachments on a virtual one.
  TimePoint settle(TimePoint now);

  /// Identifies this attachment to the node for bells().
  [[nodiscard]] std::uint64_t identity() const;

  /// The clock of all processes of the node: the host's, plus the time that a run has skipped.
  [[nodiscard]] sim::SharedClock& clock() const;
  /// Returns the file that contains the clock's page, and the page's offset in it.
  [[nodiscard]] std::pair<std::filesystem::path, std::uint64_t> place_of_clock() const;
  /// Returns whether each process that takes part, except for this one, is in `processes`, which
  /// are pids of this pid namespace.
  [[nodiscard]] bool all_others_among(const std::set<pid_t>& processes) const;

  /// Returns the state of a device at time `now`. Requires: 0 <= index < device_count().
  [[nodiscard]] DeviceSnapshot device_snapshot(int index, TimePoint now) const;

 private:
  friend class Device;
  friend class Rendezvous;
  explicit Node(std::unique_ptr<Segment> segment);
  /// Starts the settler, once, if time passes by itself.
  void start_to_settle(sim::Clock& clock);

  std::unique_ptr<Segment> segment_;
  std::unique_ptr<Schedule> schedule_;
  std::atomic<ProcessPriority> priority_{ProcessPriority::kNormal};
  Bells bells_;
  std::once_flag settler_started_;
  std::unique_ptr<Settler> settler_;
};

}  // namespace gpemu::device
