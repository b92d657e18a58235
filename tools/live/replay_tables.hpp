// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/scheduling/fleet.hpp"
#include "gpemu/scheduling/job.hpp"
#include "gpemu/scheduling/registry.hpp"

#include "cli/command.hpp"

namespace gpemu::tools {

/// What a command that replays a table of jobs is told about it.
struct ReplayTableOptions {
  std::filesystem::path jobs, speeds, restarts, per_job;
  std::uint64_t first = 0;
  double restart_s = 0;
  std::optional<double> round_s;
  std::string policy;
  double speed = 1;
};

/// Adds those options. `speed`: the help of --speed.
void add_replay_options(Command command, ReplayTableOptions& options, const std::string& speed);

/// Jobs that are to be replayed, and their simulation.
struct ReplayTables {
  std::vector<scheduling::Job> jobs;
  const scheduling::PolicyEntry* policy = nullptr;
  std::vector<scheduling::JobState> simulated;
};

/// Errors: those of the tables, of the policy and of the simulation.
[[nodiscard]] Result<ReplayTables> read_replay_tables(const scheduling::Fleet& fleet,
                                                      const ReplayTableOptions& options);

}  // namespace gpemu::tools
