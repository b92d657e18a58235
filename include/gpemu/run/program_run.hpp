// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/predict/name_pattern.hpp"
#include "gpemu/predict/steps.hpp"
#include "gpemu/profile/gpu_spec.hpp"
#include "gpemu/record/program_work.hpp"

namespace gpemu::run {

/// Which steps of a program to record, and on which GPU.
struct ProgramRunOptions {
  std::vector<std::string> words;  ///< the program and its arguments.
  profile::GpuSpec gpu;
  int batch = 0;     ///< in GPEMU_BATCH, and for "{batch}" in `words`; 0: none.
  int steps = 5;     ///< after the warm-up.
  Bytes memory = 0;  ///< of the emulated GPU; 0: more than any GPU has.
  const predict::NamePattern* pattern = nullptr;  ///< see predict::StepSearch.
  int real_ranks = 0;                             ///< as in Settings.
};

/// The work of a program until enough of its steps were recorded.
struct ProgramRun {
  profile::GpuSpec gpu;  ///< that it saw.
  int batch = 0;
  record::ProgramWork work;
  predict::FoundSteps found;
  predict::StepRange step;               ///< the typical one.
  Bytes peak_memory = 0;                 ///< that the process held, without the context.
  std::optional<int> exit_code;          ///< nothing: the program was ended after enough steps.
  int processes = 1;                     ///< that used the GPU; the one with the most work counts.
  std::vector<std::string> unsupported;  ///< calls, by name.
  std::string not_computed;  ///< what all processes read that was not computed, for a reader.
};

/// What a program finds when it starts.
struct ProgramSurroundings {
  std::filesystem::path temporary;       ///< the folder for temporary files.
  std::filesystem::path current;         ///< the current folder.
  std::vector<std::string> environment;  ///< entries "NAME=value", apart from the settings.
};

/// Runs a program on an emulated GPU, on the virtual clock, until enough of its steps are recorded
/// or it ends. `stop` ends it.
///
/// Errors: kNotFound, with the last output of the program, if it fails before its first step or has
/// no steps; kInterrupted after `stop`; the errors of starting a program.
[[nodiscard]] Result<ProgramRun> record_steps(const ProgramRunOptions& options,
                                              const ProgramSurroundings& surroundings,
                                              const std::atomic<bool>& stop);

}  // namespace gpemu::run
