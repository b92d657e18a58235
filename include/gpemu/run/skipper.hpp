// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <sys/types.h>
#include <thread>

#include "gpemu/base/units.hpp"
#include "gpemu/sim/clock_page.hpp"

namespace gpemu::run {

/// Skips time of a node while all processes of a run wait: docs/design/shared-clock.md.
///
/// A thread of the command that looks at the run's processes from outside. None of them ever waits
/// for it, except that limits of waits come late while it is stopped. Owned by whoever runs the
/// program. Thread safety: none.
class Skipper {
 public:
  struct Options {
    pid_t root = 0;             ///< whose descendants are the run's processes; it itself is none.
    std::filesystem::path segment;  ///< the file that the page lies in.
    /// Returns whether all processes that take part in the node are among these.
    std::function<bool(const std::set<pid_t>&)> has_all;
  };

  /// What was skipped, and what it took.
  struct Report {
    Duration skipped{};
    std::uint64_t skips = 0;
    std::uint64_t checks = 0;      ///< how often it was looked whether all wait.
    /// Who kept time from being skipped without running, if that was found more often than
    /// all was skipped: "python (4711) waits for something outside of the run".
    std::string in_the_way;
  };

  /// Skips from now on. The page outlives the skipper.
  Skipper(sim::ClockPage& page, Options options);
  Skipper(const Skipper&) = delete;
  Skipper& operator=(const Skipper&) = delete;
  /// From now on the clock runs as the host's.
  ~Skipper();

  /// Ends skipping; returns what was skipped.
  const Report& stop();

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
  std::thread thread_;
  Report report_;
};

}  // namespace gpemu::run
