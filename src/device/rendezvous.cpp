// SPDX-License-Identifier: Apache-2.0
#include "gpemu/device/rendezvous.hpp"

#include <algorithm>
#include <utility>

#include "gpemu/base/saturate.hpp"

#include "group_seats.hpp"
#include "party.hpp"
#include "schedule.hpp"
#include "segment.hpp"
#include "settler.hpp"

namespace gpemu::device {

struct Rendezvous::State {
  std::shared_ptr<Node> node;
  Schedule& schedule;
  Segment& segment;
  sim::Clock& clock;
  std::uint64_t key;
  std::size_t seat;
  Party party GPEMU_GUARDED_BY(schedule.mutex);
  bool aborted GPEMU_GUARDED_BY(schedule.mutex) = false;

  [[nodiscard]] Result<void> check() GPEMU_REQUIRES(schedule.mutex) {
    if (aborted) return fail(ErrorCode::kUnavailable, "this party has left its group");
    if (party.failed() == nullptr) return {};
    return fail(ErrorCode::kUnavailable, "party {} of a group of {} is gone: {}",
                party.failed() - party.seats().data(), party.seats().size(),
                party.failed()->owner == layout::left(key)
                    ? "it has left the group"
                    : segment.describe_process(party.failed()->owner) + " has ended");
  }
};

Rendezvous::Rendezvous(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<GroupId> Rendezvous::create_group(Node& node, int parties) {
  GPEMU_TRY(node.segment_->check_owner());
  return node.segment_->seats().reserve(parties);
}

Result<std::unique_ptr<Rendezvous>> Rendezvous::join(std::shared_ptr<Node> node,
                                                     const GroupId& group, int seat,
                                                     sim::Clock& clock) {
  Segment& segment = *node->segment_;
  Schedule& schedule = *node->schedule_;
  GPEMU_TRY(segment.check_owner());
  GPEMU_ASSIGN(const Seats seats, segment.seats().take(group, seat));
  node->start_to_settle(clock);
  const auto index = static_cast<std::size_t>(seat);
  auto state = std::unique_ptr<State>(new State{.node = std::move(node),
                                                .schedule = schedule,
                                                .segment = segment,
                                                .clock = clock,
                                                .key = group.key,
                                                .seat = index,
                                                .party = Party(seats, index)});
  const Lock lock(state->schedule.mutex);
  state->schedule.add(state->party, clock);
  return std::unique_ptr<Rendezvous>(new Rendezvous(std::move(state)));
}

Rendezvous::~Rendezvous() {
  if (!state_->segment.owned_by_this_process()) {
    // In a forked child, the rounds belong to the parent, and the schedule's lock may be held for
    // ever.
    static_cast<void>(state_.release());
    return;
  }
  static_cast<void>(abort());
}

Result<Moment> Rendezvous::arrive(Stream& stream, Duration cost,
                                  std::function<void(const RoundTimes&)> observer,
                                  const RoundWork& work) {
  GPEMU_TRY(check_stream(stream));
  Lock lock(state_->schedule.mutex);
  GPEMU_TRY(state_->check());
  Moment end =
      state_->schedule.arrive(state_->party, stream.lane(), state_->clock.now(),
                              {.cost = cost, .work = work, .observer = std::move(observer)});
  const bool rings = state_->schedule.take_owed_ring();
  lock.unlock();
  if (rings) state_->schedule.ring_settler();
  return end;
}

Result<Moment> Rendezvous::arrive_open(Stream& stream, Duration cost, Begin begin,
                                       std::function<void(const RoundTimes&)> observer,
                                       const RoundWork& work) {
  GPEMU_TRY(check_stream(stream));
  Schedule::Begin inner;
  if (begin) {
    inner = [node = state_->node, clock = &state_->clock, begin = std::move(begin)](
                const RoundTimes& times, const MarkReference& outside) {
      begin(times, OpenEnd(node, *clock, outside));
    };
  }
  const Lock lock(state_->schedule.mutex);
  GPEMU_TRY(state_->check());
  return state_->schedule.arrive_open(state_->party, stream.lane(), state_->clock.now(),
                                      {.cost = cost, .work = work, .observer = std::move(observer)},
                                      std::move(inner));
}

Result<void> Rendezvous::check_stream(const Stream& stream) const {
  GPEMU_TRY(state_->segment.check_owner());
  if (&stream.node() == state_->node.get()) return {};
  return fail(ErrorCode::kInvalidArgument, "the stream belongs to another node than the group");
}

void OpenEnd::end(TimePoint earliest) const {
  if (!mark_ || mark_->is_final() || !Rendezvous::takes_part(*node_)) return;
  Schedule& schedule = mark_->schedule();
  const Lock lock(schedule.mutex);
  schedule.end_outside(*mark_.get(), clock_->now(), earliest);
}

bool Rendezvous::takes_part(const Node& node) {
  return node.segment_->owned_by_this_process();
}

Result<void> Rendezvous::check() {
  GPEMU_TRY(state_->segment.check_owner());
  const Lock lock(state_->schedule.mutex);
  state_->schedule.advance(state_->clock.now());
  state_->schedule.find_failures();
  return state_->check();
}

Result<void> Rendezvous::wait(const Moment& moment, std::optional<Duration> timeout) {
  sim::Clock& clock = state_->clock;
  const TimePoint deadline = timeout ? saturating_add(clock.now(), *timeout) : TimePoint::max();
  while (true) {
    const std::uint32_t seen = moment.news();
    GPEMU_TRY(check());
    const TimePoint now = clock.now();
    if (moment.is_over(now)) return {};
    if (now >= deadline) {
      return fail(ErrorCode::kNotReady, "the work has not ended within {} ms",
                  std::chrono::duration_cast<std::chrono::milliseconds>(*timeout).count());
    }
    moment.wait_for_news(clock, seen, deadline);
  }
}

Result<RoundStatistics> Rendezvous::statistics() const {
  GPEMU_TRY(state_->segment.check_owner());
  const Lock lock(state_->schedule.mutex);
  const Lateness& lateness = state_->schedule.lateness();
  Settler* const settler = state_->node->settler_.get();
  return RoundStatistics{.rounds = lateness.total(),
                         .median_late = lateness.median(),
                         .latest = lateness.latest(),
                         .settling = settler == nullptr ? Duration() : settler->cpu_time()};
}

Result<void> Rendezvous::abort() {
  GPEMU_TRY(state_->segment.check_owner());
  Seats seats;
  {
    const Lock lock(state_->schedule.mutex);
    seats = state_->party.seats();
    if (std::exchange(state_->aborted, true)) return {};
    state_->schedule.abort(state_->party, state_->clock.now());
    state_->schedule.remove(state_->party);
  }
  state_->segment.seats().leave(seats, state_->seat, state_->key);
  return {};
}

}  // namespace gpemu::device
