// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "gpemu/report/host_facts.hpp"
#include "gpemu/report/host_load.hpp"

namespace gpemu::report {

/// How a result was made. Every report and every JSON object of a result contains it.
struct Provenance {
  std::string date;                  ///< when the command began, in UTC: "2026-11-22T08:30:00Z".
  std::vector<std::string> command;  ///< the command line.
  HostFacts host;
  std::optional<HostLoad> load;  ///< during the measurement; nothing if no real time counts.
};

/// Returns a time in UTC: "2026-11-22T08:30:00Z".
[[nodiscard]] std::string date_text(std::chrono::system_clock::time_point time);

/// Returns the provenance of a run that starts on this host at the time `now`.
[[nodiscard]] Provenance provenance_at(std::chrono::system_clock::time_point now);

/// Returns words as one line, quoted so that a shell reads the same words.
[[nodiscard]] std::string shell_line(const std::vector<std::string>& words);

/// Adds the fields that all results share: `gpemu_version`, `date`, `command` and `host`;
/// docs/reference/results-format.md.
void add_provenance(nlohmann::ordered_json& json, const Provenance& provenance);

/// Returns the facts for a page: names and values.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> provenance_facts(
    const Provenance& provenance);

/// Returns a warning that the host was too busy for a reliable measure of `doubted`; nothing if it
/// was not.
[[nodiscard]] std::optional<std::string> load_warning(
    const Provenance& provenance, std::string_view doubted = "how long the GPU waits for it");

}  // namespace gpemu::report
