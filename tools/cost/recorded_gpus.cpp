// SPDX-License-Identifier: Apache-2.0
#include "cost/recorded_gpus.hpp"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "gpemu/base/file.hpp"
#include "gpemu/step/published_steps.hpp"

namespace gpemu::tools {
namespace {

/// Returns the single operations that were measured, if the folder has any.
Result<std::vector<step::PublishedStep>> read_operations(const std::string& folder) {
  GPEMU_ASSIGN(const std::vector<std::filesystem::path> files, list_folder(folder));
  const auto is_one = [](const auto& file) { return file.extension() == ".jsonl"; };
  if (std::ranges::none_of(files, is_one)) return {};
  GPEMU_ASSIGN(std::vector<step::PublishedStep> operations, step::read_published_steps(folder));
  if (!std::ranges::all_of(operations, &step::PublishedStep::is_operation)) {
    return fail(
        ErrorCode::kInvalidArgument,
        "{}: its files *.jsonl have steps; beside recordings, only single operations are read",
        folder);
  }
  return operations;
}

}  // namespace

Result<std::vector<step::Recording>> read_recordings(const std::string& folder) {
  GPEMU_ASSIGN(std::vector<std::filesystem::path> files, list_folder(folder));
  std::erase_if(files, [](const auto& file) { return file.extension() != ".json"; });
  if (files.empty()) return fail(ErrorCode::kNotFound, "{} has no recordings (*.json)", folder);
  std::vector<step::Recording> recordings;
  for (const std::filesystem::path& file : files) {
    GPEMU_ASSIGN(const std::string text, read_file(file));
    GPEMU_ASSIGN(step::Recording recording, step::parse_recording(text, file.string()));
    recordings.push_back(std::move(recording));
  }
  return recordings;
}

Result<calibrate::JoinedRecordings> read_joined_recordings(const std::string& folder,
                                                           std::span<const int> batches) {
  GPEMU_ASSIGN(const std::vector<step::Recording> recordings, read_recordings(folder));
  return calibrate::join(recordings, batches);
}

Result<std::vector<calibrate::CalibratedGpu>> measured_gpus(
    const std::string& folder, const calibrate::JoinedRecordings& recorded,
    const profile::Database& database) {
  GPEMU_ASSIGN(const std::vector<step::PublishedStep> operations, read_operations(folder));
  GPEMU_ASSIGN(const std::vector<std::string> names, database.gpu_names());
  std::vector<calibrate::CalibratedGpu> gpus;
  for (const std::string& name : names) {
    GPEMU_ASSIGN(std::vector<calibrate::StepTime> steps,
                 calibrate::measured_steps(recorded, database, name));
    if (steps.empty()) continue;
    GPEMU_ASSIGN(profile::GpuSpec spec, database.gpu(name));
    gpus.push_back({std::move(spec), std::move(steps), operations});
  }
  if (gpus.empty()) {
    return fail(ErrorCode::kNotFound, "none of the recorded models was measured on any GPU");
  }
  return gpus;
}

}  // namespace gpemu::tools
