// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "gpemu/base/saturate.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/device/node_state.hpp"

namespace gpemu::device {

/// A time in which something happens.
struct Interval {
  TimePoint start;
  TimePoint end;
};

/// Work that a stream has queued, as far as is known at that time.
///
/// Work that is queued later, here or by another process, may still move it. So this has no time at
/// which it runs, only one at which it is expected to. When it really ends is a Moment, as of
/// Stream::last_end() or an Event; when it has run is what Device::observe() tells.
struct QueuedWork {
  /// When the work runs if nothing else is queued, by no process.
  Interval expected;
  /// The engine time that the work takes. It is less than the length of `expected` if other
  /// processes' work runs in between. The sum over all work of an engine never exceeds the range
  /// of Duration.
  Duration busy{};
  /// When the host queued the work.
  TimePoint asked{};
  /// For how long the device had had no work of this process at that time.
  Duration idle{};
  /// The work's number in its process; 0 if the times above are final.
  std::uint64_t number = 0;
};

namespace detail {
__extension__ typedef __int128 Wide;  // NOLINT(modernize-use-using): a product of two numbers.
}  // namespace detail

/// How fast an engine does the work of one process: in `time`, as much as it would do in `work` for
/// that process alone. Never faster.
struct Pace {
  std::uint32_t work = 1;
  std::uint32_t time = 1;
  bool operator==(const Pace&) const = default;
};

/// A time in which an engine works for this process.
struct Turn {
  TimePoint start;
  TimePoint end;
  Pace pace{};

  /// Returns how much of the process's work is done between the start and a time, in whole
  /// nanoseconds. Requires: the time is not before the start.
  [[nodiscard]] Duration done_by(TimePoint at) const {
    if (pace.work == pace.time) return at - start;
    return Duration(
        static_cast<std::int64_t>(detail::Wide{(at - start).count()} * pace.work / pace.time));
  }
  /// Returns when so much work is done, if the turn lasts so long; the last TimePoint if that is
  /// out of range.
  [[nodiscard]] TimePoint when_done(Duration work) const {
    if (pace.work == pace.time) return saturating_add(start, work);
    const detail::Wide time = (detail::Wide{work.count()} * pace.time + pace.work - 1) / pace.work;
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    return saturating_add(start, Duration(time > kMost ? kMost : static_cast<std::int64_t>(time)));
  }
};

/// Work whose times have become final.
struct StartedWork {
  Engine engine = Engine::kCompute;
  TimePoint start{};
  TimePoint end{};
  /// QueuedWork::number, if these times may differ from those that queueing the work returned; else
  /// 0.
  std::uint64_t moved = 0;
  /// When the engine worked on it, if it worked for other processes in between; else empty.
  std::span<const Turn> turns{};
};

/// When a round of a rendezvous took place, as one party sees it.
struct RoundTimes {
  TimePoint arrived{};  ///< its stream had reached the round, and the previous round had ended.
  TimePoint start{};    ///< all parties had arrived.
  TimePoint end{};
  std::size_t last = 0;  ///< the seat of the party that arrived last, if others waited for it.
};

/// What a party does in a round, as far as the others notice. If all give the same, the round ends
/// for all. If not, it ends for those that get what they need; the others stay in it for ever.
struct RoundWork {
  std::uint64_t pattern = 0;  ///< a round ends for nobody if two parties' differ.
  std::uint64_t width = 0;    ///< a party needs that all others' are at least as large.
  std::uint64_t gives = 0;    ///< what others get from it,
  std::uint64_t needs = 0;    ///< and what it needs to get from each of them.

  /// Returns whether a party gets what it needs from another one.
  [[nodiscard]] bool ends_beside(const RoundWork& other) const {
    return pattern == other.pattern && width <= other.width && needs <= other.gives;
  }
};

}  // namespace gpemu::device
