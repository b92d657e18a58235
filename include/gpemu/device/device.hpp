// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/device/interval.hpp"
#include "gpemu/device/moment.hpp"
#include "gpemu/device/node.hpp"
#include "gpemu/sim/clock.hpp"

namespace gpemu::device {

/// An address in a device's memory. Never null; not to be dereferenced.
using DeviceAddress = std::uint64_t;

struct MemoryInfo {
  Bytes total = 0;  ///< what this process may hold.
  Bytes free = 0;   ///< what it may still take, which no process holds.
  Bytes held = 0;   ///< what this context holds.
};

/// A point in a stream's work, like a CUDA event: recorded, then waited for or timed.
///
/// Thread safety: any thread, as long as no other thread records it at the same time.
class Event {
 public:
  Event() = default;
  /// Makes an event that is already recorded.
  explicit Event(Moment moment) : moment_(std::move(moment)), recorded_(true) {}
  explicit Event(TimePoint time) : Event(Moment(time)) {}

  [[nodiscard]] bool recorded() const { return recorded_; }
  /// Returns the moment at which the work before the event ends. Requires: recorded().
  [[nodiscard]] const Moment& moment() const { return moment_; }

 private:
  friend class Stream;
  Moment moment_;
  bool recorded_ = false;
};

enum class StreamKind : std::uint8_t {
  kBlocking,     ///< synchronises with the legacy default stream.
  kNonBlocking,  ///< does not.
};

class Device;
struct Lane;  ///< the work of a stream.

/// A queue of work on a device, first in, first out. Queueing only writes the timeline and returns.
///
/// Owned by the caller; must not outlive its device. Thread safety: any thread.
class Stream {
 public:
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  /// The stream's work still runs.
  ~Stream();

  /// Queues work of duration `cost` on the compute engine and returns when it is expected to run,
  /// which is not when it will: last_end() is its end. Here and below, work that would end after
  /// the last TimePoint (some 292 years) ends there. At a lower clock (Node::set_power_limit), it
  /// takes longer, except for the share of its time in which it waits for memory. `width`: the
  /// share of the multiprocessors that it fills. Kernels of several streams run at the same time if
  /// these shares, and those of memory, sum to at most 1. `waves`: how often the GPU fills with its
  /// blocks. After each of them, kernels of more urgent streams that exist when it is queued go
  /// first.
  ///
  /// Blocks as long as the node's policy holds this process back.
  QueuedWork launch(Duration cost, double memory_share = 0, double width = 1, int waves = 1);

  /// Returns when such a kernel may be launched: not after now if at once; else when to ask again.
  [[nodiscard]] TimePoint launch_from(Duration cost, double memory_share = 0, double width = 1);

  /// Queues a copy of `bytes` that takes `cost` on a copy engine. Requires: `engine` is a copy
  /// engine.
  QueuedWork copy(Engine engine, Bytes bytes, Duration cost);

  /// Makes the event stand for all work queued so far.
  void record(Event& event);

  /// Makes work that is queued later start only after the event. If the event was never recorded,
  /// there is nothing to wait for.
  void wait(const Event& event);
  void wait(const Moment& moment);

  /// Makes work that is queued later start only so long after all that was queued before, and after
  /// now. No engine works for that.
  void pause(Duration time);

  /// Returns the moment at which all work queued so far ends, including that of the streams with
  /// which this one synchronises.
  [[nodiscard]] Moment tail() const;

  /// Returns the moment at which the last work of this stream ends.
  [[nodiscard]] Moment last_end() const;

  /// Returns whether all work queued so far has ended.
  [[nodiscard]] bool idle() const;

  /// Blocks the calling thread until all work queued so far has ended.
  void synchronize();

 private:
  friend class Device;
  friend class Rendezvous;
  Stream(Device& device, std::unique_ptr<Lane> lane);
  void wait_to_launch(Duration cost, double memory_share, double width);
  [[nodiscard]] Lane& lane() { return *lane_; }
  [[nodiscard]] const Node& node() const;
  Device& device_;
  std::unique_ptr<Lane> lane_;
};

/// This process's context on one emulated device: its streams and the memory it holds.
///
/// Thread safety: any thread. Must not outlive `clock`.
class Device {
 public:
  /// `client`: of which MPS server this process is a client, if of any. Not used if it has the
  /// device open already. With the policy kMps, all processes are clients of one. `share`: of its
  /// compute time; not used either if it has the device open already.
  ///
  /// Errors: kNotFound when the node has no such device; kUnsupported when MIG divides it, so that
  /// only its MIG devices can be used, when its policy knows no clients of MPS, and for a share of
  /// a device that is not shared by time slices, or of a client of MPS; kUnavailable when its
  /// compute mode refuses this process: the message names the one that holds the device;
  /// kResourceLimit when too many processes share it.
  [[nodiscard]] static Result<std::unique_ptr<Device>> open(
      std::shared_ptr<Node> node, int index, sim::Clock& clock,
      const std::optional<MpsClient>& client = {}, const ComputeShare& share = {});

