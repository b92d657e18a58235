// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "gpemu/base/units.hpp"
#include "gpemu/device/moment.hpp"

#include "group_seats.hpp"

namespace gpemu::device {

struct Lane;

/// One party of a group, as its process sees it: its seat, and the rounds that it has queued and
/// whose ends it does not know.
///
/// Thread safety: guarded by the schedule's mutex.
class Party {
 public:
  struct Round {
    Lane* lane = nullptr;
    MarkReference mark{};  ///< of the end.
    Duration cost{};
  };

  Party(Seats seats, std::size_t seat) : seats_(seats), own_(seats[seat]) {}

  void add(const Round& round) { rounds_.push_back(round); }
  /// Returns the rounds whose ends are not known, in order.
  [[nodiscard]] std::deque<Round>& rounds() { return rounds_; }

  /// Returns the first round whose arrival is not published and may be published now, or nullptr if
  /// there is none.
  [[nodiscard]] Round* unpublished();
  /// Publishes when this party is ready for that round. This is its arrival, unless the previous
  /// round ends later.
  void publish(TimePoint ready);

  /// Returns when the first round ends, if all parties have published their arrivals.
  [[nodiscard]] std::optional<TimePoint> end(TimePoint now) const;
  /// Returns a time before which the first round does not end.
  [[nodiscard]] TimePoint earliest_end(TimePoint now) const;
  /// Notes when the first round has ended or will end.
  void pop(TimePoint end);

  /// Returns whether the party of a seat has not arrived at the first round.
  [[nodiscard]] bool lacks(const layout::SeatRecord& seat) const;
  [[nodiscard]] Seats seats() const { return seats_; }

  /// The seat for which the party waits in vain, once that is known.
  const layout::SeatRecord* failed = nullptr;

 private:
  struct Known {
    TimePoint latest{};
    Duration cost{1};
    bool all = true;
  };
  [[nodiscard]] Known known(TimePoint now) const;

  Seats seats_;
  layout::SeatRecord& own_;
  std::deque<Round> rounds_;
  std::uint64_t ended_ = 0;      ///< rounds before those in `rounds_`.
  std::uint64_t published_ = 0;  ///< rounds whose arrivals are published.
  TimePoint last_end_{};         ///< of the round before the first.
};

}  // namespace gpemu::device
