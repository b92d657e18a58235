// SPDX-License-Identifier: Apache-2.0
#include "cost/recorded_gpus.hpp"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "gpemu/base/file.hpp"

namespace gpemu::tools {

Result<std::vector<cost::Recording>> read_recordings(const std::string& folder) {
  GPEMU_ASSIGN(std::vector<std::filesystem::path> files, list_folder(folder));
  std::erase_if(files, [](const auto& file) { return file.extension() != ".json"; });
  if (files.empty()) return fail(ErrorCode::kNotFound, "{} has no recordings (*.json)", folder);
  std::vector<cost::Recording> recordings;
  for (const std::filesystem::path& file : files) {
    GPEMU_ASSIGN(const std::string text, read_file(file));
    GPEMU_ASSIGN(cost::Recording recording, cost::parse_recording(text, file.string()));
    recordings.push_back(std::move(recording));
  }
  return recordings;
}

Result<calibrate::JoinedRecordings> read_joined_recordings(const std::string& folder,
                                                           std::span<const int> batches) {
  GPEMU_ASSIGN(const std::vector<cost::Recording> recordings, read_recordings(folder));
  return calibrate::join(recordings, batches);
}

Result<std::vector<calibrate::CalibratedGpu>> measured_gpus(
    const calibrate::JoinedRecordings& recorded, const profile::Database& database) {
  GPEMU_ASSIGN(const std::vector<std::string> names, database.gpu_names());
  std::vector<calibrate::CalibratedGpu> gpus;
  for (const std::string& name : names) {
    GPEMU_ASSIGN(std::vector<calibrate::StepTime> steps,
                 calibrate::measured_steps(recorded, database, name));
    if (steps.empty()) continue;
    GPEMU_ASSIGN(profile::GpuSpec spec, database.gpu(name));
    gpus.push_back({std::move(spec), std::move(steps)});
  }
  if (gpus.empty()) {
    return fail(ErrorCode::kNotFound, "none of the recorded models was measured on any GPU");
  }
  return gpus;
}

}  // namespace gpemu::tools
