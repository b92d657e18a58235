// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "gpemu/base/mutex.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/device/interval.hpp"
#include "gpemu/device/moment.hpp"
#include "gpemu/sim/clock.hpp"

#include "lateness.hpp"
#include "news.hpp"
#include "party.hpp"
#include "timeline.hpp"

namespace gpemu::device {

/// How a process reaches the others of its node.
struct Peers {
  /// What others see of this process.
  layout::ProcessRecord* own = nullptr;
  /// Returns what is seen of the process of an identity.
  std::function<layout::ProcessRecord&(std::uint64_t identity)> process;
  /// Returns whether the party of a seat can still come.
  std::function<bool(const layout::SeatRecord& seat)> can_come;
};

/// All work that a process has queued on the devices of a node: its timeline, and the rounds of
/// rendezvous that its work waits for.
///
/// Thread safety: guarded by `mutex`, which callers hold. `now` is the time of the node's clock.
class Schedule {
 public:
  Mutex mutex;

  Schedule(std::vector<DeviceEngines> devices, Peers peers);

  void add(std::shared_ptr<LaneGroup> group) GPEMU_REQUIRES(mutex) {
    timeline_.add(std::move(group));
  }

  /// As Timeline::set_priority.
  void set_priority(Lane& lane, std::int8_t priority) GPEMU_REQUIRES(mutex) {
    timeline_.set_priority(lane, priority);
  }

  /// As Timeline::queue. `waves`: in so many of them a kernel runs, if there are more urgent ones.
  QueuedWork queue(Lane& lane, std::size_t engine, TimePoint now, Duration cost, Bytes bytes,
                   Room room = {}, int waves = 1) GPEMU_REQUIRES(mutex) {
    enter(now);
    if (timeline_.keeps_promises() && timeline_.is_used_by_other(lane, engine, now)) {
      now = take_back_arrivals(now);
    }
    const QueuedWork work = waves > 1 && timeline_.has_more_urgent(lane, engine)
                                ? timeline_.queue_waves(lane, engine, now, cost, room, waves)
                                : timeline_.queue(lane, engine, now, cost, bytes, room);
    if (timeline_.has_work_in_line()) advance(now);
    // It sleeps as long as this process has no work that others can move.
    if (!watches_turns_ && timeline_.is_shared()) ring_own();
    return work;
  }
  /// As Timeline::join.
  [[nodiscard]] bool join(std::size_t device, TimePoint now, const SharingRole& role)
      GPEMU_REQUIRES(mutex) {
    return timeline_.join(device, now, role);
  }
  /// As DeviceSharing::launch_from.
  [[nodiscard]] TimePoint launch_from(std::size_t device, TimePoint now, const KernelLaunch& kernel)
      GPEMU_REQUIRES(mutex) {
    enter(now);
    return timeline_.sharing(device).launch_from(now, kernel);
  }
  /// As DeviceSharing::note_launch.
  void note_launch(std::size_t device, const KernelLaunch& kernel) GPEMU_REQUIRES(mutex) {
    timeline_.sharing(device).note_launch(kernel);
  }
  /// As Timeline::leave.
  void leave(std::size_t device, TimePoint now) GPEMU_REQUIRES(mutex) {
    timeline_.leave(device, now);
  }
  /// As Timeline::wait_in_stream.
  void wait_in_stream(Lane& lane, TimePoint now, const Moment& moment) GPEMU_REQUIRES(mutex) {
    enter(now);
    timeline_.wait_in_stream(lane, now, moment);
  }
  /// As Timeline::pause_stream.
  void pause_stream(Lane& lane, TimePoint now, Duration time) GPEMU_REQUIRES(mutex) {
    enter(now);
    timeline_.pause_stream(lane, now, time);
  }
  /// As Timeline::last_end.
  Moment last_end(Lane& lane, TimePoint now) GPEMU_REQUIRES(mutex) {
    enter(now);
    return timeline_.last_end(lane, now);
  }
  /// As Timeline::end_of.
  Moment end_of(Lane& lane, TimePoint now) GPEMU_REQUIRES(mutex) {
    enter(now);
    if (!lane.group->waiting.empty()) advance(now);
    return timeline_.end_of(lane, now);
  }
  /// As Timeline::record.
  void record(Lane& lane, TimePoint now, Moment& moment) GPEMU_REQUIRES(mutex) {
    enter(now);
    if (timeline_.has_work_in_line()) advance(now);
    timeline_.record(lane, now, moment);
  }
  /// As Timeline::ends_of.
  std::vector<Moment> ends_of(const LaneGroup& group, TimePoint now) GPEMU_REQUIRES(mutex) {
    advance(now);
    return timeline_.ends_of(group, now);
  }
  /// As Timeline::abandon.
  void abandon(std::unique_ptr<Lane> lane, TimePoint now) GPEMU_REQUIRES(mutex) {
    advance(now);
    timeline_.abandon(std::move(lane), now);
  }
  /// As Timeline::place_all.
  void place_all() GPEMU_REQUIRES(mutex) { timeline_.place_all(); }

