// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <regex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/profile/gpu_spec.hpp"
#include "gpemu/run/step_recording.hpp"

namespace gpemu::tools {

/// The program that is recorded.
struct RecordedProgram {
  std::vector<std::string> words;
  int steps = 5;                        ///< behind the warm-up.
  const std::regex* pattern = nullptr;  ///< see predict::StepSearch.
};

/// What choosing GPUs and recording needs of the world.
struct RecordingWorld {
  /// Returns a GPU that can be emulated, by name, and the names of all.
  std::function<Result<profile::GpuSpec>(const std::string& name)> gpu;
  std::function<Result<std::vector<std::string>>()> gpu_names;
  /// Records the program; `label` says to people on what. Errors: as run::record_steps().
  std::function<Result<run::StepRecording>(const run::StepRecordingOptions& options,
                                           const std::string& label)>
      record;
};

/// Records a program once for each batch and compute capability that GPUs have, for programs choose
/// kernels and types by it.
class Recordings {
 public:
  using Recording = std::shared_ptr<const run::StepRecording>;

  Recordings(RecordedProgram program, RecordingWorld world)
      : program_(std::move(program)), world_(std::move(world)) {}

  /// Records what is asked for, the newest architecture first. A batch at which the program runs on
  /// none of the GPUs is recorded on one that most programs run on.
  ///
  /// Errors: the first of a batch without any recording; those that are not the program's.
  [[nodiscard]] Result<void> record(const std::vector<profile::GpuSpec>& gpus,
                                    const std::vector<int>& batches);

  /// Returns the recording at a GPU's capability or, where the program does not run there, at the
  /// nearest, rather a newer one; with the reason. Requires: record() has returned.
  [[nodiscard]] std::pair<Recording, std::string> find(const profile::GpuSpec& gpu,
                                                       int batch) const;

  /// Records once more with the memory that a GPU really has, in which frameworks give back what
  /// their allocators kept and try again. Returns nothing where the program ends with a fault
  /// there, before it did a step.
  [[nodiscard]] Result<Recording> record_within(const profile::GpuSpec& gpu, int batch) const;

  /// Errors: kInvalidArgument when the program does the same at several batches.
  [[nodiscard]] Result<void> check_batches() const;

 private:
  [[nodiscard]] bool any(int batch) const;
  [[nodiscard]] Result<profile::GpuSpec> known_gpu(const profile::GpuSpec& gpu) const;
  [[nodiscard]] Result<void> record_one(const profile::GpuSpec& gpu, int batch, int number);

  RecordedProgram program_;
  RecordingWorld world_;
  std::vector<Recording> recordings_;
  std::map<std::pair<int, int>, std::string> faults_;  ///< by capability and batch.
  Error first_fault_;                                  ///< at the last batch.
};

}  // namespace gpemu::tools
