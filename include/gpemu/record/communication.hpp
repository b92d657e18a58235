// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <nlohmann/json.hpp>

#include "gpemu/record/process_records.hpp"

namespace gpemu::record {

/// Returns what a device spent on NCCL's collectives; null if it had none.
[[nodiscard]] nlohmann::ordered_json collectives_of(const process::RecordedDevice& device);

/// Adds up the collectives of a run: by function and number of ranks, the longest first, and for
/// which ranks the others waited, the longest first. docs/reference/results-format.md has the
/// fields.
[[nodiscard]] nlohmann::ordered_json communication_of(
    const std::vector<RecordedProcess>& processes);

}  // namespace gpemu::record