  /// Gives work that has not started other times, because a device's speed has changed.
  void place_again(TimePoint now) GPEMU_REQUIRES(mutex) {
    enter(now);
    timeline_.place_again(take_back_arrivals(now));
  }

  /// Gives work that has started by `now` its time, and settles rounds.
  void advance(TimePoint now) GPEMU_REQUIRES(mutex) {
    enter(now);
    if (timeline_.has_work_in_line()) timeline_.place_until(now);
    timeline_.forget_started(now);
  }

  /// A round as a party queues it: see Rendezvous::arrive.
  struct NewRound {
    Duration cost{};
    RoundWork work{};
    std::function<void(const RoundTimes&)> observer{};
  };
  /// Queues a round of a rendezvous in a lane and returns when it ends. Requires: the party has
  /// been added; take_owed_ring() follows.
  Moment arrive(Party& party, Lane& lane, TimePoint now, NewRound round) GPEMU_REQUIRES(mutex);

  /// Called once all parties have arrived at a round with an open end. `times`: their end is the
  /// earliest end of what is outside, whose mark is `outside`.
  using Begin = std::function<void(const RoundTimes& times, const MarkReference& outside)>;

  /// As Rendezvous::arrive_open. `begin`: null if nothing is outside for this party.
  Moment arrive_open(Party& party, Lane& lane, TimePoint now, NewRound round, Begin begin)
      GPEMU_REQUIRES(mutex);
  /// Ends what is outside now, or at `earliest` if that is later, unless it has ended.
  void end_outside(Mark& outside, TimePoint now, TimePoint earliest) GPEMU_REQUIRES(mutex);

  /// From now until the party is removed, publishes its arrivals and gives its rounds their ends.
  /// `clock`: the node's.
  void add(Party& party, sim::Clock& clock) GPEMU_REQUIRES(mutex);
  /// Ends the party's open rounds at `now`, or when the stream reaches them if that is later.
  void abort(Party& party, TimePoint now) GPEMU_REQUIRES(mutex);
  void remove(Party& party) GPEMU_REQUIRES(mutex) {
    ring_owed();
    std::erase(parties_, &party);
  }

  /// When there is something to do next for open rounds.
  struct NextLook {
    TimePoint time = TimePoint::max();
    /// Whether a round would have ended by now if others had come: only they know when they will.
    bool listens = false;

    void add(const Party::Expected& round, TimePoint now) {
      if (round.end > now || round.all_come) {
        time = std::min(time, round.end);
      } else {
        listens = true;
      }
    }
  };
  /// Returns when anything happens next to open rounds.
  NextLook next_look(TimePoint now) GPEMU_REQUIRES(mutex);
  /// As Timeline::next_look.
  [[nodiscard]] TimePoint next_turn() GPEMU_REQUIRES(mutex) { return timeline_.next_look(); }

  /// Returns when the thread that settles looks next, not after `latest` unless no rounds have been
  /// queued lately: in time to publish the next arrivals. Its bell rings if it must look earlier.
  NextLook plan_look(TimePoint now, TimePoint latest) GPEMU_REQUIRES(mutex);
  /// Returns the only round on which a mark depends, or null if that is not known.
  [[nodiscard]] static const Mark* round_before(const Mark& mark);
  /// Returns when a thread looks next that waits for a round, or (null) for anything. Requires: it
  /// counts as waiting.
  NextLook plan_wait(TimePoint now, const Mark* awaited) GPEMU_REQUIRES(mutex);

  /// Returns whether the caller of arrive() must call ring_settler() once it has let the mutex go:
  /// if that thread were woken before, it would wait for the mutex at once.
  [[nodiscard]] bool take_owed_ring() GPEMU_REQUIRES(mutex) {
    return std::exchange(owes_ring_, false);
  }
  void ring_settler() { ring(*peers_.own); }
  /// Makes the thread that settles wake those of other processes, if they are several. Requires:
  /// take_owed_ring() follows.
  void ring_soon(std::span<layout::ProcessRecord* const> processes) GPEMU_REQUIRES(mutex);

