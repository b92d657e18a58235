// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "gpemu/base/error.hpp"

#include "cli/command.hpp"
#include "live/live_schedule.hpp"

namespace gpemu::tools {

/// What a command that schedules a real queue is told about what decides.
struct LiveScheduleOptions {
  std::string policy, placement;
  std::filesystem::path expected;
  std::optional<double> round_s;
  double speed = 1;
};

/// Adds those options.
void add_live_options(Command command, LiveScheduleOptions& options);
/// Returns the notes of such a command: all policies and placements, and its examples.
[[nodiscard]] std::string live_notes(const std::string& examples);

/// Errors: kInvalidArgument without a policy or a placement, and for settings without effect;
/// kNotFound with the names that there are; those of the table of jobs.
[[nodiscard]] Result<LiveScheduleSettings> live_settings_of(const LiveScheduleOptions& options);

}  // namespace gpemu::tools
