// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "record/run_records.hpp"

namespace gpemu::tools {

/// Adds up what the processes of a run recorded: time by operation class and by evidence, what each
/// device did, calls that were not supported. docs/reference/results-format.md has the fields.
[[nodiscard]] nlohmann::ordered_json summarise(const std::vector<RecordedProcess>& processes,
                                               const std::vector<LoadedLibrary>& loaded = {});

/// Returns what limits the program, in a sentence.
[[nodiscard]] std::string program_verdict(const nlohmann::ordered_json& summary);

/// Returns the summary as one screen of text, which begins with the verdict.
[[nodiscard]] std::string summary_text(const nlohmann::ordered_json& summary);

/// Returns a device's line about the time in which it was idle, without its label.
[[nodiscard]] std::string idle_text(const nlohmann::ordered_json& device);

/// Returns the shares of emulated time by evidence as text.
[[nodiscard]] std::string evidence_text(const nlohmann::ordered_json& evidence);

/// Returns a time with four significant digits in seconds, or in milliseconds or microseconds where
/// it is short; with its unit.
[[nodiscard]] std::string time_text(std::int64_t time_ns);

}  // namespace gpemu::tools
