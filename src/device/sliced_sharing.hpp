// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "gpemu/base/units.hpp"
#include "gpemu/device/node_state.hpp"

#include "death_watch.hpp"
#include "device_sharing.hpp"
#include "launch_policy.hpp"
#include "slice_table.hpp"
#include "time_slices.hpp"

namespace gpemu::device {

/// How processes that share a device by time slices reach each other.
struct SlicePeers {
  /// Returns the end of what a process has reserved on the engine while it was alone.
  std::function<std::int64_t(std::uint64_t identity)> tail_of;
  /// Makes a process look at the time slices.
  std::function<void(std::uint64_t identity)> ring;
  /// Returns a process's pid; 0 if it is of another pid namespace.
  std::function<pid_t(std::uint64_t identity)> pid_of;
  /// Notes that so much of the work that processes have queued will not run.
  std::function<void(std::uint8_t tenant, Duration cost)> drop;
  /// Returns how long time slices are to be from now on; 0: as the rules say.
  std::function<Duration()> quantum;
  /// Returns what all kernels that a process has ever queued take.
  std::function<Duration(std::uint64_t identity)> queued_by;
};

/// Time slices on the compute engine (docs/design/time-slices.md), and MPS (docs/design/mps.md);
/// first in, first out on the copy engines, and as long as a process has the device alone.
class SlicedSharing final : public DeviceSharing {
 public:
  /// `alone`: the policy of all engines that are not sliced now. `launches`: when this process may
  /// launch kernels if it is held back; null if none ever is.
  SlicedSharing(std::unique_ptr<DeviceSharing> alone, std::unique_ptr<LaunchPolicy> launches,
                const TimeSliceRules& rules, SliceTable table, SlicePeers peers)
      : alone_(std::move(alone)),
        launches_(std::move(launches)),
        rules_(rules),
        table_(std::move(table)),
        peers_(std::move(peers)),
        deaths_([this] {
          has_death_ = true;
          peers_.ring(table_.identity());
        }) {}

  Reservation reserve(std::size_t engine, TimePoint now, TimePoint earliest,
                      Duration cost) override;
  [[nodiscard]] TimePoint next_start(std::size_t engine, TimePoint now, TimePoint from) override;
  [[nodiscard]] bool is_last(std::size_t engine, TimePoint now) const override;

  [[nodiscard]] bool join(TimePoint now, const SharingRole& role) override;
  void leave(TimePoint now) override;
  [[nodiscard]] TimePoint launch_from(TimePoint now, const KernelLaunch& kernel) override;
  void note_launch(const KernelLaunch& kernel) override;
  [[nodiscard]] bool can_move() const override { return true; }
  [[nodiscard]] bool moves(std::size_t engine) const override {
    return is_shared_ && engine == kSliced;
  }
  [[nodiscard]] bool has_news(std::size_t engine) const override {
    return engine == kSliced && contexts_ > 0 && table_.version() != version_;
  }
  bool update(TimePoint now, Duration unfinished, std::vector<Turn>& turns) override;
  void want(TimePoint now, const Demand& demand) override;
  void expect(TimePoint until, std::vector<Turn>& turns) override;
  [[nodiscard]] TimePoint next_look() const override;

 private:
  static constexpr std::size_t kSliced = static_cast<std::size_t>(Engine::kCompute);

  bool publish(TimePoint now);
  void state_demands(TimeSlices& slices, Sharer& own) const;
  void settle_served(const Sharer& own);
  /// Removes and returns sharers that have died.
  [[nodiscard]] std::vector<Sharer> remove_dead(TimeSlices& slices);
  /// Notes that the work that they still wanted will not run.
  void drop(std::span<const Sharer> gone) const;
  void watch_others();
  static void merge(const Sharer& own, TimePoint from, std::vector<Turn>& turns);
  void add_forgotten(const Sharer& own, std::vector<Turn>& turns);

  [[nodiscard]] std::optional<LaunchView> view_at(TimePoint now) const;

  std::unique_ptr<DeviceSharing> alone_;
  std::unique_ptr<LaunchPolicy> launches_;
  bool is_held_ = false;  ///< this process asks `launches_` before it launches a kernel.
  KernelNeeds needs_;     ///< of the kernel that is launched now.
  const TimeSliceRules rules_;
  SliceTable table_;
  SlicePeers peers_;
  int contexts_ = 0;
  bool is_shared_ = false;
  std::uint64_t version_ = 0;  ///< of `slices_`.
  TimeSlices slices_;          ///< as last read or written.
  std::deque<Demand> wants_;   ///< all that this process wants, in order.
  Duration accounted_{};       ///< how much it had been served when `wants_` was last reduced.
  Duration seen_served_{};     ///< how much it had been served when it last updated its turns,
  TimePoint seen_until_{};     ///< and the time of that.
  bool is_ahead_ = false;      ///< whether `ahead_` goes on from `slices_`.
  TimeSlices ahead_;           ///< what is expected.
  std::vector<std::uint64_t> watched_;  ///< the sharers that are watched.
  bool watches_all_ = true;             ///< none is of another pid namespace.
  TimePoint looked_at_all_{};           ///< whether the processes live that want nothing.
  std::atomic<bool> has_death_{false};  ///< somebody has died, who may still be a sharer.
  DeathWatch deaths_;                   ///< ends first.
};

}  // namespace gpemu::device
