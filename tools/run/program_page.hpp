// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "gpemu/record/process_records.hpp"
#include "gpemu/report/provenance.hpp"

namespace gpemu::tools {

/// Returns the report of `gpemu run` as a self-contained page: the summary, a breakdown of the
/// devices' time, their load over time, the last operations on their streams, and the longest
/// operations. Uses little memory, however many operations there are.
///
/// Errors: those of for_each_entry.
[[nodiscard]] Result<std::string> program_page(
    const nlohmann::ordered_json& summary, const std::vector<record::RecordedProcess>& processes,
    const report::Provenance& provenance);

}  // namespace gpemu::tools
