// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/step/recorded_memory.hpp"
#include "gpemu/step/recorded_operation.hpp"

namespace gpemu::step {

/// A part of a training step, e.g. "forward".
struct RecordedPhase {
  std::string name;
  std::vector<int> operations;  ///< indices, in the order in which the program asked for them.
};

/// What a model asks a GPU for, for any batch; docs/reference/recording-format.md.
struct Recording {
  std::string model;
  std::string gpu;           ///< that it was recorded on.
  std::vector<int> batches;  ///< that it was recorded at, ascending.
  std::vector<RecordedOperation> operations;
  std::vector<RecordedPhase> phases;
  /// Of all phases together; nothing if the program's memory is not a function of the batch.
  std::optional<RecordedMemory> memory;
};

/// Recordings at fewer batches do not show whether a number is affine.
inline constexpr int kFewestBatches = 3;

/// Makes recordings, by model, from files that `gpemu run --ops` wrote. Only operations inside NVTX
/// ranges "MODEL batch=BATCH PHASE" count; each such range occurs once, and there are three batches
/// or more.
///
/// Errors: those of reading; kCorruptData with file and line if the format is wrong;
/// kInvalidArgument, with the place, if a recording is not a function of the batch: other
/// operations at another batch, or an entry of a shape that is not affine.
[[nodiscard]] Result<std::vector<Recording>> condense(
    const std::vector<std::filesystem::path>& files);

/// Returns the content of a recording's file, the same for the same recording.
[[nodiscard]] std::string write_recording(const Recording& recording);

/// Reads what write_recording wrote. `source` names it in messages. Errors: kCorruptData with the
/// field; kIncompatible for another version of the format.
[[nodiscard]] Result<Recording> parse_recording(std::string_view text, std::string_view source);

}  // namespace gpemu::step
