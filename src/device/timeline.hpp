// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "gpemu/base/units.hpp"
#include "gpemu/device/interval.hpp"
#include "gpemu/device/moment.hpp"

#include "device_sharing.hpp"
#include "engine_queue.hpp"
#include "lane.hpp"
#include "layout.hpp"
#include "speed.hpp"

namespace gpemu::device {

/// The engines of a device, as this process uses them.
struct DeviceEngines {
  std::unique_ptr<DeviceSharing> sharing;
  std::span<layout::EngineRecord> records;  ///< changed by all processes.
  layout::HoldingRecord* own = nullptr;     ///< what others see of this process.
  std::unique_ptr<Speed> speed{};           ///< null: nothing disturbs the device.
};

/// When the work of a process runs on the engines of a node's devices.
///
/// An engine does work in the order in which the work becomes ready, and finishes what it has
/// started. If several pieces become ready at the same time, the one that was queued first runs
/// first. The compute engine first looks at the priorities of the streams whose work is ready, and
/// starts the first kernel as soon as there is room for it beside those that run. So, until it
/// starts, queued work can be put off by work of other streams that becomes ready earlier
/// or is more urgent. Times are final once work has started; the others hold if nothing else is
/// queued.
///
/// As long as work becomes ready in the order in which it is queued, each piece gets its time when
/// it is queued. Otherwise, work that has not started is placed again, as far as somebody asks for
/// its times. The timeline knows nothing of rendezvous: work can wait for a mark that gets its time
/// from outside, by resolve().
///
/// Thread safety: guarded by the schedule's mutex.
class Timeline {
 public:
  /// `schedule`: the one to which the marks of this timeline belong, or null.
  Timeline(Schedule* schedule, std::vector<DeviceEngines> devices);
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;
  /// Makes all marks final at their expected times.
  ~Timeline();

  void add(std::shared_ptr<LaneGroup> group);

  /// Gives a lane a priority: of the work that is ready on its compute engine, that of the lane
  /// with the lowest priority runs first. Requires: nothing is queued in the lane.
  void set_priority(Lane& lane, std::int8_t priority);

  /// Notes that the time is `now`. Everything queued afterwards is queued at this time or later.
  void pass(TimePoint now) {
    if (now > now_) now_ = now;
    if (has_expected_ && now_ != expected_at_) take_times_away();
    for (const std::size_t engine : shared_) {
      const EngineState& state = engines_[engine];
      const bool has_passed = state.queue.moves() && state.followed != now_;
      if (has_passed || state.queue.has_news()) follow_others(engine);
    }
  }

  /// Counts a context on a device. Returns whether there is room for one.
  [[nodiscard]] bool join(std::size_t device, TimePoint now, const SharingRole& role = {});
  void leave(std::size_t device, TimePoint now);
  [[nodiscard]] DeviceSharing& sharing(std::size_t device) { return *sharing_[device]; }
  /// Returns when pass() is due although nothing is queued or asked.
  [[nodiscard]] TimePoint next_look();
  /// Returns whether other processes can move work of this one.
  [[nodiscard]] bool is_shared() const {
    return std::ranges::any_of(shared_,
                               [&](std::size_t one) { return engines_[one].queue.moves(); });
  }
  /// Returns the latest time that was noted.
  [[nodiscard]] TimePoint now() const { return now_; }

  /// Queues work in a lane on an engine of a device, and returns when it will run, as far as is
  /// known. `room`: what it takes of the compute engine. Requires: the lane's group was added;
  /// cost >= 0.
  QueuedWork queue(Lane& lane, std::size_t engine, TimePoint now, Duration cost, Bytes bytes,
                   Room room = {}) {
    if (room.fills_gpu()) [[likely]]
      return queue_whole(lane, engine, now, cost, bytes);
    return queue_part(lane, engine, now, cost, bytes, room);
  }

  /// Queues a kernel that runs in so many waves of blocks. Between them, kernels of more urgent
  /// streams can run.
  QueuedWork queue_waves(Lane& lane, std::size_t engine, TimePoint now, Duration cost, Room room,
                         int waves);

