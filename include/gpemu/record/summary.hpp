// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "gpemu/record/process_records.hpp"

namespace gpemu::record {

/// Adds up what the processes of a run recorded: time by operation class and by evidence, what each
/// device did, calls that were not supported. docs/reference/results-format.md has the fields.
[[nodiscard]] nlohmann::ordered_json summarise(const std::vector<RecordedProcess>& processes,
                                               const std::vector<LoadedLibrary>& loaded = {});

/// Returns what limits the program, in a sentence.
[[nodiscard]] std::string program_verdict(const nlohmann::ordered_json& summary);

}  // namespace gpemu::record
