// SPDX-License-Identifier: Apache-2.0
#include "sliced_sharing.hpp"

#include <algorithm>
#include <set>
#include <sys/types.h>
#include <unistd.h>
#include <utility>

#include "gpemu/base/saturate.hpp"

namespace gpemu::device {
namespace {

/// How often the processes that want the engine are asked whether they live, and all others. A
/// check asks the kernel for a lock of each process, about 0.3 us.
constexpr Duration kLookPeriodOfSlices = std::chrono::milliseconds(1);
constexpr Duration kLongLookPeriod = std::chrono::milliseconds(100);

/// Attempts to publish. Processes that only use a device never come near the limit.
constexpr int kMostWrites = 1000;

}  // namespace

Reservation SlicedSharing::reserve(std::size_t engine, TimePoint now, TimePoint earliest,
                                   Duration cost) {
  return alone_->reserve(engine, now, earliest, cost);
}

TimePoint SlicedSharing::next_start(std::size_t engine, TimePoint now, TimePoint from) {
  return moves(engine) ? from : alone_->next_start(engine, now, from);
}

bool SlicedSharing::is_last(std::size_t engine, TimePoint now) const {
  if (!moves(engine)) return alone_->is_last(engine, now);
  return std::ranges::none_of(slices_.sharers, [&](const Sharer& sharer) {
    return sharer.identity != table_.identity() && sharer.demand_count > 0;
  });
}

bool SlicedSharing::join(TimePoint now, const SharingRole& role) {
  if (contexts_++ > 0) return true;
  const auto join_once = [&] {
    version_ = table_.read(slices_);
    TimeSlices next = slices_;
    next.advance(now, rules_);
    next.quantum = peers_.quantum();
    looked_at_all_ = next.looked_for_dead = TimePoint();
    const std::vector<Sharer> dead = remove_dead(next);
    if (next.sharers.size() == layout::kMostSharers) return false;
    if (next.sharers.size() == 1 && next.sharers[0].demand_count == 0) {
      // It is alone, so its work is not in the table yet.
      const TimePoint end = at_ns(std::min(peers_.tail_of(next.sharers[0].identity),
                                           to_ns(next.time) + layout::kLongestQueue.count()));
      if (end > next.time) {
        next.sharers[0].demands[next.sharers[0].demand_count++] = {
            .earliest = next.time, .after = {}, .cost = end - next.time};
        next.last = 0;
        next.slice_end = saturating_add(next.time, next.length(rules_));
      }
    }
    Sharer& own = next.add(table_.identity(), role.share);
    own.is_held = is_held_ = launches_ && role.priority == ProcessPriority::kLow;
    if (!launches_) {
      own.priority = role.priority;
    } else if (is_held_ && launches_->is_side_by_side()) {
      own.priority = ProcessPriority::kLow;
    }
    if (role.client) {
      own.server = role.client->server;
      own.width = role.client->width;
    }
    const auto version = table_.write(version_, next);
    if (!version) return false;
    version_ = *version;
    slices_ = std::move(next);
    drop(dead);
    return true;
  };
  bool has_joined = table_.take_place();
  for (int attempt = 0; has_joined && !(has_joined = join_once());) {
    if (++attempt == kMostWrites || slices_.sharers.size() == layout::kMostSharers) break;
    has_joined = true;
  }
  if (!has_joined) {
    contexts_ = 0;
    table_.leave_place();
    return false;
  }
  accounted_ = {};
  seen_served_ = {};
  seen_until_ = slices_.time;
  wants_.clear();
  is_ahead_ = false;
  is_shared_ = slices_.is_in_use();
  if (slices_.sharers.size() == 2) peers_.ring(slices_.sharers[0].identity);
  return true;
}

void SlicedSharing::drop(std::span<const Sharer> gone) const {
  for (const Sharer& sharer : gone) {
    if (const Duration wanted = sharer.wanted(); wanted > Duration()) {
      peers_.drop(sharer.share.tenant, wanted);
    }
  }
}

void SlicedSharing::leave(TimePoint now) {
  if (contexts_ == 0 || --contexts_ > 0) return;
  for (int attempt = 0; attempt < kMostWrites; ++attempt) {
    version_ = table_.read(slices_);
    slices_.advance(now, rules_);
    const std::size_t own = slices_.find(table_.identity());
    if (own == TimeSlices::kNobody) break;
    const Sharer left = slices_.sharers[own];
    slices_.remove(own);
    if (!table_.write(version_, slices_)) continue;
    drop({&left, 1});
    break;
  }
  table_.leave_place();
  is_shared_ = false;
  wants_.clear();
}

/// Brings the turns up to date. Returns whether some that were expected have changed.
bool SlicedSharing::update(TimePoint now, Duration unfinished, std::vector<Turn>& turns) {
  if (contexts_ == 0) return false;
  const bool has_news = table_.version() != version_;
  if (!is_shared_) {
    if (!has_news) return false;
    version_ = table_.read(slices_);
    if (slices_.sharers.size() < 2) return false;
    is_shared_ = true;
    // From now on, the others decide on all that has not run.
    const TimePoint cut = std::max(now, slices_.time);
    std::erase_if(turns, [&](const Turn& turn) { return turn.start >= cut; });
    if (!turns.empty()) turns.back().end = std::min(turns.back().end, cut);
    if (const std::size_t own = slices_.find(table_.identity()); own != TimeSlices::kNobody) {
      accounted_ = seen_served_ = slices_.sharers[own].served;
      seen_until_ = slices_.time;
    }
    if (unfinished > Duration())
      wants_.push_back({.earliest = cut, .after = {}, .cost = unfinished});
    publish(now);
    return true;
  }
  if (wants_.empty()) {
    // Nothing that others do concerns this process, unless it is alone now.
    if (!has_news || unfinished > Duration()) return false;
    version_ = table_.read(slices_);
    is_shared_ = slices_.is_in_use();
    is_ahead_ = false;
    return !is_shared_;
  }
  const bool others_changed = publish(now);
  const std::size_t index = slices_.find(table_.identity());
  if (index == TimeSlices::kNobody) return others_changed;
  const Sharer& own = slices_.sharers[index];
  add_forgotten(own, turns);
  merge(own, others_changed ? slices_.time : TimePoint::max(), turns);
  seen_served_ = own.served;
  seen_until_ = slices_.time;
  return others_changed;
}

void SlicedSharing::want(TimePoint now, const Demand& demand) {
  if (!wants_.empty() && demand.after == Duration() && wants_.back().needs == needs_ &&
      demand.earliest <= std::max(now, slices_.time)) {
    Demand& last = wants_.back();
    last.cost = Duration(saturating_add(last.cost.count(), demand.cost.count()));
  } else {
    wants_.push_back(demand);
    wants_.back().needs = needs_;
  }
  publish(now);
}

TimePoint SlicedSharing::launch_from(TimePoint now, const KernelLaunch& kernel) {
  if (!is_held_ || !is_shared_) return now;
  const auto view = view_at(now);
  if (!view) return now;
  const TimePoint from = launches_->launch_from(*view, kernel);
  // While it wants nothing, nothing else makes it look whether those for which it waits live.
  if (from > now && wants_.empty()) publish(now);
  return from;
}

void SlicedSharing::note_launch(const KernelLaunch& kernel) {
  if (is_held_) launches_->note_launch(kernel);
  if (launches_ && launches_->is_side_by_side()) needs_ = kernel.needs;
}

/// Returns what the processes do that are not held back; nothing if there are none.
std::optional<LaunchView> SlicedSharing::view_at(TimePoint now) const {
  TimeSlices slices = slices_;
  if (table_.version() != version_) table_.read(slices);
  slices.advance(now, rules_);
  LaunchView view{.now = now, .next_change = TimePoint::max()};
  bool has_others = false;
  for (std::size_t i = 0; i < slices.sharers.size(); ++i) {
    const Sharer& sharer = slices.sharers[i];
    if (sharer.identity == table_.identity()) view.in_flight = sharer.wanted();
    if (sharer.is_held) continue;
    has_others = true;
    view.queued =
        Duration(saturating_add(view.queued.count(), peers_.queued_by(sharer.identity).count()));
    if (sharer.turns > 0) {
      view.idle_from = std::max(view.idle_from, sharer.turn(sharer.turns - 1).end);
    }
    if (!sharer.wants_at(now, rules_)) continue;
    const TimePoint end = slices.demand_end(i, rules_);
    if (view.running && end >= view.next_change) continue;
    view.running = sharer.demands[0].needs;
    view.next_change = end;
  }
  if (!has_others) return std::nullopt;
  return view;
}

/// Publishes what this process wants, and runs the engine until now: nothing that others publish
/// later changes what was before. Returns whether others have changed anything since the last time.
bool SlicedSharing::publish(TimePoint now) {
  watch_others();
  bool others_changed = false;
  const bool has_death = has_death_;
  for (int attempt = 0; attempt < kMostWrites; ++attempt) {
    if (table_.version() != version_) {
      version_ = table_.read(slices_);
      others_changed = true;
    }
    TimeSlices next = slices_;
    next.advance(now, rules_);
    next.quantum = peers_.quantum();
    if (next.quantum != slices_.quantum) others_changed = true;
    const std::size_t own = next.find(table_.identity());
    // Somebody took this process for dead, or the segment is damaged.
    if (own == TimeSlices::kNobody) break;
    state_demands(next, next.sharers[own]);
    const std::vector<Sharer> dead = remove_dead(next);
    const auto version = table_.write(version_, next);
    if (!version) continue;
    version_ = *version;
    slices_ = std::move(next);
    drop(dead);
    if (has_death) has_death_ = false;
    break;
  }
  is_ahead_ = false;
  if (const std::size_t own = slices_.find(table_.identity()); own != TimeSlices::kNobody) {
    settle_served(slices_.sharers[own]);
  }
  return others_changed;
}

/// Watches the other sharers, so that their deaths are noticed at once.
void SlicedSharing::watch_others() {
  const bool same = std::ranges::equal(slices_.sharers, watched_, {}, &Sharer::identity);
  if (same) return;
  watched_.clear();
  watches_all_ = true;
  std::set<pid_t> processes;
  for (const Sharer& sharer : slices_.sharers) {
    watched_.push_back(sharer.identity);
    const pid_t process = peers_.pid_of(sharer.identity);
    if (process == 0) watches_all_ = false;
    if (process != 0 && process != ::getpid()) processes.insert(process);
  }
  deaths_.watch(std::move(processes));
}

/// Writes what this process wants into its entry, less what it has been served.
void SlicedSharing::state_demands(TimeSlices& slices, Sharer& own) const {
  Duration served = std::max(own.served - accounted_, Duration());
  const TimePoint last_end =
      own.turns == 0 ? TimePoint() : own.last_turns[(own.turns - 1) % Sharer::kTurnsKept].end;
  // What it is waiting for, or working on, goes on.
  const bool continues = own.demand_count > 0;
  const TimePoint earliest = own.demands[0].earliest;
  own.demand_count = 0;
  for (const Demand& want : wants_) {
    const Duration cost = want.cost - std::min(want.cost, served);
    served -= std::min(want.cost, served);
    if (cost == Duration()) continue;
    if (own.demand_count == Sharer::kMostDemands) {
      Duration& sum = own.demands[Sharer::kMostDemands - 1].cost;
      sum = Duration(saturating_add(sum.count(), cost.count()));
      continue;
    }
    Demand& demand = own.demands[own.demand_count++];
    demand = {.earliest = want.earliest, .after = want.after, .cost = cost, .needs = want.needs};
    if (own.demand_count > 1) continue;
    demand.earliest =
        continues ? std::max(earliest, want.earliest)
                  : std::max({slices.time, want.earliest, saturating_add(last_end, want.after)});
  }
}

/// Reduces what this process wants by what it has been served.
void SlicedSharing::settle_served(const Sharer& own) {
  Duration served = std::max(own.served - accounted_, Duration());
  accounted_ = own.served;
  while (!wants_.empty() && served > Duration()) {
    Demand& first = wants_.front();
    const Duration part = std::min(first.cost, served);
    first.cost -= part;
    served -= part;
    if (first.cost == Duration()) wants_.pop_front();
  }
}

/// Takes out processes that have died: at once those that want the engine, the others later.
/// Returns what they wanted.
std::vector<Sharer> SlicedSharing::remove_dead(TimeSlices& slices) {
  const bool has_death = has_death_;
  if (!has_death && slices.time - slices.looked_for_dead < kLookPeriodOfSlices) return {};
  slices.looked_for_dead = slices.time;
  const bool looks_at_all = has_death || slices.time - looked_at_all_ >= kLongLookPeriod;
  if (looks_at_all) looked_at_all_ = slices.time;
  std::vector<Sharer> dead;
  for (std::size_t i = slices.sharers.size(); i-- > 0;) {
    const Sharer& sharer = slices.sharers[i];
    if (sharer.identity == table_.identity()) continue;
    if (!looks_at_all && sharer.demand_count == 0) continue;
    if (table_.is_alive(sharer.identity)) continue;
    dead.push_back(sharer);
    slices.remove(i);
  }
  return dead;
}

/// Replaces the turns that a state knows. Those that begin at `from` or later were only expected.
void SlicedSharing::merge(const Sharer& own, TimePoint from, std::vector<Turn>& turns) {
  const std::uint64_t kept = std::min<std::uint64_t>(own.turns, Sharer::kTurnsKept);
  if (kept > 0) from = std::min(from, own.turn(own.turns - kept).start);
  while (!turns.empty() && turns.back().start >= from) turns.pop_back();
  if (!turns.empty()) turns.back().end = std::min(turns.back().end, from);
  for (std::uint64_t i = own.turns - kept; i < own.turns; ++i) {
    const Turn& turn = own.turn(i);
    const bool goes_on = !turns.empty() && turns.back().end == turn.start;
    if (goes_on && turns.back().pace == Pace{} && turn.pace == Pace{}) {
      turns.back().end = turn.end;
    } else {
      turns.push_back(turn);
    }
  }
}

/// If this process has not looked for so long that the state has forgotten some of its turns, puts
/// one turn of that length before those that it knows.
void SlicedSharing::add_forgotten(const Sharer& own, std::vector<Turn>& turns) {
  Duration known{};
  const std::uint64_t kept = std::min<std::uint64_t>(own.turns, Sharer::kTurnsKept);
  for (std::uint64_t i = own.turns - kept; i < own.turns; ++i) {
    const Turn& turn = own.turn(i);
    if (turn.end <= seen_until_) continue;
    known += turn.done_by(turn.end) - turn.done_by(std::max(turn.start, seen_until_));
  }
  const Duration forgotten = own.served - seen_served_ - known;
  if (forgotten <= Duration() || kept == 0) return;
  const TimePoint end = own.turn(own.turns - kept).start;
  std::erase_if(turns, [&](const Turn& turn) { return turn.start >= seen_until_; });
  if (!turns.empty()) turns.back().end = std::min(turns.back().end, seen_until_);
  turns.push_back({.start = std::max(seen_until_, end - forgotten), .end = end});
}

void SlicedSharing::expect(TimePoint until, std::vector<Turn>& turns) {
  if (!is_ahead_) {
    ahead_ = slices_;
    is_ahead_ = true;
  }
  const std::size_t own = ahead_.find(table_.identity());
  if (own == TimeSlices::kNobody) return;
  ahead_.advance_past(own, until, rules_);
  merge(ahead_.sharers[own], TimePoint::max(), turns);
}

TimePoint SlicedSharing::next_look() const {
  const std::size_t own = slices_.find(table_.identity());
  if (!is_shared_ || wants_.empty() || own == TimeSlices::kNobody) return TimePoint::max();
  // Before the state forgets turns of this process.
  constexpr std::size_t kTurns = Sharer::kTurnsKept * 3 / 4;
  const auto rounds = static_cast<std::int64_t>(slices_.parties() * kTurns);
  TimePoint latest =
      saturating_add(slices_.time, (slices_.length(rules_) + rules_.context_switch) * rounds);
  // A client has a new turn with each change of its pace. Processes that are less urgent are not in
  // the round.
  const bool differ =
      slices_.has_shares() || std::ranges::any_of(slices_.sharers, [&](const Sharer& sharer) {
        return sharer.priority != slices_.sharers[own].priority;
      });
  if (differ || slices_.sharers[own].server != 0) {
    latest = slices_.time_of_turns(own, kTurns, latest, rules_);
  }
  if (launches_ && launches_->is_side_by_side() && wants_.size() > Sharer::kMostDemands) {
    // Before the last demand begins, which includes others that need something else.
    Duration first{};
    for (std::size_t i = 0; i + 1 < Sharer::kMostDemands; ++i) first += wants_[i].cost;
    latest = std::min(latest, saturating_add(slices_.time, first));
  }
  if (watches_all_ && deaths_.works()) return latest;
  // Somebody must notice within two turns if a process has died.
  TimeSlices ahead = slices_;
  if (ahead.next_turn(own, rules_) == slices_.time) ahead.advance_past(own, slices_.time, rules_);
  return std::min(ahead.next_turn(own, rules_), latest);
}

}  // namespace gpemu::device
