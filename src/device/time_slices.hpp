// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "gpemu/base/units.hpp"
#include "gpemu/device/interval.hpp"
#include "gpemu/device/node_state.hpp"

#include "demand.hpp"

namespace gpemu::device {

/// A process that shares an engine.
struct Sharer {
  /// A process that wants more than this at once says so in its last demand, without the pauses.
  static constexpr std::size_t kMostDemands = 4;
  /// How many of its last turns are kept. A process looks before they are forgotten, so it misses
  /// none unless it does not get a processor for a fourth of so many rounds.
  static constexpr std::size_t kTurnsKept = 32;

  std::uint64_t identity = 0;
  std::uint64_t server = 0;           ///< of MPS, whose client it is; 0: of none.
  std::uint32_t width = kWholeWidth;  ///< of a client: see MpsClient.
  ProcessPriority priority = ProcessPriority::kNormal;
  bool is_held = false;  ///< its launches are held back: see LaunchPolicy.
  ComputeShare share{};
  std::int64_t period = 0;                    ///< in which it last used some of its share,
  Duration used{};                            ///< and how much, of that period, with its tenant.
  Duration served{};                          ///< how much of its work is done.
  std::uint64_t turns = 0;                    ///< how many turns it has had.
  std::array<Turn, kTurnsKept> last_turns{};  ///< turn i, from 0, is at i % kTurnsKept.
  std::array<Demand, kMostDemands> demands{};
  std::size_t demand_count = 0;

  /// Returns how much of its share of a time's period is left.
  [[nodiscard]] Duration share_left(TimePoint time, const TimeSliceRules& rules) const;
  [[nodiscard]] bool wants_at(TimePoint time, const TimeSliceRules& rules) const {
    return wants_from(time, rules) <= time;
  }
  /// Returns from when on it wants the engine and may have it, as far as is known at a time; the
  /// last TimePoint if it wants nothing.
  [[nodiscard]] TimePoint wants_from(TimePoint now, const TimeSliceRules& rules) const;
  /// Returns how urgent it is at a time: the lowest comes first. Of equal priorities, those come
  /// first that have something left of their shares.
  [[nodiscard]] int rank(TimePoint time, const TimeSliceRules& rules) const {
    return 2 * static_cast<int>(priority) + (share_left(time, rules) > Duration() ? 0 : 1);
  }
  /// Returns how much work it still wants.
  [[nodiscard]] Duration wanted() const;
  /// Returns one of its last turns. Requires: turns > number >= turns - kTurnsKept.
  [[nodiscard]] const Turn& turn(std::uint64_t number) const {
    return last_turns[number % kTurnsKept];
  }

  /// Returns when its first demand is met if the engine works for it from `now` on. Requires: it
  /// has a demand.
  [[nodiscard]] TimePoint end_of_demand(TimePoint now, Pace pace) const;
  /// Works for it, until its first demand is met at most. Requires: it has a demand.
  void work(TimePoint from, TimePoint end, Pace pace);
  /// Notes that it has used some of its share, or that its tenant has.
  void charge(TimePoint from, TimePoint end, const TimeSliceRules& rules);

 private:
  /// Returns its last turn if that goes on at a time, else a new one.
  [[nodiscard]] Turn turn_from(TimePoint from, Pace pace) const;
};

/// Whose turn it is on an engine that processes share by time slices, and how fast it works for
/// each.
///
/// One party at a time has the engine: a process, or all clients of one MPS server. It keeps it for
/// a time slice, or until it has no work left; then the next party in the ring that wants the
/// engine gets it. If no other wants it, the party gets another slice. Before a party gets the
/// engine after another one, the engine is idle for the time of a context switch. What processes
/// want at a time counts from that time on.
///
/// A party is as urgent as the most urgent of its processes that want the engine. A less urgent
/// party gets the engine only while no more urgent one wants it; it keeps it until its slice ends.
///
/// A process may have a share of each of the rules' periods, which are the same for all. As long as
/// something is left of it, the process comes before those of its priority that have none, and its
/// slice is all that is left. While it has the engine, a process that comes to want it, and is as
/// urgent, waits for the end of an ordinary slice; one that has waited for longer, for that of the
/// share. Without anything left, it is like a process without a share, or, if it is capped, waits
/// for the next period. Processes of the same tenant use up one share, in equal slices of it.
///
/// In the turn of a server, the engine works for all its clients that want it, at the paces of
/// set_paces(): for the most urgent ones first, and for the others with the room that is left. What
/// their kernels need of the memory's rate then limits the paces of all of them by
/// limit_paces_by_memory().
///
/// This is a plain value: copies of it tell what will happen if nobody wants anything else.
class TimeSlices {
 public:
  static constexpr std::size_t kNobody = ~std::size_t{0};

  /// Everything before this time is final.
  TimePoint time{};
  /// The ring, of at most layout::kMostSharers; a party has its first process's place.
  std::vector<Sharer> sharers;
  /// The position in the ring of the party that had the engine last.
  std::size_t last = kNobody;
  bool last_is_gone = false;  ///< it has left: the party at `last` came before it.
  TimePoint switch_end{};     ///< until then, the engine switches to it.
  TimePoint slice_end{};      ///< its time slice ends.
  TimePoint looked_for_dead{};
  /// The length of the slices that begin from `time` on; 0: the rules'.
  Duration quantum{};

