// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <utility>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/device/node_state.hpp"
#include "gpemu/sim/shared_clock.hpp"

namespace gpemu::sim {
class Clock;
}

namespace gpemu::device {

/// Has a fork wait while this process opens a node, so that no child keeps its parent's locks.
/// Whoever registers handlers of fork (pthread_atfork) that take a lock under which nodes are
/// opened calls this first.
void handle_forks();

class Schedule;  ///< all that this process has queued, and when it runs.
class Segment;   ///< this process's part in a node's segment.
class Settler;   ///< the thread that settles its open work.

/// An emulated computer: a segment of shared memory that holds the state of its devices, and this
/// process's entry in its registry of processes.
///
/// There is no daemon. When a process dies, the kernel releases the locks by which the others know
/// that it lives, and what it held is free. No process ever waits for another one's lock, so one
/// that is killed or stopped cannot block the others. A node is named NAME, or USER/NAME when it
/// belongs to another user, whom one then trusts as docs/reference/security.md says. Owned by
/// whoever attached. Thread safety: any thread.
class Node {
 public:
  /// Returns the folder of the segments: GPEMU_NODE_DIR if set, else /dev/shm/gpemu-UID.
  [[nodiscard]] static std::filesystem::path default_directory();

  /// Creates a node and attaches to it. It appears under its name complete or not at all.
  ///
  /// Errors: kInvalidArgument for a bad configuration or a name that is taken, kResourceLimit when
  /// the file system is full, kIo otherwise, also when the folder is not this user's own.
  [[nodiscard]] static Result<std::shared_ptr<Node>> create(
      const NodeConfig& config, const std::filesystem::path& directory = default_directory());

  /// As create, under the configuration's name or, while that is taken, NAME-2, NAME-3 and so on:
  /// for names made of pids, which are others in each pid namespace. Errors: as create.
  [[nodiscard]] static Result<std::shared_ptr<Node>> create_under_free_name(
      NodeConfig config, const std::filesystem::path& directory = default_directory());

  /// Creates a node in this process's own memory, seen by nobody else: for tests and simulations.
  [[nodiscard]] static Result<std::shared_ptr<Node>> create_private(const NodeConfig& config);

  /// Attaches to an existing node.
  ///
  /// Errors: kNotFound, also for a node of a user who was not named; kIncompatible for a file that
  /// is no segment or one of another version; kCorruptData for a damaged one; kResourceLimit when
  /// its registry is full.
  [[nodiscard]] static Result<std::shared_ptr<Node>> open(
      std::string_view name, const std::filesystem::path& directory = default_directory());

  /// Attaches to the node that default_name returns. Errors: those of both.
  [[nodiscard]] static Result<std::shared_ptr<Node>> open_default(
      const std::filesystem::path& directory = default_directory());

  /// Returns the name of the node that GPEMU_NODE names, else of the only one that there is.
  ///
  /// Errors: kNotFound without a node, kInvalidArgument with several.
  [[nodiscard]] static Result<std::string> default_name(
      const std::filesystem::path& directory = default_directory());

  /// Removes a node by name, of any version, and with it the nodes that killed runs have left.
  /// Processes that are attached keep what they have.
  ///
  /// Errors: kNotFound; without `force`, kUnavailable when live processes use it and kIncompatible
  /// for a file that is no segment.
  [[nodiscard]] static Result<void> remove(
      std::string_view name, bool force = false,
      const std::filesystem::path& directory = default_directory());

  /// Returns this user's nodes, sorted by name, without those of runs that have ended. Reads only.
  ///
  /// Errors: kIo when the folder cannot be read or is not this user's own.
  [[nodiscard]] static Result<std::vector<NodeEntry>> list(
      const std::filesystem::path& directory = default_directory());

  /// Has this process end with the exit code of kCorruptData and a message when somebody cuts short
  /// a segment that it has mapped, instead of by SIGBUS. Does nothing in a process that handles
  /// SIGBUS itself.
  static void end_when_cut_short();

  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  /// Detaches; removes a temporary node that no other process uses.
  ~Node();

  /// Returns the name by which `open` finds the node: with the user when it is another's.
  [[nodiscard]] const std::string& name() const;
  [[nodiscard]] int device_count() const;
  [[nodiscard]] SharingPolicy policy() const;
  [[nodiscard]] bool temporary() const;

  /// Does what the time until `now` brings for rounds of rendezvous, and returns when to look again
  /// or, if only others can bring news, the last TimePoint. On a real clock a thread of its own
  /// does so; this is for whoever runs several attachments on a virtual one.
  TimePoint settle(TimePoint now);

  /// The clock of all processes of the node: the host's, plus what a run has skipped.
  [[nodiscard]] sim::SharedClock& clock() const;
  [[nodiscard]] sim::ClockPage& clock_page() const;
  /// Returns the file in which the clock's page lies, and where in it.
  [[nodiscard]] std::pair<std::filesystem::path, std::uint64_t> place_of_clock() const;
  /// Returns whether each process that takes part, but for this one, is one of `processes`, which
  /// are of this pid namespace.
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
  std::once_flag settler_started_;
  std::unique_ptr<Settler> settler_;
};

}  // namespace gpemu::device
