// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "gpemu/base/units.hpp"
#include "gpemu/device/interval.hpp"
#include "gpemu/device/moment.hpp"

#include "group_seats.hpp"
#include "lane.hpp"

namespace gpemu::device {

/// One party of a group, as its process sees it: its seat, and those of its queued rounds whose
/// ends it does not know.
///
/// An arrival is at a given time, or a given duration after the end of an earlier round, whichever
/// is later. Unless it is published as final, it is a promise, which its party may take back until
/// that time has passed.
///
/// Thread safety: guarded by the schedule's mutex.
class Party {
 public:
  static constexpr std::uint64_t kNoRound = std::numeric_limits<std::uint64_t>::max();

  struct Round {
    Lane* lane = nullptr;
    MarkReference mark{};  ///< of the end.
    Duration cost{};
    RoundWork work{};
    Ready ready{};                                      ///< when the stream reaches the round.
    std::function<void(const RoundTimes&)> observer{};  ///< called once the times are known.
    MarkReference outside{};  ///< what the lane waits for before the round, see OpenEnd; or null.
  };
  /// When a party reaches a round, unless the previous round ends later.
  struct Arrival {
    TimePoint time{};
    Duration after{};               ///< counted from the end of an earlier round.
    std::uint32_t rounds_back = 0;  ///< how many rounds earlier; 0: there is none.
    bool is_final = true;
  };

  Party(Seats seats, std::size_t seat) : seats_(seats), shown_(seats[seat]), stuck_(seats.size()) {}

  /// Adds a round after the others, for the caller to fill in.
  Round& add() { return rounds_.emplace_back(); }
  void remove_last() { rounds_.pop_back(); }
  /// Returns the rounds whose ends are not known, in order.
  [[nodiscard]] std::deque<Round>& rounds() { return rounds_; }

  /// Returns the first round whose arrival is not published and may be published now, or nullptr if
  /// there is none.
  [[nodiscard]] Round* unpublished();
  /// Publishes that round's arrival. Requires: there is one.
  void publish(const Arrival& arrival, TimePoint now);
  /// Returns the arrival at a round, not marked as final, if it depends on nothing but time and the
  /// group's earlier rounds.
  [[nodiscard]] std::optional<Arrival> arrival_of(const Round& round) const;

  /// Returns whether an arrival was published before it was final, for a round that has no end.
  [[nodiscard]] bool has_promised() const { return promised_ > ended_; }
  /// Takes back the arrivals that are not final at `now`, and those after them.
  void take_back(TimePoint now);
  /// Returns whether others may have used an arrival that was taken back, because it had become
  /// final by `now`.
  [[nodiscard]] bool took_back_too_late(TimePoint now) const;
  /// Publishes again the arrivals that were taken back.
  void restore();
  /// Writes this party's published arrivals again, in case its seat was damaged.
  void repair();

  /// Returns the times of the first round, if all parties' arrivals are final.
  [[nodiscard]] std::optional<RoundTimes> times(TimePoint now) const;
  /// Returns a time before which the first round does not end. If all parties have published their
  /// arrivals, the round ends at this time, as far as is known.
  struct Expected {
    TimePoint end;
    bool all_come = false;
  };
  [[nodiscard]] Expected expected_end(TimePoint now) const { return expected_end(ended_, now); }
  /// The same for a later round, of which all earlier ones depend on nothing but arrivals.
  [[nodiscard]] Expected expected_end(std::uint64_t round, TimePoint now) const;

  /// Rounds have numbers, from 0. Returns that of the first one in rounds().
  [[nodiscard]] std::uint64_t first() const { return ended_; }
  /// Returns the number of the round with a mark, if it is in rounds().
  [[nodiscard]] std::optional<std::uint64_t> number_of(const Mark* mark) const;
  /// Returns the round at whose end to look in order to publish arrivals early enough, if all
  /// arrivals that may be published now have been; kNoRound if there is nothing to publish.
  [[nodiscard]] std::uint64_t round_to_publish() const;
  /// Shows others for which round this process listens.
  void want(std::uint64_t round) { shown_.wanted = round; }
  /// Returns the number of rounds at which all have arrived, as far as is published.
  [[nodiscard]] std::uint64_t complete_rounds() const;
  /// Removes the first round, and notes when it ended or will end. Requires: there is one.
  void pop(TimePoint end);
  /// Returns how long after `end` the first round's end became known, which is when the last
  /// arrival was published.
  [[nodiscard]] Duration lateness(TimePoint end) const;

  /// Returns whether the party of a seat has not arrived at the first round by `now`.
  [[nodiscard]] bool lacks(const layout::SeatRecord& seat, TimePoint now) const;
  [[nodiscard]] Seats seats() const { return seats_; }

  /// Returns the seat for which the party waits in vain; nullptr as long as none is known.
  [[nodiscard]] const layout::SeatRecord* failed() const { return failed_; }
  void fail(const layout::SeatRecord& seat) { failed_ = &seat; }

 private:
  /// The known facts about a round.
  struct Known {
    TimePoint latest{};  ///< the latest arrival, or the end of the previous round if later.
    Duration cost{1};
    std::size_t last = 0;  ///< the seat of the latest arrival.
    bool all_come = true;
    bool all_final = true;
    bool ends = true;  ///< for this party: the others that have come do what it needs.
  };
  /// The ends of the last rounds, as known or expected.
  using Ends = std::array<TimePoint, layout::kArrivalsKept>;
  struct Entry {
    TimePoint ready;
    Duration cost;
    RoundWork work;
    bool is_final;  ///< published as final, or its time has passed.
  };
  [[nodiscard]] std::optional<Entry> read(std::size_t seat, std::uint64_t round, const Ends& ends,
                                          TimePoint now) const;
  /// An arrival that was published.
  struct Published {
    Arrival arrival{};
    Duration cost{};
    RoundWork work{};
    TimePoint at{};
  };
  void find_stuck();
  void show(std::uint64_t round);
  void show_count();
  [[nodiscard]] TimePoint ready_of(std::uint64_t round) const;
  [[nodiscard]] Known known(std::uint64_t round, const Ends& ends, TimePoint now) const;

  Seats seats_;
  layout::SeatRecord& shown_;  ///< what others see; the originals follow.
  std::array<Published, layout::kArrivalsKept> arrivals_{};
  std::uint64_t changes_ = 0;
  std::deque<Round> rounds_;
  std::uint64_t ended_ = 0;       ///< how many rounds came before those in `rounds_`.
  std::uint64_t published_ = 0;   ///< rounds whose arrivals are published.
  std::uint64_t promised_ = 0;    ///< rounds up to the last one whose arrival was promised.
  std::uint64_t taken_back_ = 0;  ///< the value of `published_` before arrivals were taken back.
  Ends ends_{};
  std::vector<bool> stuck_;  ///< by seat: its party has not got what it needed in an earlier round.
  const layout::SeatRecord* failed_ = nullptr;
};

}  // namespace gpemu::device
