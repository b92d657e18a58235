// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "gpemu/base/units.hpp"
#include "gpemu/report/terminal.hpp"

namespace gpemu::report {

/// The activity, and the unit in which it is counted.
struct ProgressKind {
  std::string label;           ///< e.g. "training".
  std::string unit = "steps";  ///< e.g. 3/30 steps.
  int images = 1;              ///< in one unit; 0: the speed is in units.
};

/// Returns the progress as one line of at most `columns` columns: a bar that fills the free space,
/// what is done, the speed and the remaining time. There is no bar if less than eight columns are
/// free, or if `bar` is false.
[[nodiscard]] std::string progress_line(const ProgressKind& kind, std::int64_t done,
                                        std::int64_t total, std::chrono::duration<double> elapsed,
                                        int columns, bool bar);

/// Shows a run's progress on standard error: a bar that is redrawn if the terminal can do that,
/// else a line every 10 s. Thread safety: none.
class Progress {
 public:
  /// What progress is measured with and shown on.
  struct Host {
    std::function<TimePoint()> now;
    std::function<Terminal()> terminal;
  };

  /// Shows nothing if `quiet`.
  Progress(ProgressKind kind, std::int64_t total, bool quiet, Host host);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() { clear(); }

  void update(std::int64_t done);

  /// Removes the bar, before something else is printed.
  void clear();

 private:
  ProgressKind kind_;
  std::int64_t total_;
  bool quiet_;
  Host host_;
  bool redraws_;
  bool shown_ = false;
  TimePoint start_;
  TimePoint last_shown_;
};

}  // namespace gpemu::report