  /// Returns whether kernels of a lane can be put off by more urgent ones.
  [[nodiscard]] bool has_more_urgent(const Lane& lane, std::size_t engine) const {
    return engines_[engine].has_priorities && lane.priority > engines_[engine].most_urgent;
  }

  /// Makes work that is queued in a lane from now on wait for a moment. Source: CUDA Runtime API,
  /// "Stream synchronization behavior": in the legacy default stream, a wait is like work.
  void wait_in_stream(Lane& lane, TimePoint now, const Moment& moment);

  /// Queues a pause in a lane: time that takes no engine, and that nothing but what comes before it
  /// can move.
  void pause_stream(Lane& lane, TimePoint now, Duration time);

  /// Queues a wait for a mark that has no time until it is resolved. Returns the mark.
  MarkReference wait_for_open_mark(Lane& lane, TimePoint now, Duration cost);

  /// Returns when work that is queued in a lane now will be ready; with epoch 0 if that is unknown.
  [[nodiscard]] Ready ready(Lane& lane, TimePoint now);

  /// Replaces rounds that have ended with their ends. Returns whether `ready` still holds.
  [[nodiscard]] bool update(Ready& ready) const;

  /// Invalidates everything that ready() has returned so far.
  void invalidate() { ++epoch_; }

  /// Returns whether no other process has work in the queues of the engines on which this process
  /// has work that has not started.
  [[nodiscard]] bool is_alone(TimePoint now) const;

  /// From now on, keeps the data that ready() needs.
  void follow_rounds();

  /// Returns whether another lane has unstarted work on an engine. If this lane nevertheless queues
  /// work there, the results of ready() no longer hold.
  [[nodiscard]] bool is_used_by_other(const Lane& lane, std::size_t engine, TimePoint now) {
    return engines_[engine].only_lane != &lane && find_other(lane, engine, now);
  }

  /// From now on, work of open lanes runs as soon as it is ready, whatever other processes have
  /// queued, because others rely on its times; or that ends.
  void keep_promises(bool keep) { keeps_promises_ = keep; }
  [[nodiscard]] bool keeps_promises() const { return keeps_promises_; }

  /// Gives an open mark its time, which is final. Requires: it has none.
  void resolve(Mark& mark, TimePoint end, TimePoint reached);

  /// Returns when the last task of a lane ends.
  Moment last_end(Lane& lane, TimePoint now);

  /// Returns when all work of a lane, and everything for which it waits, has ended.
  Moment end_of(Lane& lane, TimePoint now);

  /// Sets a moment to end_of(), or to `now` if that is later. Inline, without a temporary moment:
  /// programs record events often, and mostly when nothing waits.
  void record(Lane& lane, TimePoint now, Moment& moment) {
    if (lane.group->waiting.empty()) {
      moment.set(std::max(known_end(lane), now));
    } else {
      moment = end_of(lane, now);
      moment.time_ = std::max(moment.time_, now);
    }
  }

  /// As end_of(), for all lanes of a group.
  std::vector<Moment> ends_of(const LaneGroup& group, TimePoint now);

  /// Returns whether some work is in line at an engine.
  [[nodiscard]] bool has_work_in_line() const { return !waiting_.empty(); }

  /// Returns when the next work in line starts; the last TimePoint if there is none.
  [[nodiscard]] TimePoint next_start();

  /// Places the work in line that starts by `until`, and the work that then gets in line.
  void place_until(TimePoint until);

  /// Gives all work its time, as if nothing else were queued later.
  void place_all();

  /// Makes the times of work that has started by `now` final.
  void forget_started(TimePoint now);

  /// Takes away the times of all work that has not started, because a device's speed has changed.
  void place_again(TimePoint now) { start_over(now); }

  /// Returns how fast the device of a lane is; null if nothing disturbs it.
  [[nodiscard]] const Speed* speed_of(const Lane& lane) const {
    return speeds_[lane.group->device].get();
  }

  /// Keeps a lane until its work has ended.
  void abandon(std::unique_ptr<Lane> lane, TimePoint now);

