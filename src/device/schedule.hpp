// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "gpemu/base/units.hpp"
#include "gpemu/device/interval.hpp"
#include "gpemu/device/moment.hpp"

#include "lateness.hpp"
#include "party.hpp"
#include "timeline.hpp"

namespace gpemu::device {

/// All work that a process has queued on the devices of a node: its timeline, and the rounds of
/// rendezvous that its work waits for.
///
/// Thread safety: guarded by `mutex`, which callers hold. `now` is the time of the node's clock.
class Schedule {
 public:
  Schedule(Segment& segment, std::size_t devices)
      : segment_(segment), timeline_(*this, segment, devices) {}

  void add(std::shared_ptr<LaneGroup> group) { timeline_.add(std::move(group)); }

  /// As DeviceSharing::allows_others. Thread safety: any thread.
  [[nodiscard]] bool allows_others(int device) const {
    return timeline_.sharing(device).allows_others();
  }

  /// As Timeline::queue.
  Interval queue(Lane& lane, std::size_t engine, TimePoint now, Duration cost, Bytes bytes) {
    enter(now);
    const Interval interval = timeline_.queue(lane, engine, now, cost, bytes);
    if (timeline_.has_work_in_line()) advance(now);
    return interval;
  }
  /// As Timeline::wait_in_stream.
  void wait_in_stream(Lane& lane, TimePoint now, const Moment& moment) {
    enter(now);
    timeline_.wait_in_stream(lane, now, moment);
  }
  /// As Timeline::last_end.
  Moment last_end(Lane& lane, TimePoint now) {
    enter(now);
    return timeline_.last_end(lane, now);
  }
  /// As Timeline::end_of.
  Moment end_of(Lane& lane, TimePoint now) {
    enter(now);
    if (!lane.group->waiting.empty()) advance(now);
    return timeline_.end_of(lane, now);
  }
  /// As Timeline::ends_of.
  std::vector<Moment> ends_of(const LaneGroup& group, TimePoint now) {
    advance(now);
    return timeline_.ends_of(group, now);
  }
  /// As Timeline::abandon.
  void abandon(std::unique_ptr<Lane> lane, TimePoint now) {
    advance(now);
    timeline_.abandon(std::move(lane), now);
  }
  /// As Timeline::place_all.
  void place_all() { timeline_.place_all(); }

  /// Gives its time to work that has started at `now`, and settles rounds.
  void advance(TimePoint now) {
    timeline_.pass(now);
    if (open_rounds_ > 0) return catch_up();
    timeline_.place_until(now);
  }

  /// Queues a round of a rendezvous in a lane and returns when it ends. Requires: the party is
  /// added.
  Moment arrive(Party& party, Lane& lane, TimePoint now, Duration cost);

  /// From now until the party is removed, publishes its arrivals and gives its rounds their ends.
  void add(Party& party) { parties_.push_back(&party); }
  /// Ends the party's open rounds at `now`, or when the stream reaches them if that is later.
  void abort(Party& party, TimePoint now);
  void remove(Party& party) { std::erase(parties_, &party); }

  /// When there is something to do next for open rounds.
  struct NextLook {
    TimePoint time = TimePoint::max();
    /// Whether a round would have ended by now if others had come: only they know when that is.
    bool listens = false;
  };
  NextLook next_look(TimePoint now);

  /// As next_look but, with open rounds, not after `latest`. For the thread that settles; its bell
  /// rings if it must look earlier.
  NextLook plan_look(TimePoint now, TimePoint latest);

  /// Finds parties that wait for a party that cannot come any more.
  void find_failures();

  /// How late the ends of rounds became known.
  [[nodiscard]] const Lateness& lateness() const { return lateness_; }

  /// Changes when a round gets its end or a party fails.
  std::atomic<std::uint32_t> news{0};
  std::atomic<int> waiting_for_news{0};
  /// Notes that something happened, and wakes the threads that wait for it.
  void tell_news();

  std::mutex mutex;

 private:
  /// Every function that queues or asks starts with this. With open rounds, it first does all work
  /// that was due until now.
  void enter(TimePoint now) {
    timeline_.pass(now);
    if (open_rounds_ > 0) catch_up();
  }
  void catch_up();
  [[nodiscard]] TimePoint next_event();
  bool settle_rounds();
  [[nodiscard]] bool publish_rounds(Party& party);
  void give_end(Party& party, TimePoint end);
  [[nodiscard]] static std::optional<TimePoint> ready_time(Party& party, const Party::Round& round);
  [[nodiscard]] static TimePoint ready_known_at(Party& party, const Party::Round& round);
  void ring_listeners(Party& party);
  static void ring(layout::ProcessRecord& process);

  Segment& segment_;
  Timeline timeline_;
  TimePoint reached_{};  ///< all work that starts before has started, while rounds are open.
  std::vector<Party*> parties_;
  Lateness lateness_;
  std::size_t open_rounds_ = 0;                ///< of all parties.
  TimePoint planned_look_ = TimePoint::min();  ///< of the thread that settles, if there is one.
};

}  // namespace gpemu::device
