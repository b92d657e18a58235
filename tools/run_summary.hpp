// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include <nlohmann/json.hpp>

#include "gpemu/base/error.hpp"

namespace gpemu::tools {

/// Adds up what the processes of a run recorded into one summary: time by operation class and by
/// evidence, peak memory, calls that were not supported.
///
/// Errors: kCorruptData for a file that is not what libgpemu.so writes, naming it.
[[nodiscard]] Result<nlohmann::ordered_json> read_summary(const std::filesystem::path& folder);

/// Returns the summary as one screen of text.
[[nodiscard]] std::string summary_text(const nlohmann::ordered_json& summary);

/// Returns the recorded work as a trace in the Trace Event Format, which Perfetto opens: kernels
/// and copies on their streams.
///
/// Errors: as read_summary.
[[nodiscard]] Result<std::string> read_trace(const std::filesystem::path& folder);

}  // namespace gpemu::tools
