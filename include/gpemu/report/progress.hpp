// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace gpemu::report {

/// The activity, and the unit in which it is counted.
struct ProgressKind {
  std::string label;           ///< e.g. "training".
  std::string unit = "steps";  ///< e.g. 3/30 steps.
  int images = 1;              ///< in one unit.
};

/// Returns the progress as one line of at most `columns` columns: a bar that fills the free space,
/// what is done, the speed and the remaining time. There is no bar if less than eight columns are
/// free, or if `bar` is false.
[[nodiscard]] std::string progress_line(const ProgressKind& kind, std::int64_t done,
                                        std::int64_t total, std::chrono::duration<double> elapsed,
                                        int columns, bool bar);

/// Shows a run's progress on standard error: a bar that is redrawn if the terminal can do that,
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