  /// Returns when the time of the last piece of a task becomes final: mostly when the piece starts.
  /// Requires: the task is placed.
  [[nodiscard]] TimePoint final_from(Lane& lane, std::size_t index) const;

 private:
  struct EngineState {
    EngineQueue queue;
    TimePoint placed_end{};       ///< of placed work.
    TimePoint started_end{};      ///< of started work.
    TimePoint last_ready{};       ///< of placed work.
    std::vector<Lane*> ready;     ///< a heap of lanes whose next task is ready.
    bool has_priorities = false;  ///< some lane has another priority than 0.
    /// The highest priority of placed work since the engine was idle last.
    std::int8_t least_urgent = kMostUrgent;
    std::int8_t most_urgent = 0;   ///< the lowest priority of all lanes.
    TimePoint full_end{};          ///< of placed work that fills the GPU,
    TimePoint started_full_end{};  ///< and of started work.
    const Speed* speed = nullptr;  ///< of its device, which disturbs it.
    /// If not null, no other lane has unstarted work on this engine.
    const Lane* only_lane = nullptr;
    /// Other processes can move work of its device, so when work becomes ready is only expected. It
    /// takes its time on the engine when it starts.
    bool follows = false;
    TimePoint followed{};   ///< until when it followed them.
    Beside beside;          ///< placed kernels that fill only a part of the GPU,
    Beside started_beside;  ///< and started ones.
  };
  static constexpr std::int8_t kMostUrgent = std::numeric_limits<std::int8_t>::min();
  struct Later;
  /// The engine whose next work starts first, the place in its heap of the lane that has this work,
  /// and when it starts.
  struct Next {
    EngineState* engine = nullptr;
    std::size_t place = 0;
    TimePoint start = TimePoint::max();
  };

