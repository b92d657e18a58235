// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace gpemu::tools {

/// Tells on standard error how far a run is: a bar that is redrawn where that is a terminal, else a
/// line now and then. Thread safety: none.
class Progress {
 public:
  /// `label` says what is going on, e.g. "training".
  Progress(std::string label, std::int64_t total_steps, int batch, bool quiet);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() { clear(); }

  void update(std::int64_t steps);

  /// Removes the bar, before something else is printed.
  void clear();

 private:
  using HostClock = std::chrono::steady_clock;

  std::string label_;
  std::int64_t total_steps_;
  int batch_;
  bool quiet_;
  bool terminal_;
  bool shown_ = false;
  HostClock::time_point start_ = HostClock::now();
  HostClock::time_point last_shown_ = start_;
};

}  // namespace gpemu::tools
