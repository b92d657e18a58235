// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <utility>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/base/mutex.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/device/mig_layout.hpp"
#include "gpemu/device/node_state.hpp"
#include "gpemu/profile/fault_plan.hpp"
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
  /// Returns the folder of the segments: GPEMU_NODE_DIR if set, else /dev/shm/gpemu-UID.
  [[nodiscard]] static std::filesystem::path default_directory();

  /// Creates a node and attaches to it. The node appears under its name complete or not at all.
  ///
  /// Errors: kInvalidArgument for a bad configuration or a name that is taken, kResourceLimit if
  /// the file system is full, kIo otherwise, e.g. if the folder is not this user's own.
  [[nodiscard]] static Result<std::shared_ptr<Node>> create(
      const NodeConfig& config, const std::filesystem::path& directory = default_directory());

  /// Like create, but if the configuration's name is taken, tries NAME-2, NAME-3 and so on. This is
  /// for names made of pids, because two pid namespaces may have the same pid. Errors: as create.
  [[nodiscard]] static Result<std::shared_ptr<Node>> create_under_free_name(
      NodeConfig config, const std::filesystem::path& directory = default_directory());

  /// Creates a node in this process's own memory, which no other process can see: for tests and
  /// simulations.
  [[nodiscard]] static Result<std::shared_ptr<Node>> create_private(const NodeConfig& config);

  /// Attaches to an existing node.
  ///
  /// Errors: kNotFound, also for another user's node if the name does not include the user;
  /// kIncompatible for a file that is not a segment or has another version; kCorruptData for a
  /// damaged segment; kResourceLimit if the node's registry is full.
  [[nodiscard]] static Result<std::shared_ptr<Node>> open(
      std::string_view name, const std::filesystem::path& directory = default_directory());

  /// Attaches to the node that default_name returns. Errors: those of both.
  [[nodiscard]] static Result<std::shared_ptr<Node>> open_default(
      std::string_view named, const std::filesystem::path& directory = default_directory());

  /// Returns `named`, for which callers pass the value of GPEMU_NODE. If it is empty, returns the
  /// name of the only node that exists.
  ///
  /// Errors: kNotFound without a node, kInvalidArgument with several.
  [[nodiscard]] static Result<std::string> default_name(
      std::string_view named, const std::filesystem::path& directory = default_directory());

  /// Removes a node of any version by name, and also the nodes that killed runs have left behind.
  /// Processes that are attached to the node can continue to use it.
  ///
  /// Errors: kNotFound; without `force`, kUnavailable if live processes use it and kIncompatible
  /// for a file that is not a segment.
  [[nodiscard]] static Result<void> remove(
      std::string_view name, bool force = false,
      const std::filesystem::path& directory = default_directory());

  /// Returns this user's nodes, sorted by name, without those of runs that have ended. Changes
  /// nothing.
  ///
  /// Errors: kIo when the folder cannot be read or is not this user's own.
  [[nodiscard]] static Result<std::vector<NodeEntry>> list(
      const std::filesystem::path& directory = default_directory());

  /// If somebody truncates a segment that this process has mapped, makes the process end with a
  /// message and the exit code of kCorruptData instead of by SIGBUS. Does nothing in a process that
  /// handles SIGBUS itself.
  static void end_when_cut_short();

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

  /// Returns the instances into which MIG divides a device; none if it does not divide it.
  /// `profiles`: of the device's kind of GPU; they outlive the result. Requires: 0 <= device <
  /// device_count().
  [[nodiscard]] MigLayout mig_layout(int device,
                                     std::span<const profile::MigProfile> profiles) const;
  /// Changes them, all at once or not at all. `change` may be called several times.
  ///
  /// Errors: those of `change`; kUnavailable if a process, named in the message, uses a compute
  /// instance that it destroys; kUnsupported if MIG does not divide the GPU, or a new instance's
  /// size is not known.
  Result<void> change_mig(int device, std::span<const profile::MigProfile> profiles,
                          const std::function<Result<void>(MigLayout&)>& change);
  /// Switches MIG on or off for a device, which destroys all instances. While a process uses the
  /// device, that is only pending, until it is switched again. Returns what holds now. Errors:
  /// kUnsupported if the policy is not kMig or the GPU has no MIG; kUnavailable in a forked child.
  Result<MigMode> set_mig_mode(int device, std::span<const profile::MigProfile> profiles,
                               bool divided);
  [[nodiscard]] MigMode mig_mode(int device) const;

  /// Says which processes may have contexts on a device from now on; those that have one keep it.
  /// Requires: 0 <= device < device_count(). Errors: kUnavailable in a forked child.
  Result<void> set_compute_mode(int device, ComputeMode mode);
  [[nodiscard]] ComputeMode compute_mode(int device) const;
  /// Sets the length of a device's time slices from now on. Requires: 0 <= device <
  /// device_count(). Errors: as set_compute_mode; kUnsupported if the policy is not kTimeSlices.
  Result<void> set_time_slice(int device, TimeSliceLength length);

  /// Returns the memory that processes hold of the GPU instance whose MIG devices have that
  /// memory_place. Requires: the policy is kMig.
  [[nodiscard]] Bytes mig_memory_used(int device, int memory_place) const;

  /// Returns whether faults are planned for a device (NodeConfig::faults).
  [[nodiscard]] bool has_faults(int device) const;
  /// Returns what faults do to a device at a time.
  [[nodiscard]] DeviceHealth health(int device, TimePoint now) const;
  /// Returns what faults leave of the rate of a device's link to a peer, or to the host (-1).
  [[nodiscard]] double link_share(int device, int peer, profile::GpuLink link, TimePoint now) const;
  /// Whether NVLinks between a device and a peer are broken; peer -1: all of the device.
  [[nodiscard]] bool nvlink_is_broken(int device, int peer, TimePoint now) const;
  /// What a driver would have reported of a device by `now`.
  [[nodiscard]] std::vector<DeviceXid> xids(int device, TimePoint now) const;
  /// Returns when a device falls off the bus; the last TimePoint if that is not known.
  [[nodiscard]] TimePoint lost_from(int device) const;
  /// Returns when the processes that use a device from `now` on are killed; the last TimePoint if
  /// that is not known.
  [[nodiscard]] TimePoint killed_at(int device, TimePoint now) const;
  /// Counts a collective that this process asks for on a device: faults may begin with it. Returns
  /// whether the process is to be killed.
  [[nodiscard]] bool count_collective(int device, TimePoint now);
  /// The same for a collective that is asked for at a time that may be in the future. Work that is
  /// queued keeps its times.
  void count_collective_ahead(int device, TimePoint time) const;
  /// Returns what goes wrong with the devices (NodeConfig::faults). Lives as long as the node.
  [[nodiscard]] std::span<const profile::Fault> faults() const;

  /// Counts bytes between a device and others over one of its NVLinks or, without one, over PCIe.
  /// Requires: 0 <= device < device_count(); 0 <= nvlink < kMostNvlinks.
  void count_traffic(int device, std::optional<int> nvlink, const LinkTraffic& bytes) const;

  /// Limits a device's power: kernels that are launched from now on run at the clock that the limit
  /// allows (docs/design/power.md). 0: the board's own limit. Requires: 0 <= device <
  /// device_count().
  ///
  /// Errors: kInvalidArgument for a limit that the board does not have; kUnavailable in a forked
  /// child, or if others keep changing settings.
  Result<void> set_power_limit(int device, double limit_w, TimePoint now);
  /// Locks a device's clock, in MHz, for such kernels. 0 unlocks it. Below and above the clocks
  /// that the device has, the nearest one counts. Requires: 0 <= device < device_count().
  ///
  /// Errors: kUnsupported if the device's clock is not known; kInvalidArgument if it is negative or
  /// not a number; kUnavailable as above.
  Result<void> lock_clock(int device, double clock_mhz, TimePoint now);
  /// Counts a kernel that this process launches on a device. Returns whether a fault makes it use
  /// an illegal address.
  [[nodiscard]] bool count_kernel(int device, TimePoint now);

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

  /// Identifies this attachment to the node for ring().
  [[nodiscard]] std::uint64_t identity() const;
  /// Wakes the thread that settles the rounds of a process, which then calls the function that
  /// process gave to call_when_rung. Any number is valid; it may ring for another process.
  void ring(std::uint64_t identity);
  /// As ring() for each.
  void ring(std::span<const std::uint64_t> identities);
  /// As ring() for each. If they are several, the thread that settles this process's rounds does
  /// it.
  void ring_soon(std::span<const std::uint64_t> identities);
  /// Returns how often a process has been rung for; as ring(), it may be that of another process.
  [[nodiscard]] std::uint32_t times_rung(std::uint64_t identity) const;
  /// Makes the thread that settles rounds call a function after each look, without a lock. Other
  /// changes at a rendezvous ring, too. Requires: this process has not taken a seat yet.
  void call_when_rung(std::function<void()> function);

  /// The clock of all processes of the node: the host's, plus the time that a run has skipped.
  [[nodiscard]] sim::SharedClock& clock() const;
  [[nodiscard]] sim::ClockPage& clock_page() const;
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
  Result<void> check_mig(int device, std::span<const profile::MigProfile> profiles) const;
  /// Starts the settler, once, if time passes by itself.
  void start_to_settle(sim::Clock& clock);

  std::unique_ptr<Segment> segment_;
  std::unique_ptr<Schedule> schedule_;
  std::atomic<ProcessPriority> priority_{ProcessPriority::kNormal};
  Mutex rung_mutex_;
  std::function<void()> rung_ GPEMU_GUARDED_BY(rung_mutex_);
  std::once_flag settler_started_;
  std::unique_ptr<Settler> settler_;
};

}  // namespace gpemu::device
