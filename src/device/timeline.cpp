// SPDX-License-Identifier: Apache-2.0
#include "timeline.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <tuple>
#include <utility>

#include "gpemu/base/error.hpp"
#include "gpemu/base/saturate.hpp"

namespace gpemu::device {

namespace {

/// How many tasks of a lane are looked at for what work waits for. Programs queue few copies and
/// waits between kernels.
constexpr std::size_t kMostLookedAt = 16;

/// How much work is placed to find the next copy. More than the kernels of a training step.
constexpr int kMostPlacedAhead = 512;

constexpr std::int64_t kOne = 1;

/// More pieces are not joined to one task, which counts them.
constexpr std::uint16_t kMostJoined = std::numeric_limits<std::uint16_t>::max();

}  // namespace

/// Orders heaps of lanes: on an engine, the work that became ready first comes first, then the work
/// that was queued first. Priorities are looked at when the engine can run the next work.
struct Timeline::Later {
  bool operator()(Lane* a, Lane* b) const {
    const Task& first = next_of(*a);
    const Task& second = next_of(*b);
    return first.start != second.start ? first.start > second.start : first.number > second.number;
  }
};

Timeline::Timeline(Schedule* schedule, std::vector<DeviceEngines> devices) : schedule_(schedule) {
  for (DeviceEngines& device : devices) {
    sharing_.push_back(std::move(device.sharing));
    speeds_.push_back(std::move(device.speed));
    for (std::size_t i = 0; i < kEngineCount; ++i) {
      engines_.push_back(
          {.queue = EngineQueue(*sharing_.back(), i, device.records[i], device.own->engines[i]),
           .ready = {},
           .speed = speeds_.back().get()});
    }
  }
}

Timeline::~Timeline() {
  place_all();
  forget_started(TimePoint::max());
}

void Timeline::add(std::shared_ptr<LaneGroup> group) {
  std::erase_if(groups_, [](const auto& other) { return other.use_count() == 1; });
  groups_.push_back(std::move(group));
}

void Timeline::set_priority(Lane& lane, std::int8_t priority) {
  lane.priority = priority;
  const std::size_t engine =
      lane.group->device * kEngineCount + static_cast<std::size_t>(Engine::kCompute);
  engines_[engine].most_urgent = std::min(engines_[engine].most_urgent, priority);
  if (priority == 0 || std::exchange(engines_[engine].has_priorities, true)) return;
  engines_[engine].least_urgent = 0;
}

QueuedWork Timeline::queue_waves(Lane& lane, std::size_t engine_index, TimePoint now, Duration cost,
                                 Room room, int waves) {
  const std::int64_t count = std::clamp<std::int64_t>(waves, 1, std::max(cost.count(), kOne));
  QueuedWork all;
  Duration done{};
  for (std::int64_t i = 0; i < count; ++i) {
    const Duration part = (cost - done) / (count - i);
    done += part;
    const QueuedWork wave = queue(lane, engine_index, now, part, 0, room);
    const QueuedWork before = std::exchange(all, wave);
    if (i == 0) continue;
    all.expected.start = before.expected.start;
    all.busy += before.busy;
    all.idle = before.idle;
  }
  // It is one kernel.
  engines_[engine_index].queue.count_again(static_cast<std::uint64_t>(count - 1));
  return all;
}

/// Compiled once for most launches, which fill the GPU, and once for the others.
[[gnu::always_inline]] inline QueuedWork Timeline::queue_with(Lane& lane, std::size_t engine_index,
                                                              TimePoint now, Duration cost,
                                                              Bytes bytes, Room room) {
  LaneGroup& group = *lane.group;
  // Urgent work does not put off what starts now: otherwise, it would matter who has asked for it.
  if (engines_[engine_index].has_priorities && has_work_in_line()) place_until(now);
  if (!group.waiting.empty()) drop_started(group, now);
  Duration idle{};
  if (!group.waiting.empty()) {
    follow_group(lane, now);
  } else {
    lane.expected_end = known_end(lane);
    if (group.any_end < now) idle = now - group.any_end;
  }
  EngineState& engine = engines_[engine_index];
  if (follows_rounds_ && engine.only_lane != &lane) loosen(lane, engine_index);
  const TimePoint ready = std::max(now, lane.expected_end);
  // Work that is ready last puts off nothing that was queued before, unless it is more urgent.
  const bool is_urgent = engine.has_priorities && lane.priority < engine.least_urgent;
  const bool in_order = ready >= engine.last_ready && !(is_urgent && ready <= engine.placed_end);
  // Work that has no time, but could have one, would be in line at an engine.
  const bool is_known = waiting_.empty() && lane.placed == lane.tasks.size() &&
                        !engine.queue.moves() && (!engine.follows || lane.tasks.empty());
  const std::uint64_t number = next_number_;
  const Service time = is_known && in_order
                           ? queue_placed(lane, engine_index, ready, cost, bytes, room)
                           : queue_unplaced(lane, engine_index, ready, cost, bytes, room, in_order);
  return {.expected = {.start = time.start, .end = time.end},
          .busy = time.busy,
          .asked = now,
          .idle = idle,
          .number = next_number_ != number ? number : 0};
}

/// Notes work whose time is final. Inline, because most launches get here.
[[gnu::always_inline]] inline void Timeline::note_start(Lane& lane, EngineState& engine,
                                                        TimePoint start, TimePoint end, Room room,
                                                        std::uint64_t moved) {
  if (lane.group->observer) report_start(lane, engine, start, end, moved);
  engine.started_end = std::max(engine.started_end, end);
  if (room.fills_gpu()) [[likely]] {
    engine.started_full_end = std::max(engine.started_full_end, end);
  } else {
    engine.started_beside.add(start, end, room);
  }
  engine.queue.settle(start, end);
  note_end(lane, end);
}

/// Notes that an engine's next work, which is ready at a time, has its times.
[[gnu::always_inline]] inline void Timeline::note_placed(EngineState& engine, const Lane& lane,
                                                         TimePoint ready, TimePoint start,
                                                         TimePoint end, Room room) {
  if (engine.has_priorities) {
    const std::int8_t before = ready > engine.placed_end ? kMostUrgent : engine.least_urgent;
    engine.least_urgent = std::max(before, lane.priority);
  }
  engine.placed_end = std::max(engine.placed_end, end);
  if (room.fills_gpu()) [[likely]] {
    engine.full_end = engine.placed_end;
  } else {
    engine.beside.add(start, end, room);
  }
  engine.last_ready = std::max(engine.last_ready, ready);
}

/// Queues work that runs after all work that was queued before on its engine. Inline, because most
/// launches get here.
[[gnu::always_inline]] inline Service Timeline::queue_placed(Lane& lane, std::size_t engine_index,
                                                             TimePoint ready, Duration cost,
                                                             Bytes bytes, Room room) {
  EngineState& engine = engines_[engine_index];
  const TimePoint from = room_from(engine, ready, room);
  const TimePoint busy_until = engine.placed_end;
  const Service interval = engine.queue.serve(
      now_, from,
      engine.speed == nullptr
          ? cost
          : engine.speed->time_of(engine_index, engine.queue.next_turn(now_, from), cost));
  note_placed(engine, lane, ready, interval.start, interval.end, room);
  lane.expected_end = interval.end;
  Duration busy = interval.busy;
  if (!room.fills_gpu() && interval.start < busy_until) {
    // Time in which several kernels run counts once.
    busy = std::max(busy - (std::min(interval.end, busy_until) - interval.start), Duration());
  }
  engine.queue.count(busy, bytes);
  if (interval.start <= now_ && lane.tasks.empty()) {
    note_start(lane, engine, interval.start, interval.end, room);
  } else if (can_join_last(lane, engine_index, interval, room)) {
    Task& last = lane.tasks.back();
    lane.ends.push() = last.end;
    ++last.before;
    last.number = next_number_++;
    last.end = interval.end;
    engine.queue.add_unstarted(interval.busy);
  } else {
    push_work(lane, engine_index, ready, interval, engine.speed == nullptr ? interval.busy : cost,
              room);
    ++lane.placed;
  }
  return interval;
}

QueuedWork Timeline::queue_whole(Lane& lane, std::size_t engine, TimePoint now, Duration cost,
                                 Bytes bytes) {
  return queue_with(lane, engine, now, cost, bytes, {});
}

[[gnu::noinline]] QueuedWork Timeline::queue_part(Lane& lane, std::size_t engine, TimePoint now,
                                                  Duration cost, Bytes bytes, Room room) {
  return queue_with(lane, engine, now, cost, bytes, room);
}

/// Queues work whose time depends on work without a time, or that puts off other work.
Service Timeline::queue_unplaced(Lane& lane, std::size_t engine_index, TimePoint ready,
                                 Duration cost, Bytes bytes, Room room, bool in_order) {
  EngineState& engine = engines_[engine_index];
  const TimePoint end = saturating_add(
      ready, engine.speed == nullptr ? cost : engine.speed->time_of(engine_index, ready, cost));
  const Service expected{.start = ready, .end = end, .busy = end - ready};
  const bool is_next = lane.placed == lane.tasks.size();
  lane.expected_end = end;
  engine.queue.count(expected.busy, bytes);
  const Demand demand = demand_of(lane, engine_index, ready, expected.busy);
  push_work(lane, engine_index, ready, expected, engine.speed == nullptr ? expected.busy : cost,
            room);
  if (lane.open) {
    // Work that may wait for a round takes its engine time when it starts.
    const TimePoint earliest = room_from(engine, std::max(lane.ready.time, now_), room);
    lane.ready.time = saturating_add(earliest, expected.busy);
    for (Ready::Term& term : lane.ready.terms) {
      term.after = Duration(saturating_add(term.after.count(), expected.busy.count()));
    }
  } else if (engine.queue.moves() || !engine.follows) {
    engine.queue.reserve_for(now_, demand);
  }
  if (!in_order) {
    start_over(now_);
  } else if (is_next) {
    look_at(lane);
  }
  return expected;
}

/// Returns what a lane wants of an engine for work that it queues next. If work on the same engine
/// comes before it in the lane, it is ready so long after that work as all in between takes.
Demand Timeline::demand_of(Lane& lane, std::size_t engine, TimePoint ready, Duration cost) {
  Duration after{};
  for (std::size_t i = lane.tasks.size(); i-- > 0;) {
    const Task& task = lane.tasks[i];
    if (task.engine == static_cast<std::int16_t>(engine)) {
      return {.earliest = {}, .after = after, .cost = cost};
    }
    after += task.cost;
    if (lane.tasks.size() - i == kMostLookedAt) break;
  }
  return {.earliest = ready, .after = {}, .cost = cost};
}

bool Timeline::join(std::size_t device, TimePoint now, const SharingRole& role) {
  pass(now);
  if (!sharing_[device]->join(now_, role)) return false;
  const std::size_t engine = device * kEngineCount;
  if (std::ranges::find(shared_, engine) == shared_.end() && sharing_[device]->can_move()) {
    shared_.push_back(engine);
  }
  note_sharing(device);
  return true;
}

/// Notes whether other processes can move work of a device.
void Timeline::note_sharing(std::size_t device) {
  for (std::size_t i = 0; i < kEngineCount; ++i) {
    EngineState& engine = engines_[device * kEngineCount + i];
    engine.queue.note_sharing();
    engine.follows = engines_[device * kEngineCount].queue.moves();
  }
}

void Timeline::leave(std::size_t device, TimePoint now) {
  pass(now);
  sharing_[device]->leave(now_);
  note_sharing(device);
}

TimePoint Timeline::next_look() {
  TimePoint look = TimePoint::max();
  for (const std::size_t engine : shared_) {
    if (engines_[engine].queue.moves())
      look = std::min(look, sharing_[engine / kEngineCount]->next_look());
  }
  if (look == TimePoint::max() || !has_copies()) return look;
  // A copy must take its place among those of others when it starts.
  for (int i = 0; i < kMostPlacedAhead; ++i) {
    const Next first = next();
    if (first.engine == nullptr || first.start >= look) return look;
    const bool is_copy = first.engine->follows && !first.engine->queue.moves();
    if (first.start > now_ && (is_copy || i + 1 == kMostPlacedAhead)) return first.start;
    place_next(TimePoint::max());
  }
  return look;
}

/// Returns whether copies that have not started wait on a device that other processes use.
bool Timeline::has_copies() const {
  return std::ranges::any_of(groups_, [&](const auto& group) {
    const std::size_t first = group->device * kEngineCount;
    return engines_[first].follows && std::ranges::any_of(group->waiting, [](const Lane* lane) {
             return lane->work[1] > 0 || lane->work[2] > 0;
           });
  });
}

/// Follows what other processes have done to an engine.
void Timeline::follow_others(std::size_t engine) {
  EngineState& state = engines_[engine];
  if (!state.queue.moves()) {
    // So far, work had its final time from its start on.
    for (const auto& group : groups_) {
      if (group->uses(engine)) drop_started(*group, now_);
    }
  }
  state.followed = now_;
  const bool moved = state.queue.update(now_);
  note_sharing(engine / kEngineCount);
  if (moved) take_times_away();
}

void Timeline::wait_in_stream(Lane& lane, TimePoint now, const Moment& moment) {
  if (&lane == lane.group->legacy) {
    wait(lane, now, Moment(known_end(lane)));
    follow_group(lane, now);
  }
  wait(lane, now, moment);
}

void Timeline::pause_stream(Lane& lane, TimePoint now, Duration time) {
  follow_group(lane, now);
  drop_started(lane, now);
  const TimePoint start = std::max({now, lane.expected_end, lane.started_end});
  lane.expected_end = saturating_add(start, time);
  if (lane.tasks.empty()) return note_end(lane, lane.expected_end);
  const bool is_next = lane.placed == lane.tasks.size();
  if (lane.open) {
    lane.ready.time = saturating_add(std::max(lane.ready.time, now), time);
    for (Ready::Term& term : lane.ready.terms) {
      term.after = Duration(saturating_add(term.after.count(), time.count()));
    }
  }
  Task& task = push(lane, Task::kWait, now);
  task.cost = time;
  task.start = start;
  task.end = lane.expected_end;
  if (!is_next) return;
  if (waiting_.empty()) {
    ++lane.placed;
  } else {
    look_at(lane);
  }
}

void Timeline::wait(Lane& lane, TimePoint now, const Moment& moment) {
  const Mark* const mark = moment.mark_.get();
  TimePoint time = moment.time_;
  if (mark != nullptr) time = std::max(time, mark->time());
  const bool is_known = mark == nullptr || mark->is_final();
  const TimePoint end = std::max(lane.expected_end, time);
  if (is_known && lane.tasks.empty()) {
    lane.expected_end = end;
    note_end(lane, std::max(lane.started_end, time));
    return;
  }
  if (is_known && time <= now) return;
  const bool is_next = lane.placed == lane.tasks.size();
  if (mark != nullptr && mark->is_open()) {
    if (!lane.open) lane.ready = ready_at_end(lane);
    lane.open = true;
    follow_rounds_of(lane, moment.mark_);
  } else if (lane.open) {
    lane.ready.time = std::max(lane.ready.time, time);
    if (mark != nullptr && mark->is_loose()) lane.ready.epoch = 0;
  } else if (mark != nullptr && mark->is_loose()) {
    lane.loose = true;
  }
  lane.expected_end = end;
  Task& task = push(lane, Task::kWait, is_known ? time : moment.time_);
  task.cost = {};
  task.start = task.end = end;
  if (!is_known) {
    task.waits_for = moment.mark_;
  }
  if (!is_next) return;
  if (waiting_.empty() && (is_known || mark->has_time())) {
    ++lane.placed;
    return;
  }
  look_at(lane);
}

Moment Timeline::end_of(Lane& lane, TimePoint now) {
  if (lane.group->waiting.empty()) return Moment(known_end(lane));
  if (&lane != lane.group->legacy) {
    follow_group(lane, now);
    return last_end(lane, now);
  }
  const bool is_alone = std::ranges::all_of(lane.group->blocking,
                                            [](const Lane* other) { return other->tasks.empty(); });
  if (is_alone) {
    Moment end = last_end(lane, now);
    end.time_ = std::max(end.time_, known_end(lane));
    return end;
  }
  // Until something is queued or starts, every caller gets the same answer.
  LaneGroup& group = *lane.group;
  if (group.joint_key == std::pair(next_number_, group.blocking_end)) return group.joint_end;
  // Not in the lane itself, where a wait would delay the blocking streams.
  auto all = std::make_unique<Lane>(lane.group);
  for (Lane* const other : group.blocking) wait(*all, now, last_end(*other, now));
  wait(*all, now, last_end(lane, now));
  group.joint_end = last_end(*all, now);
  group.joint_key = {next_number_, group.blocking_end};
  abandon(std::move(all), now);
  return group.joint_end;
}

std::vector<Moment> Timeline::ends_of(const LaneGroup& group, TimePoint now) {
  std::vector<Moment> ends;
  const std::vector<Lane*> lanes = group.waiting;
  for (Lane* const lane : lanes) ends.push_back(last_end(*lane, now));
  ends.emplace_back(group.any_end);
  return ends;
}

void Timeline::place_all() {
  while (place_next(TimePoint::max()) != nullptr) {
  }
}

void Timeline::place_until(TimePoint until) {
  while (Lane* const lane = place_next(until)) drop_started(*lane, until);
}

void Timeline::forget_started(TimePoint now) {
  for (const auto& group : groups_) drop_started(*group, now);
}

void Timeline::abandon(std::unique_ptr<Lane> lane, TimePoint now) {
  abandoned_.push_back(std::move(lane));
  if (abandoned_.size() < most_abandoned_) return;
  for (const auto& other : abandoned_) drop_started(*other, now);
  std::erase_if(abandoned_, [](const auto& other) {
    // Until then the legacy default stream waits for it.
    if (other->tasks.empty()) std::erase(other->group->blocking, other.get());
    return other->tasks.empty();
  });
  most_abandoned_ = 2 * abandoned_.size() + 16;
}

/// Returns whether work can join a lane's last task, so that its order among all work is known
/// without it. Requires: all work is placed.
[[gnu::always_inline]] inline bool Timeline::can_join_last(Lane& lane, std::size_t engine_index,
                                                           const Service& interval,
                                                           Room room) const {
  // On a disturbed device, each task keeps what it would cost on a healthy one.
  if (lane.tasks.empty() || engines_[engine_index].speed != nullptr) return false;
  const Task& last = lane.tasks.back();
  return last.engine == static_cast<std::int16_t>(engine_index) && !last.mark &&
         !last.was_put_off && last.end == interval.start && last.number + 1 == next_number_ &&
         last.width == room.width && last.memory == room.memory && last.before < kMostJoined &&
         interval.busy == interval.end - interval.start;
}

/// Splits a lane's tasks so that each piece is a separate task.
void Timeline::split(Lane& lane) {
  if (lane.ends.empty()) return;
  Queue<Task> joined;
  std::swap(joined, lane.tasks);
  for (; !joined.empty(); joined.pop()) {
    Task& task = joined.front();
    for (; task.before > 0; --task.before) {
      Task& piece = lane.tasks.push();
      piece.engine = task.engine;
      piece.take(task.room());
      piece.was_put_off = false;
      piece.number = task.number - task.before;
      piece.asked = task.asked;  // Later pieces were queued before it ends.
      piece.cost = task.cost;
      piece.start = task.start;
      piece.end = lane.ends.front();
      lane.ends.pop();
      ++lane.work[static_cast<std::size_t>(task.engine) % kEngineCount];
      task.start = piece.end;
      task.cost = (task.before > 1 ? lane.ends.front() : task.end) - task.start;
    }
    lane.tasks.push() = std::move(task);
  }
}

Task& Timeline::push(Lane& lane, std::int16_t engine, TimePoint asked) {
  std::vector<Lane*>& waiting = lane.group->waiting;
  // If there is no memory for the task, the lane must not be in the list.
  if (lane.tasks.empty()) waiting.reserve(waiting.size() + 1);
  Task& task = lane.tasks.push();
  if (lane.tasks.size() == 1) waiting.push_back(&lane);
  task.engine = engine;
  task.number = next_number_++;
  task.asked = asked;
  task.was_put_off = false;
  return task;
}

void Timeline::push_work(Lane& lane, std::size_t engine_index, TimePoint ready,
                         const Service& interval, Duration cost, Room room) {
  // If no unstarted work is before it, it waits for times that nothing else remembers.
  const TimePoint earliest = lane.tasks.empty() ? ready : now_;
  Task& task = push(lane, static_cast<std::int16_t>(engine_index), earliest);
  task.take(room);
  task.cost = cost;
  task.start = interval.start;
  task.end = interval.end;
  ++lane.work[engine_index % kEngineCount];
  engines_[engine_index].queue.add_unstarted(cost);
}

/// Makes a lane wait for the work for which the legacy default stream makes it wait.
void Timeline::follow_group(Lane& lane, TimePoint now) {
  if (!lane.blocking) return;
  LaneGroup& group = *lane.group;
  if (&lane == group.legacy) {
    if (group.blocking_end > lane.expected_end) wait(lane, now, Moment(group.blocking_end));
    for (Lane* const other : group.blocking) follow(lane, now, *other, other->preceded);
  } else {
    if (group.legacy->started_end > lane.expected_end) {
      wait(lane, now, Moment(group.legacy->started_end));
    }
    follow(lane, now, *group.legacy, lane.followed);
  }
}

/// Makes a lane wait for another one's last task, unless it already does: `last` is the task for
/// which it waits.
void Timeline::follow(Lane& lane, TimePoint now, Lane& other, std::uint64_t& last) {
  if (other.tasks.empty() || other.tasks.back().number == last) return;
  last = other.tasks.back().number;
  const Moment end = last_end(other, now);
  wait(lane, now, end);
}

Moment Timeline::last_end(Lane& lane, TimePoint now) {
  drop_started(lane, now);
  if (lane.tasks.empty()) return Moment(lane.started_end);
  Task& last = lane.tasks.back();
  if (!last.mark) {
    last.mark = MarkReference(new Mark(schedule_, last.end));
    if (lane.placed == lane.tasks.size()) {
      last.mark->place(final_from(lane, lane.tasks.size() - 1), last.end);
    }
    if (lane.open) last.mark->open(std::make_shared<const Ready>(lane.ready));
    if (lane.loose) last.mark->loosen();
  }
  return {TimePoint{}, last.mark};
}

TimePoint Timeline::final_from(Lane& lane, std::size_t index) const {
  const Task& task = lane.tasks[index];
  if (task.before == 0) return final_from(task);
  std::size_t ends = 0;
  for (std::size_t i = 0; i <= index; ++i) ends += lane.tasks[i].before;
  return lane.ends[ends - 1];
}

/// Tells a group's observer of work whose time is final, before its turns are forgotten.
void Timeline::report_start(const Lane& lane, const EngineState& engine, TimePoint start,
                            TimePoint end, std::uint64_t moved) {
  parts_.clear();
  if (engine.queue.moves()) engine.queue.add_turns(start, end, parts_);
  const auto index = static_cast<std::size_t>(&engine - engines_.data());
  lane.group->observer({.engine = static_cast<Engine>(index % kEngineCount),
                        .start = start,
                        .end = end,
                        .moved = moved,
                        .turns = parts_});
}

/// Forgets tasks of a lane that have their times and have started: these are final.
void Timeline::drop_first(Lane& lane, TimePoint now) {
  do {
    Task& task = lane.tasks.front();
    if (task.before > 0) {
      drop_pieces(lane, now);
      continue;
    }
    if (task.mark) std::exchange(task.mark, {})->settle();
    if (task.engine != Task::kWait) {
      EngineState& engine = engine_of(task);
      note_start(lane, engine, task.start, task.end, task.room(),
                 task.was_put_off ? task.number : 0);
      --lane.work[static_cast<std::size_t>(task.engine) % kEngineCount];
      engine.queue.add_unstarted(-task.cost);
      if (task.was_put_off) engine.queue.fill_gaps(now_, task.start, task.end, task.cost);
    } else {
      task.waits_for = {};
      note_end(lane, task.end);
    }
    lane.tasks.pop();
    --lane.placed;
    if (!lane.tasks.empty()) continue;
    std::erase(lane.group->waiting, &lane);
    lane.loose = false;
  } while (has_started(lane, now));
}

/// Forgets started work in the lanes of a group.
[[gnu::always_inline]] inline void Timeline::drop_started(LaneGroup& group, TimePoint now) {
  for (std::size_t i = group.waiting.size(); i-- > 0;) drop_started(*group.waiting[i], now);
}

/// Forgets the started pieces of a lane's first task, except the last piece.
void Timeline::drop_pieces(Lane& lane, TimePoint now) {
  Task& task = lane.tasks.front();
  const TimePoint start = task.start;
  Duration cost{};
  while (task.before > 0 && task.start <= now) {
    cost += task.cost;
    task.start = lane.ends.front();
    lane.ends.pop();
    --task.before;
    task.cost = (task.before > 0 ? lane.ends.front() : task.end) - task.start;
  }
  EngineState& engine = engine_of(task);
  note_start(lane, engine, start, task.start, task.room());
  engine.queue.add_unstarted(-cost);
}

Ready Timeline::ready(Lane& lane, TimePoint now) {
  follow_group(lane, now);
  Ready ready = ready_at_end(lane);
  ready.time = std::max(ready.time, now);
  if (!update(ready)) ready.epoch = 0;
  return ready;
}

/// Returns when a lane's last task ends.
Ready Timeline::ready_at_end(const Lane& lane) const {
  if (lane.open) return lane.ready;
  const bool is_known = !lane.loose && lane.placed == lane.tasks.size();
  return {.epoch = is_known ? epoch_ : 0, .time = lane.expected_end, .terms = {}};
}

bool Timeline::update(Ready& ready) const {
  for (const Ready::Term& term : ready.terms) {
    if (term.round->is_final()) {
      ready.time = std::max(ready.time, saturating_add(term.round->time(), term.after));
    }
  }
  std::erase_if(ready.terms, [](const Ready::Term& term) { return term.round->is_final(); });
  return ready.epoch == epoch_;
}

/// Adds what an open mark depends on to what a lane depends on.
void Timeline::follow_rounds_of(Lane& lane, const MarkReference& mark) {
  if (mark->ready() == nullptr) return add_term(lane.ready, {.round = mark, .after = {}});
  lane.ready.time = std::max(lane.ready.time, mark->ready()->time);
  for (const Ready::Term& term : mark->ready()->terms) add_term(lane.ready, term);
  if (mark->ready()->epoch != epoch_) lane.ready.epoch = 0;
}

void Timeline::add_term(Ready& ready, const Ready::Term& term) {
  const auto same = std::ranges::find(ready.terms, term.round.get(),
                                      [](const Ready::Term& one) { return one.round.get(); });
  if (same != ready.terms.end()) {
    same->after = std::max(same->after, term.after);
  } else if (ready.terms.size() < Ready::kMostTerms) {
    ready.terms.push_back(term);
  } else {
    ready.epoch = 0;
  }
}

void Timeline::follow_rounds() {
  if (follows_rounds_) return;
  follows_rounds_ = true;
  for (const auto& group : groups_) {
    for (Lane* const lane : group->waiting) lane->loose = true;
  }
}

bool Timeline::is_alone(TimePoint now) const {
  return std::ranges::all_of(engines_,
                             [&](const EngineState& engine) { return engine.queue.is_alone(now); });
}

/// Returns whether another lane has work on an engine that has not started. Notes it if there is
/// none.
bool Timeline::find_other(const Lane& lane, std::size_t engine, TimePoint now) {
  forget_started(now);
  const bool found = std::ranges::any_of(groups_, [&](const auto& group) {
    return std::ranges::any_of(group->waiting, [&](const Lane* other) {
      return other != &lane && has_work(*other, engine);
    });
  });
  engines_[engine].only_lane = found ? nullptr : &lane;
  return found;
}

bool Timeline::has_work(const Lane& lane, std::size_t engine) {
  return lane.group->uses(engine) && lane.work[engine % kEngineCount] > 0;
}

/// Before a lane queues work on an engine for which other lanes have work that has not started:
/// notes that the times of all these may change.
void Timeline::loosen(Lane& lane, std::size_t engine) {
  if (!find_other(lane, engine, now_)) return;
  ++epoch_;
  lane.loose = true;
  lane.ready.epoch = 0;
  for (const auto& group : groups_) {
    for (Lane* const other : group->waiting) {
      if (other->loose || !has_work(*other, engine)) continue;
      other->loose = true;
      for (std::size_t i = 0; i < other->tasks.size(); ++i) {
        if (Mark* const mark = other->tasks[i].mark.get(); mark != nullptr) mark->loosen();
      }
    }
  }
}

MarkReference Timeline::wait_for_open_mark(Lane& lane, TimePoint now, Duration cost) {
  const TimePoint expected = saturating_add(std::max(now, lane.expected_end), cost);
  const MarkReference mark(new Mark(schedule_, expected));
  mark->open(nullptr);
  wait(lane, now, Moment(now, mark));
  // The round comes after all that the lane waited for before.
  lane.ready.time = {};
  lane.ready.terms = {{.round = mark, .after = {}}};
  return mark;
}

void Timeline::resolve(Mark& mark, TimePoint end, TimePoint reached) {
  GPEMU_CHECK(mark.is_open(), "a mark is resolved twice");
  mark.place(end, end);
  mark.settle();
  // Placed work that became ready later may be put off by work after the mark.
  const bool puts_off = std::ranges::any_of(engines_, [&](const EngineState& engine) {
    return engine.last_ready >= end || (engine.has_priorities && engine.placed_end >= end);
  });
  if (puts_off) {
    start_over(reached);
  } else {
    release(mark);
    place_woken();
  }
}

/// Takes away the times of all tasks that have not started.
void Timeline::start_over(TimePoint now) {
  forget_started(now);
  take_times_away();
}

/// Takes away the times of all tasks that are not final.
void Timeline::take_times_away() {
  has_expected_ = false;
  blocked_.clear();
  for (EngineState& engine : engines_) {
    engine.placed_end = engine.started_end;
    engine.full_end = engine.started_full_end;
    engine.beside = engine.started_beside;
    engine.last_ready = {};
    engine.least_urgent = kMostUrgent;
    engine.ready.clear();
  }
  waiting_.clear();
  std::vector<Lane*> lanes;
  for (const auto& group : groups_) {
    lanes.insert(lanes.end(), group->waiting.begin(), group->waiting.end());
  }
  for (Lane* const lane : lanes) {
    for (; lane->placed > 0; --lane->placed) {
      Mark* const mark = lane->tasks[lane->placed - 1].mark.get();
      if (mark != nullptr) mark->unplace();
    }
    split(*lane);
  }
  for (Lane* const lane : lanes) look_at(*lane);
}

void Timeline::look_at(Lane& lane) {
  woken_.push_back(&lane);
  place_woken();
}

/// Determines when the next work of woken lanes may start.
void Timeline::place_woken() {
  while (!woken_.empty()) {
    Lane& next = *woken_.back();
    woken_.pop_back();
    while (next.placed < next.tasks.size() && get_in_line(next)) give_time(next);
  }
}

/// Determines when a lane's next task may start. Work then gets in line at its engine. Returns
/// whether the task is a wait that gets its time now.
bool Timeline::get_in_line(Lane& lane) {
  Task& task = next_of(lane);
  task.start =
      std::max(task.asked, lane.placed == 0 ? lane.started_end : lane.tasks[lane.placed - 1].end);
  if (task.engine != Task::kWait) {
    EngineState& engine = engine_of(task);
    if (engine.ready.empty()) waiting_.push_back(&engine);
    engine.ready.push_back(&lane);
    std::ranges::push_heap(engine.ready, Later());
    return false;
  }
  if (Mark* const mark = task.waits_for.get(); mark != nullptr) {
    if (!mark->has_time()) {
      blocked_.emplace_back(mark, &lane);
      return false;
    }
    task.start = std::max(task.start, mark->time());
  }
  task.end = saturating_add(task.start, task.cost);
  return true;
}

/// Notes that a lane's next task has its time.
void Timeline::give_time(Lane& lane) {
  const Task& task = next_of(lane);
  ++lane.placed;
  if (lane.placed == lane.tasks.size()) {
    lane.expected_end = task.end;
    lane.open = false;
  }
  Mark* const mark = task.mark.get();
  if (mark == nullptr) return;
  mark->place(final_from(task), task.end);
  release(*mark);
}

/// Lets the lanes that wait for a mark continue.
void Timeline::release(const Mark& mark) {
  std::erase_if(blocked_, [&](const auto& blocked) {
    if (blocked.first != &mark) return false;
    woken_.push_back(blocked.second);
    return true;
  });
}

/// Returns the place in an engine's heap of the lane whose task runs next on it: the first one in
/// line, unless a more urgent one is ready when it could start. Requires: some lane is in line.
std::size_t Timeline::first_in_line(EngineState& engine) {
  if (!engine.has_priorities) return 0;
  const auto order = [&](std::size_t place) {
    const Lane& lane = *engine.ready[place];
    const Task& task = next_of(*engine.ready[place]);
    return std::tuple(lane.priority, task.start, task.number);
  };
  std::size_t best = 0;
  for (bool has_changed = true; has_changed;) {
    has_changed = false;
    const TimePoint turn =
        engine.queue.next_turn(now_, room_from(engine, next_of(*engine.ready[best])));
    for (std::size_t i = 0; i < engine.ready.size(); ++i) {
      if (next_of(*engine.ready[i]).start > turn || order(i) >= order(best)) continue;
      best = i;
      has_changed = true;
    }
  }
  return best;
}

/// Returns which unplaced work starts next. If several pieces start at the same time, returns the
/// one that became ready first, because some may take no time.
Timeline::Next Timeline::next() {
  using Order = std::tuple<TimePoint, TimePoint, std::uint64_t>;
  Next best;
  Order first;
  for (EngineState* const engine : waiting_) {
    const std::size_t place = first_in_line(*engine);
    Lane& lane = *engine->ready[place];
    const Task& task = next_of(lane);
    const TimePoint from = room_from(*engine, task);
    const bool has_turn = lane.open && keeps_promises_;
    const Order order(has_turn ? from : engine->queue.next_turn(now_, from), task.start,
                      task.number);
    if (best.engine != nullptr && order >= first) continue;
    first = order;
    best = {.engine = engine, .place = place, .start = std::get<0>(order)};
  }
  return best;
}

TimePoint Timeline::next_start() {
  return next().start;
}

/// Gives its time to the work that starts next, unless that is after `until`. Returns its lane.
Lane* Timeline::place_next(TimePoint until) {
  const Next first = next();
  if (first.engine == nullptr || first.start > until) return nullptr;
  EngineState& engine = *first.engine;
  Lane& lane = *engine.ready[first.place];
  if (first.place == 0) {
    std::ranges::pop_heap(engine.ready, Later());
    engine.ready.pop_back();
  } else {
    engine.ready.erase(engine.ready.begin() + static_cast<std::ptrdiff_t>(first.place));
    std::ranges::make_heap(engine.ready, Later());
  }
  if (engine.ready.empty()) std::erase(waiting_, &engine);
  Task& task = next_of(lane);
  const TimePoint from = room_from(engine, task);
  const Duration cost =
      engine.speed == nullptr
          ? task.cost
          : engine.speed->time_of(static_cast<std::size_t>(task.engine), first.start, task.cost);
  Service interval;
  if (engine.follows && !engine.queue.moves() && first.start > now_) {
    // When it starts, it takes its place among the work of others.
    interval = {.start = first.start, .end = saturating_add(first.start, cost), .busy = cost};
    has_expected_ = true;
    expected_at_ = now_;
  } else {
    interval = engine.queue.serve(now_, from, cost);
  }
  if (lane.open && keeps_promises_) {
    // Others rely on it, even if it overlaps with work of other processes.
    interval = {.start = from, .end = saturating_add(from, cost), .busy = cost};
  }
  GPEMU_CHECK(interval.start >= from && interval.end >= interval.start,
              "an engine runs work before it is ready");
  note_placed(engine, lane, task.start, interval.start, interval.end, task.room());
  task.start = interval.start;
  task.end = interval.end;
  task.was_put_off = true;
  give_time(lane);
  woken_.push_back(&lane);
  place_woken();
  return &lane;
}

}  // namespace gpemu::device