  /// Runs the engine until a time; does nothing if that has passed.
  void advance(TimePoint until, const TimeSliceRules& rules);

  /// Runs the engine until a process has had a turn that ends after a time, or all that it wants.
  /// The turn may still become longer.
  void advance_past(std::size_t sharer, TimePoint end, const TimeSliceRules& rules);

  /// Returns the position of a process; kNobody if it does not share the engine.
  [[nodiscard]] std::size_t find(std::uint64_t identity) const;
  /// Adds one, with what is left of its tenant's share. Requires: there is a place left.
  Sharer& add(std::uint64_t identity, const ComputeShare& share);
  void remove(std::size_t sharer);
  /// Returns how many parties there are.
  [[nodiscard]] std::size_t parties() const;
  /// Returns whether a process has the engine now, or the engine switches to it.
  [[nodiscard]] bool has_turn(std::size_t sharer, const TimeSliceRules& rules) const {
    return last != kNobody && !last_is_gone && are_one_party(last, sharer) &&
           sharers[sharer].wants_at(time, rules);
  }
  /// Returns whether any process has a share.
  [[nodiscard]] bool has_shares() const;
  /// Returns whether processes go by the time slices: if there is one alone, only with a cap.
  [[nodiscard]] bool is_in_use() const {
    return sharers.size() > 1 || (sharers.size() == 1 && sharers.front().share.capped);
  }

  /// Returns when a process has the engine next, if nobody wants anything else: `time` if it has
  /// it; the last TimePoint if it wants nothing.
  [[nodiscard]] TimePoint next_turn(std::size_t sharer, const TimeSliceRules& rules) const;

  /// Returns when the engine has done all of a process's first demand, if nobody wants anything
  /// else. Requires: it has a demand.
  [[nodiscard]] TimePoint demand_end(std::size_t sharer, const TimeSliceRules& rules) const;

  /// Returns the length of the slices that begin from now on.
  [[nodiscard]] Duration length(const TimeSliceRules& rules) const {
    return quantum > Duration() ? quantum : rules.quantum;
  }
  /// Returns when a process has had so many more turns, not after `latest`, if nobody wants
  /// anything else.
  [[nodiscard]] TimePoint time_of_turns(std::size_t sharer, std::uint64_t turns, TimePoint latest,
                                        const TimeSliceRules& rules) const;

 private:
  /// The most steps of a look into the future. Only damage needs more: hours of work.
  static constexpr int kMostSteps = 1'000'000;

  /// Takes one step, not beyond a time.
  void step(TimePoint until, const TimeSliceRules& rules);
  void serve(TimePoint until, int rank, const TimeSliceRules& rules);
  /// Lets a process work, whose tenant's share it uses.
  void work_for(std::size_t sharer, TimePoint end, Pace pace, const TimeSliceRules& rules);
  [[nodiscard]] TimePoint serve_clients(TimePoint until, const TimeSliceRules& rules);
  [[nodiscard]] TimePoint end_of_turn(int rank, const TimeSliceRules& rules) const;
  void give_to(std::size_t sharer, const TimeSliceRules& rules);
  /// Returns how long a process that gets the engine now may use its share without a break: what is
  /// left of it, or its part of the share if others of its tenant want the engine, too.
  [[nodiscard]] Duration slice_of_share(std::size_t sharer, const TimeSliceRules& rules) const;
  [[nodiscard]] bool are_one_party(std::size_t a, std::size_t b) const {
    return a == b || (sharers[a].server != 0 && sharers[a].server == sharers[b].server);
  }
  /// Returns the first process of a process's party.
  [[nodiscard]] std::size_t first_of_party(std::size_t sharer) const;
  /// Returns the rank of a process's party now; nothing if it does not want the engine.
  [[nodiscard]] std::optional<int> urgency(std::size_t sharer, const TimeSliceRules& rules) const;
  /// Returns the first of the most urgent parties after the last one in the ring, the last one
  /// itself coming last; kNobody if none wants the engine now.
  [[nodiscard]] std::size_t next_in_ring(const TimeSliceRules& rules) const;
  /// Returns from when on any party except the last one wants the engine that is at least so
  /// urgent, and has come to want it after a time.
  [[nodiscard]] TimePoint rival_from(int rank, TimePoint after, const TimeSliceRules& rules) const;
  [[nodiscard]] TimePoint rival_from(int rank, const TimeSliceRules& rules) const {
    return rival_from(rank, TimePoint::min(), rules);
  }
};

/// Sets how fast an engine works for clients of one MPS server that want it at the same time and
/// are equally urgent, given their widths and the width that is left for them. If they fit side by
/// side, at full pace. Else that is divided max-min fairly: no client gets more than its width, and
/// what one does not need goes to the others in equal parts. Returns the width that is left then.
/// Requires: there are as many paces as widths; neither a width nor the room is 0.
std::int64_t set_paces(std::span<const std::uint32_t> widths, std::span<Pace> paces,
                       std::int64_t room = kWholeWidth);

/// Makes clients slower if the memory is not fast enough for all of them at their paces. `needs`:
/// of the memory's rate, at full pace. Its rate is divided max-min fairly, as above.
void limit_paces_by_memory(std::span<const std::uint32_t> needs, std::span<Pace> paces);

}  // namespace gpemu::device
