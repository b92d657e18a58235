// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/calibrate/evaluate.hpp"
#include "gpemu/calibrate/joined_recordings.hpp"
#include "gpemu/profile/database.hpp"
#include "gpemu/step/recording.hpp"

namespace gpemu::tools {

/// Reads the recordings (*.json) of a folder, by name. Errors: kNotFound if there are none; those
/// of reading one, which name the file.
[[nodiscard]] Result<std::vector<step::Recording>> read_recordings(const std::string& folder);

/// Reads them and joins them. Errors: also those of calibrate::join().
[[nodiscard]] Result<calibrate::JoinedRecordings> read_joined_recordings(
    const std::string& folder, std::span<const int> batches = calibrate::kBatches);

/// Returns the GPUs on which steps of the models were measured, by name, with the single operations
/// of the folder's files *.jsonl that were. Errors: kNotFound if there are none; those of
/// step::read_published_steps(); kInvalidArgument if such a file has steps.
[[nodiscard]] Result<std::vector<calibrate::CalibratedGpu>> measured_gpus(
    const std::string& folder, const calibrate::JoinedRecordings& recorded,
    const profile::Database& database);

}  // namespace gpemu::tools
