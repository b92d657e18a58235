// SPDX-License-Identifier: Apache-2.0
#include "live/live_options.hpp"

#include <array>

#include <fmt/format.h>

#include "gpemu/scheduling/job_table.hpp"
#include "gpemu/scheduling/placement.hpp"
#include "gpemu/scheduling/registry.hpp"

namespace gpemu::tools {

void add_live_options(Command command, LiveScheduleOptions& options) {
  command.option("--policy", options.policy, "Which jobs get which GPUs");
  command
      .option("--place", options.placement,
              "In place of a policy: jobs start in the order of arrival where this puts them")
      .excludes("--policy");
  command
      .option("--expect", options.expected,
              "A table of jobs like those that are expected to come, for --place; by default, "
              "those that have come")
      .needs("--place");
  command.option("--round", options.round_s, "The length of rounds, in seconds").positive();
  command.option("--speed", options.speed, "Time runs so many times as fast")
      .positive()
      .show_default();
}

std::string live_notes(const std::string& examples) {
  std::string text = "Policies:\n";
  for (const scheduling::PolicyEntry& policy : scheduling::policies()) {
    text += fmt::format("  {:<18}{}\n", policy.name, policy.meaning);
  }
  text += "\nPlacements:\n";
  for (const scheduling::PlacementEntry& placement : scheduling::placements()) {
    text += fmt::format("  {:<18}{}\n", placement.name, placement.meaning);
  }
  return text + "\nExamples:\n" + examples;
}

Result<LiveScheduleSettings> live_settings_of(const LiveScheduleOptions& options) {
  LiveScheduleSettings settings{.expected = {}, .round_s = options.round_s, .speed = options.speed};
  if (options.policy.empty() == options.placement.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "who decides? Give --policy NAME, or --place NAME; --help lists both");
  }
  if (!options.policy.empty()) {
    GPEMU_ASSIGN(settings.policy, scheduling::find_policy(options.policy));
    if (auto has_effect =
            scheduling::check_settings(std::array{settings.policy}, {.round_s = options.round_s});
        !has_effect) {
      return fail(has_effect.error().code, "--round: {}", has_effect.error().message);
    }
    return settings;
  }
  GPEMU_ASSIGN(settings.placement, scheduling::find_placement(options.placement));
  if (options.expected.empty()) return settings;
  GPEMU_ASSIGN(settings.expected, scheduling::read_jobs(options.expected, {.timeless = true}));
  return settings;
}

}  // namespace gpemu::tools
