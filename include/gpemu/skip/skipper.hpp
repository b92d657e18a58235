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

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/sim/clock.hpp"
#include "gpemu/sim/clock_page.hpp"

namespace gpemu::skip {

/// Skips time of a node while all processes of a run wait: docs/design/shared-clock.md.
///
/// It is a thread of the command that inspects the run's processes from outside. None of them ever
/// waits for it, except that timeouts of waits come late while it is stopped. Owned by the caller
/// that runs the program. Thread safety: none.
class Skipper {
 public:
  struct Options {
    pid_t root = 0;  ///< its descendants are the run's processes; it is not one itself.
    std::filesystem::path segment;  ///< the file that contains the page.
    const sim::Clock& host_clock;   ///< outlives the skipper.
    /// Returns whether all processes that take part in the node are in this set.
    std::function<bool(const std::set<pid_t>&)> has_all;
  };

  /// The time that was skipped, and the effort.
  struct Report {
    Duration skipped{};
    std::uint64_t skips = 0;
    std::uint64_t checks = 0;  ///< how often it checked whether all processes wait.
    /// The process that most often prevented skipping without running, if that happened more often
    /// than skips: "python (4711) waits for something outside the run".
    std::string in_the_way;
  };

  /// Starts skipping. The page outlives the skipper. Errors: kResourceLimit if the system starts no
  /// more threads.
  [[nodiscard]] static Result<std::unique_ptr<Skipper>> start(sim::ClockPage& page,
                                                              Options options);
  Skipper(const Skipper&) = delete;
  Skipper& operator=(const Skipper&) = delete;
  /// Ends skipping: the clock then runs like the host's.
  ~Skipper();

  /// Ends skipping and returns the report.
  const Report& stop();

 private:
  class Loop;
  explicit Skipper(std::unique_ptr<Loop> loop);
  std::unique_ptr<Loop> loop_;
  std::thread thread_;
  Report report_;
};

}  // namespace gpemu::skip