  [[nodiscard]] static TimePoint known_end(const Lane& lane) {
    if (!lane.blocking) return lane.started_end;
    const LaneGroup& group = *lane.group;
    return std::max(lane.started_end,
                    &lane == group.legacy ? group.blocking_end : group.legacy->started_end);
  }
  /// Returns when a task that is placed gets its final time.
  [[nodiscard]] TimePoint final_from(const Task& task) const {
    const bool moves =
        task.engine != Task::kWait && engines_[static_cast<std::size_t>(task.engine)].queue.moves();
    return moves ? task.end : task.start;
  }
  static Task& next_of(Lane& lane) { return lane.tasks[lane.placed]; }
  EngineState& engine_of(const Task& task) {
    return engines_[static_cast<std::size_t>(task.engine)];
  }
  /// Returns from when on an engine can run work that is ready at a time.
  [[nodiscard]] static TimePoint room_from(const EngineState& engine, TimePoint ready, Room room) {
    if (room.fills_gpu() || engine.queue.moves()) [[likely]]
      return std::max(ready, engine.placed_end);
    return engine.beside.room_from(std::max(ready, engine.full_end), room);
  }
  [[nodiscard]] static TimePoint room_from(const EngineState& engine, const Task& task) {
    return room_from(engine, task.start, task.room());
  }
  QueuedWork queue_whole(Lane& lane, std::size_t engine, TimePoint now, Duration cost, Bytes bytes);
  QueuedWork queue_part(Lane& lane, std::size_t engine, TimePoint now, Duration cost, Bytes bytes,
                        Room room);
  QueuedWork queue_with(Lane& lane, std::size_t engine, TimePoint now, Duration cost, Bytes bytes,
                        Room room);
  Service queue_placed(Lane& lane, std::size_t engine_index, TimePoint ready, Duration cost,
                       Bytes bytes, Room room);
  Service queue_unplaced(Lane& lane, std::size_t engine_index, TimePoint ready, Duration cost,
                         Bytes bytes, Room room, bool in_order);
  Task& push(Lane& lane, std::int16_t engine, TimePoint asked);
  [[nodiscard]] bool can_join_last(Lane& lane, std::size_t engine_index, const Service& interval,
                                   Room room) const;
  static void split(Lane& lane);
  void push_work(Lane& lane, std::size_t engine_index, TimePoint ready, const Service& interval,
                 Duration cost, Room room);
  void wait(Lane& lane, TimePoint now, const Moment& moment);
  void follow_rounds_of(Lane& lane, const MarkReference& mark);
  [[nodiscard]] Ready ready_at_end(const Lane& lane) const;
  static void add_term(Ready& ready, const Ready::Term& term);
  [[nodiscard]] bool find_other(const Lane& lane, std::size_t engine, TimePoint now);
  [[nodiscard]] static bool has_work(const Lane& lane, std::size_t engine);
  void loosen(Lane& lane, std::size_t engine);
  void follow_group(Lane& lane, TimePoint now);
  void follow(Lane& lane, TimePoint now, Lane& other, std::uint64_t& last);
  void look_at(Lane& lane);
  void place_woken();
  bool get_in_line(Lane& lane);
  void give_time(Lane& lane);
  [[nodiscard]] std::size_t first_in_line(EngineState& engine);
  [[nodiscard]] Next next();
  void note_placed(EngineState& engine, const Lane& lane, TimePoint ready, TimePoint start,
                   TimePoint end, Room room);
  Lane* place_next(TimePoint until);
  void release(const Mark& mark);
  void follow_others(std::size_t engine);
  void note_sharing(std::size_t device);
  [[nodiscard]] bool has_copies() const;
  [[nodiscard]] static Demand demand_of(Lane& lane, std::size_t engine, TimePoint ready,
                                        Duration cost);
  void start_over(TimePoint now);
  void take_times_away();
  void note_start(Lane& lane, EngineState& engine, TimePoint start, TimePoint end, Room room,
                  std::uint64_t moved = 0);
  void report_start(const Lane& lane, const EngineState& engine, TimePoint start, TimePoint end,
                    std::uint64_t moved);
  static void note_end(Lane& lane, TimePoint end) {
    lane.started_end = end;
    lane.group->any_end = std::max(lane.group->any_end, end);
    if (lane.blocking) lane.group->blocking_end = std::max(lane.group->blocking_end, end);
  }
  /// Returns whether the first task of a lane, or its first piece, has its final times. A wait has
  /// them as soon as what it waits for has its own: no task comes before it that others could move.
  [[nodiscard]] bool has_started(Lane& lane, TimePoint now) const {
    if (lane.placed == 0) return false;
    const Task& task = lane.tasks.front();
    if (final_from(task) <= now) return true;
    return task.engine == Task::kWait && (!task.waits_for || task.waits_for->is_final());
  }
  void drop_started(Lane& lane, TimePoint now) {
    if (has_started(lane, now)) drop_first(lane, now);
  }
  void drop_first(Lane& lane, TimePoint now);
  void drop_started(LaneGroup& group, TimePoint now);
  void drop_pieces(Lane& lane, TimePoint now);

  Schedule* schedule_;
  std::vector<std::unique_ptr<DeviceSharing>> sharing_;  ///< by device.
  std::vector<std::unique_ptr<Speed>> speeds_;           ///< by device; null: as usual.
  std::vector<EngineState> engines_;
  std::vector<Turn> parts_;            ///< of the work that is noted.
  std::vector<std::size_t> shared_;    ///< engines whose work others may move, if they have any.
  std::vector<EngineState*> waiting_;  ///< engines at which some lane is in line.
  std::vector<std::shared_ptr<LaneGroup>> groups_;
  std::vector<std::unique_ptr<Lane>> abandoned_;
  std::size_t most_abandoned_ = 16;               ///< before they are checked.
  std::vector<std::pair<Mark*, Lane*>> blocked_;  ///< lanes whose next task waits for a mark.
  std::vector<Lane*> woken_;                      ///< lanes whose marks now have their times.
  std::uint64_t next_number_ = 1;
  bool has_expected_ = false;  ///< some work is placed, but has not taken its engine time.
  TimePoint expected_at_{};    ///< when it was placed.
  bool follows_rounds_ = false;
  bool keeps_promises_ = false;
  std::uint64_t epoch_ = 1;  ///< changes when work may move that others depend on.
  TimePoint now_{};          ///< the latest time that callers passed.
};

}  // namespace gpemu::device
