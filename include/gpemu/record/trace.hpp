// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "gpemu/base/error.hpp"
#include "gpemu/record/process_records.hpp"

namespace gpemu::record {

/// Writes the operations of a run as a trace in the Trace Event Format, which Perfetto opens: each
/// device of a process with its streams, and the NVTX ranges of the program's threads. Ranks of
/// NCCL come first, side by side, with their collectives. `facts` describe how the run was made.
///
/// Errors: those of for_each_entry and of AtomicFile.
[[nodiscard]] Result<void> write_trace(const std::filesystem::path& path,
                                       const std::vector<RecordedProcess>& processes,
                                       const nlohmann::ordered_json& facts);

/// Writes the operations of a run in the format of docs/reference/operations-format.md. `facts` go
/// into the first line, after the name of the format.
///
/// Errors: as write_trace.
[[nodiscard]] Result<void> write_operations(const std::filesystem::path& path,
                                            const std::vector<RecordedProcess>& processes,
                                            const nlohmann::ordered_json& facts);

/// Returns the name of a C++ symbol as written in the source; returns other text unchanged.
[[nodiscard]] std::string demangled(const std::string& name);

}  // namespace gpemu::record
