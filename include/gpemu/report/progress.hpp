// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace gpemu::report {

/// What goes on, and in which units it is counted.
struct ProgressKind {
  std::string label;           ///< e.g. "training".
  std::string unit = "steps";  ///< e.g. 3/30 steps.
  int images = 1;              ///< in one unit.
};

/// Returns how far it is as one line of at most `columns` columns: a bar that takes the room that
/// is left, what is done, how fast it is and how long it still takes. Without room for a bar of
/// eight columns there is none; `bar` false asks for none.
[[nodiscard]] std::string progress_line(const ProgressKind& kind, std::int64_t done,
                                        std::int64_t total, std::chrono::duration<double> elapsed,
                                        int columns, bool bar);

/// Shows on standard error how far a run is: a bar that is redrawn where the terminal can do that,
/// else a line now and then. Thread safety: none.
class Progress {
 public:
  Progress(ProgressKind kind, std::int64_t total, bool quiet);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() { clear(); }

  void update(std::int64_t done);

  /// Removes the bar, before something else is printed.
  void clear();

 private:
  using HostClock = std::chrono::steady_clock;

  ProgressKind kind_;
  std::int64_t total_;
  bool quiet_;
  bool redraws_;
  bool shown_ = false;
  HostClock::time_point start_ = HostClock::now();
  HostClock::time_point last_shown_ = start_;
};

}  // namespace gpemu::report
