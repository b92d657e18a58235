// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/predict/steps.hpp"
#include "gpemu/profile/gpu_spec.hpp"
#include "gpemu/record/program_work.hpp"

namespace gpemu::run {

/// Which steps of a program are recorded, and on what.
struct ProgramRunOptions {
  std::vector<std::string> words;  ///< the program and its arguments.
  profile::GpuSpec gpu;
  int batch = 0;                        ///< in GPEMU_BATCH, and for "{batch}" in `words`; 0: none.
  int steps = 5;                        ///< after the warm-up.
  Bytes memory = 0;                     ///< of the emulated GPU; 0: more than any GPU has.
  const std::regex* pattern = nullptr;  ///< see predict::StepSearch.
};

/// What a program did until enough of its steps were recorded.
struct ProgramRun {
  profile::GpuSpec gpu;  ///< that it saw.
  int batch = 0;
  record::ProgramWork work;
  predict::FoundSteps found;
  predict::StepRange step;       ///< the typical one.
  Bytes peak_memory = 0;         ///< that the process held, without the context.
  std::optional<int> exit_code;  ///< nothing: it was ended, as enough had been seen.
  int processes = 1;             ///< that used the GPU; the one that asked for the most counts.
  std::vector<std::string> unsupported;  ///< calls, by name.
};

/// Runs a program on an emulated GPU, on the virtual clock, until enough of its steps are recorded
/// or it ends. `stop` ends it.
///
/// Errors: kNotFound, with what the program printed last, when it ends with a fault before it did a
/// step, or has none; kInterrupted after `stop`; those of starting it.
[[nodiscard]] Result<ProgramRun> record_steps(const ProgramRunOptions& options,
                                              const std::atomic<bool>& stop);

}  // namespace gpemu::run