  /// Opens a MIG device, with its own memory, compute engine and copy engines. Devices of one GPU
  /// instance share its memory and its copy engines.
  ///
  /// Errors: kNotFound if it does not exist any more; those of open.
  [[nodiscard]] static Result<std::unique_ptr<Device>> open(std::shared_ptr<Node> node,
                                                            const MigDevice& mig, sim::Clock& clock,
                                                            const ComputeShare& share = {});

  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  /// Gives back the memory that is still held. Queued work stays on the timeline.
  ~Device();

  /// Returns the device's index in the node; of a MIG device, that of its GPU.
  [[nodiscard]] int index() const;
  [[nodiscard]] sim::Clock& clock() const;
  [[nodiscard]] Node& node() const;

  /// Errors: kUnavailable in a forked child. Only allocate() and free() check this themselves; a
  /// child must not call any other function that writes the timeline or takes the device's lock.
  [[nodiscard]] Result<void> check_owner() const;

  /// From now on, other processes do not share the device with this context: its work, also what is
  /// queued, takes none of their time, and means nothing. For a context after a fatal error.
  void abandon();

  /// Calls `observer` when the times of work that this context has queued become final. Several
  /// pieces that run without a break, as expected, may be reported as one. `observer` is called
  /// under a lock and must not call this device; it replaces an earlier one. Work that was queued
  /// before may be reported, too.
  void observe(std::function<void(const StartedWork&)> observer);

  /// Returns a copy of an event. Other threads may record the event at the same time in streams of
  /// this device.
  [[nodiscard]] Event read(const Event& event) const;

  /// Returns the legacy default stream: it and all blocking streams wait for each other's work.
  [[nodiscard]] Stream& default_stream();
  /// Creates a stream. Of the kernels that are ready when the compute engine has room, those of the
  /// streams with the lowest `priority` run first. Copies have no priorities.
  [[nodiscard]] std::unique_ptr<Stream> create_stream(StreamKind kind = StreamKind::kBlocking,
                                                      std::int8_t priority = 0);

  /// Allocates device memory, rounded up to kAllocationGranularity.
  ///
  /// Errors: kOutOfMemory, with a message that states the requested and the free size and names the
  /// processes that hold the rest; kInvalidArgument for zero bytes.
  [[nodiscard]] Result<DeviceAddress> allocate(Bytes bytes);

  /// Errors: kInvalidArgument when `address` is not the start of a live allocation.
  [[nodiscard]] Result<void> free(DeviceAddress address);

  /// Limits what this process may hold of the device's memory. What it holds already stays.
  void limit_memory(Bytes limit);

  [[nodiscard]] MemoryInfo memory_info() const;

  /// Returns the moments at which the work that this context has queued ends.
  [[nodiscard]] std::vector<Moment> ends() const;

  /// Blocks until all work that this context has queued has ended.
  void synchronize();

  /// Source: CUDA C++ Programming Guide, "Device Memory Accesses": addresses are aligned to at
  /// least 256 bytes.
  static constexpr Bytes kAllocationGranularity = 256;

 private:
  friend class Stream;
  struct State;
  explicit Device(std::unique_ptr<State> state);
  static Result<std::unique_ptr<State>> attach(std::shared_ptr<Node> node, int place,
                                               sim::Clock& clock, std::optional<MpsClient> client,
                                               const ComputeShare& share);
  [[nodiscard]] std::unexpected<Error> out_of_memory(Bytes bytes) const;
  std::unique_ptr<State> state_;
};

/// Returns the time from one recorded event to another; negative when `end` comes first.
///
/// Errors: kInvalidArgument if one of them was never recorded; kNotReady if one is not over yet.
[[nodiscard]] Result<Duration> elapsed_time(const Event& start, const Event& end,
                                            const sim::Clock& clock);

}  // namespace gpemu::device
