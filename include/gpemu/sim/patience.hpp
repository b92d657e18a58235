// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <vector>

#include "gpemu/base/units.hpp"
#include "gpemu/sim/clock.hpp"

namespace gpemu::sim {

/// How long others may make a command wait before they count as gone, unless --patience says so.
/// Nodes that train together may have to index a large data set before they come.
inline constexpr Duration kPatience = std::chrono::seconds(60);

/// How often a wait on another party looks at the clock and the flag: what it adds to the time that
/// anybody is given, and to the time that Ctrl-C takes.
inline constexpr Duration kLook = std::chrono::milliseconds(50);

/// Until when another party is awaited: a time, or until somebody asks for the end.
struct Wait {
  Clock& clock;
  TimePoint until;
  const std::atomic<bool>& stop;

  [[nodiscard]] bool is_stopped() const { return stop.load(std::memory_order_relaxed); }
  [[nodiscard]] bool is_over() const { return is_stopped() || clock.now() >= until; }
  /// Returns how long to wait at once: until the end, but not longer than kLook.
  [[nodiscard]] std::chrono::milliseconds step() const;
};

/// Which parties are awaited, and since when. Thread safety: none.
class Awaited {
 public:
  explicit Awaited(Duration patience) : patience_(patience) {}

  /// Notes who is awaited now. Returns who has been for the whole patience, in the same round: a
  /// party that is awaited again in another round has all of its time.
  [[nodiscard]] std::vector<int> overdue(std::uint64_t round, const std::vector<int>& parties,
                                         TimePoint now);

 private:
  Duration patience_;
  std::uint64_t round_ = 0;
  std::map<int, TimePoint> since_;
};

}  // namespace gpemu::sim
