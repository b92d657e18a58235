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

/// How a result came about; every report and every JSON object of a result has it.
struct Provenance {
  std::string date;                  ///< when the command began, in UTC: "2026-11-22T08:30:00Z".
  std::vector<std::string> command;  ///< the command line.
  HostFacts host;
  std::optional<HostLoad> load;  ///< during what was measured; nothing where no real time counts.
};

/// Returns the provenance of what begins now, which `now` says, on this host.
[[nodiscard]] Provenance provenance_at(std::chrono::system_clock::time_point now);

/// Returns words as one line that a shell reads as the same words.
[[nodiscard]] std::string shell_line(const std::vector<std::string>& words);

/// Adds the fields that all results share: `gpemu_version`, `date`, `command` and `host`;
/// docs/reference/results-format.md.
void add_provenance(nlohmann::ordered_json& json, const Provenance& provenance);

/// Returns what a page says: names and values.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> provenance_facts(
    const Provenance& provenance);

/// Returns a sentence that says that the host was too busy to believe what was measured, `doubted`;
/// nothing where it was not.
[[nodiscard]] std::optional<std::string> load_warning(
    const Provenance& provenance, std::string_view doubted = "how long the GPU waits for it");

}  // namespace gpemu::report