  /// Finds parties that wait for a party that cannot come any more, and repairs the seats of
  /// parties that wait.
  void find_failures() GPEMU_REQUIRES(mutex);

  /// How late the ends of rounds became known.
  [[nodiscard]] const Lateness& lateness() const GPEMU_REQUIRES(mutex) { return lateness_; }

  /// Told when a round gets its end or a party fails.
  News news;

 private:
  /// Every function that queues work or asks for a time starts with this. If there are open rounds,
  /// it first does everything that was due by `now`.
  void enter(TimePoint now) GPEMU_REQUIRES(mutex) {
    timeline_.pass(now);
    if (open_marks_ > 0) catch_up();
  }
  void call_settler(const NextLook& look) GPEMU_REQUIRES(mutex);
  [[nodiscard]] bool has_unpublished() GPEMU_REQUIRES(mutex);
  [[nodiscard]] std::uint64_t round_for(Party& party, const Mark* mark) GPEMU_REQUIRES(mutex);
  void show_wanted() GPEMU_REQUIRES(mutex);
  NextLook look_to_publish(TimePoint now) GPEMU_REQUIRES(mutex);
  NextLook look_for(TimePoint now, const Mark* awaited) GPEMU_REQUIRES(mutex);
  NextLook plan_look(TimePoint now) GPEMU_REQUIRES(mutex);
  Party::Round& queue_round(Party& party, Lane& lane, TimePoint now, NewRound queued)
      GPEMU_REQUIRES(mutex);
  void count_open_mark() GPEMU_REQUIRES(mutex) {
    if (open_marks_++ == 0) reached_ = timeline_.now();
  }
  TimePoint take_back_arrivals(TimePoint now) GPEMU_REQUIRES(mutex);
  [[nodiscard]] std::optional<Party::Arrival> arrival_at(Party& party, Party::Round& round)
      GPEMU_REQUIRES(mutex);
  void catch_up() GPEMU_REQUIRES(mutex);
  [[nodiscard]] TimePoint next_event() GPEMU_REQUIRES(mutex);
  bool settle_rounds() GPEMU_REQUIRES(mutex);
  [[nodiscard]] bool publish_rounds(Party& party) GPEMU_REQUIRES(mutex);
  void give_end(Party& party, TimePoint end) GPEMU_REQUIRES(mutex);
  [[nodiscard]] static std::optional<TimePoint> ready_time(Party& party, const Party::Round& round);
  [[nodiscard]] TimePoint ready_known_at(Party& party, const Party::Round& round)
      GPEMU_REQUIRES(mutex);
  [[nodiscard]] bool never_arrives(Party& party, const Party::Round& round) GPEMU_REQUIRES(mutex);
  void ring_listeners(Party& party) GPEMU_REQUIRES(mutex);
  void ring_owed() GPEMU_REQUIRES(mutex);
  static void ring(layout::ProcessRecord& process);
  void ring_own() GPEMU_REQUIRES(mutex);

  Peers peers_;
  sim::Clock* clock_ = nullptr;  ///< if there are parties.
  Timeline timeline_ GPEMU_GUARDED_BY(mutex);
  /// While rounds are open: all work that starts before this time has started.
  TimePoint reached_ GPEMU_GUARDED_BY(mutex){};
  std::vector<Party*> parties_ GPEMU_GUARDED_BY(mutex);
  Lateness lateness_ GPEMU_GUARDED_BY(mutex);
  bool holds_ring_ GPEMU_GUARDED_BY(mutex) = false;
  bool owes_ring_ GPEMU_GUARDED_BY(mutex) = false;
  bool has_settler_ GPEMU_GUARDED_BY(mutex) = false;
  std::vector<layout::ProcessRecord*> owed_rings_ GPEMU_GUARDED_BY(mutex);
  /// Rounds of all parties, and what is outside, without an end.
  std::size_t open_marks_ GPEMU_GUARDED_BY(mutex) = 0;
  /// The next look of the thread that settles, if there is one.
  TimePoint planned_look_ GPEMU_GUARDED_BY(mutex) = TimePoint::min();
  bool watches_turns_ GPEMU_GUARDED_BY(mutex) = true;  ///< it planned to look for time slices.
  bool has_queued_ GPEMU_GUARDED_BY(mutex) = false;    ///< a round since it last planned.
};

}  // namespace gpemu::device
