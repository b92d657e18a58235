// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/step/recorded_operation.hpp"

namespace gpemu::step {

/// An operation, and how often a step asks for it in its forward pass and after that.
struct CountedOperation {
  RecordedOperation operation;  ///< without a name; its shape has no slopes.
  int forward = 0, backward = 0;
};

/// A step that others measured on real GPUs and published, and what it asks a GPU for;
/// evidence/published/README.md.
struct PublishedStep {
  std::string model;
  std::string source;     ///< e.g. "timm".
  std::string precision;  ///< "fp32", "fp16", or "amp" for autocast to FP16.
  std::string layout;     ///< "nchw" or "nhwc"; empty for models without images.
  bool training = false;  ///< else inference, or an operation.
  /// An operation that was queued behind others, so that its host takes no part in its time.
  bool is_operation = false;
  int batch = 0;
  int size = 0;  ///< the side of an image in pixels, or the length of a sequence.
  /// From pageable memory to the GPU, before its operations; the host waits for it.
  Bytes copied = 0;
  std::vector<CountedOperation> operations;
  std::vector<std::pair<std::string, double>> seconds;  ///< by GPU.
};

/// Reads all steps of a folder of files *.jsonl. Errors: those of reading; kNotFound if there are
/// no such files; kCorruptData with file, line and field; kIncompatible for another format.
[[nodiscard]] Result<std::vector<PublishedStep>> read_published_steps(
    const std::filesystem::path& folder);

}  // namespace gpemu::step
