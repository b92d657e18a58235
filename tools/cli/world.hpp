// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/device/compute_shares.hpp"
#include "gpemu/device/memory_limits.hpp"
#include "gpemu/profile/database.hpp"
#include "gpemu/report/host_load.hpp"
#include "gpemu/report/progress.hpp"
#include "gpemu/report/terminal.hpp"
#include "gpemu/run/child_process.hpp"
#include "gpemu/run/program_run.hpp"
#include "gpemu/sim/clock.hpp"

namespace gpemu::tools {

/// The surroundings of the commands. Only through them do commands read time, the environment, the
/// terminal and the host's load, and start programs under emulation. main() makes them, and they
/// outlive the commands.
struct World {
  std::filesystem::path nodes;        ///< the folder of the nodes.
  profile::Database::Paths profiles;  ///< the databases.
  std::filesystem::path topologies;   ///< the folder of the described machines.
  std::filesystem::path storage;      ///< the folder of the described storage devices.
  std::filesystem::path hosts;        ///< the folder of the described hosts.
  std::filesystem::path experiments;  ///< the folder of the experiments.
  std::filesystem::path pairs;        ///< the table of measured pairs of jobs.
  std::filesystem::path clusters;     ///< the folder of the clusters' descriptions.
  std::filesystem::path temporary;    ///< the folder for temporary files; empty if there is none.
  std::filesystem::path current;      ///< the current folder; empty if it was removed.
  std::filesystem::path executable;   ///< of the command.
  std::function<std::vector<std::string>()> environment;  ///< entries "NAME=value".
  sim::Clock& clock;  ///< on which commands wait and measure time.
  /// Measures the load of nodes; null: the clock of each node, which may skip time.
  sim::Clock* clock_of_nodes = nullptr;
  std::function<std::chrono::system_clock::time_point()> time_of_day;
  std::function<report::Terminal()> terminal;  ///< its size may change.
  std::function<Duration()> thread_cpu_time;   ///< of the calling thread.
  std::function<Duration()> process_cpu_time;  ///< of all threads.
  report::HostLoadMeter::Sampler host_sample;
  std::function<Result<std::filesystem::path>()> shims;  ///< as run::find_shims().
  /// As run::run_program().
  std::function<Result<int>(const std::vector<std::string>& words,
                            const std::vector<std::string>& environment, run::ProgramOutput output,
                            const std::function<void(pid_t)>& started)>
      run_program;
  /// As run::run_tool().
  std::function<Result<int>(const std::vector<std::string>& words,
                            const std::vector<std::string>& environment, Duration patience)>
      run_tool;
  /// As run::run_for_output().
  std::function<Result<run::PrintedRun>(
      const std::vector<std::string>& words, const std::vector<std::string>& environment,
      const std::filesystem::path& folder, int held, const std::atomic<bool>& stop)>
      run_for_output;
  /// As run::record_steps(), with these surroundings.
  std::function<Result<run::ProgramRun>(const run::ProgramRunOptions& options,
                                        const std::atomic<bool>& stop)>
      record_steps;
  int recordings_at_once = 1;  ///< so many calls of record_steps() run at a time, at most.

  /// Returns the value of an environment variable; nothing if it is not set.
  [[nodiscard]] std::optional<std::string> variable(std::string_view name) const;

  /// Returns the limits that the variables set for this process. Errors: as MemoryLimits::read().
  [[nodiscard]] Result<device::MemoryLimits> memory_limits() const;
  /// Returns the shares of compute time that they set. Errors: as ComputeShares::read().
  [[nodiscard]] Result<device::ComputeShares> compute_shares() const;

  /// Returns the PATH of programs under emulation, which find the shims' programs in it.
  [[nodiscard]] std::optional<std::string> search_path() const;

  /// Returns the clock and the terminal for progress. The world must outlive them.
  [[nodiscard]] report::Progress::Host progress_host() const {
    return {.now = [this] { return clock.now(); }, .terminal = terminal};
  }
};

/// Returns the surroundings of this process.
[[nodiscard]] World real_world(sim::Clock& clock);

}  // namespace gpemu::tools
