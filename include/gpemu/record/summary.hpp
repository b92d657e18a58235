// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "gpemu/record/process_records.hpp"

namespace gpemu::record {

/// Adds up the records of a run's processes: time by operation class and by evidence, what each
/// device did, unsupported calls. docs/reference/results-format.md has the fields.
[[nodiscard]] nlohmann::ordered_json summarise(const std::vector<RecordedProcess>& processes,
                                               const std::vector<LoadedLibrary>& loaded = {});

/// Returns one sentence that says what limits the program.
[[nodiscard]] std::string program_verdict(const nlohmann::ordered_json& summary);

}  // namespace gpemu::record
