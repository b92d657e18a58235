// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/predict/name_pattern.hpp"
#include "gpemu/predict/steps.hpp"
#include "gpemu/record/process_records.hpp"
#include "gpemu/record/program_work.hpp"

/// The decisions of record_steps(), which acts on them. All are pure functions.
namespace gpemu::run {

/// Returns the words of a program with the batch in place of each "{batch}"; 0: as they are.
[[nodiscard]] std::vector<std::string> with_batch(std::vector<std::string> words, int batch);

/// Returns whether a program that runs has recorded `wanted` steps, or is given up because the last
/// 1,000,000 of its `events` brought no further step: a step of large networks has some ten
/// thousand.
[[nodiscard]] bool recorded_enough(const Result<predict::FoundSteps>& found, std::size_t events,
                                   std::size_t wanted);

/// How a run ended.
struct RunEnd {
  std::optional<int> exit_code;  ///< nothing: it was ended after enough steps.
  std::string_view output;       ///< the end of it.
  std::string not_computed;      ///< of not_computed_text().
};

/// Returns what programs read that was not computed, and most of which kernel, for a reader; empty
/// if they read nothing like that.
[[nodiscard]] std::string not_computed_text(std::span<const record::RecordedProcess> processes);

/// Returns the steps of a finished run, at most `wanted`. `work` is that of its main process, null
/// if none used the GPU; `pattern` is as in predict::StepSearch.
///
/// Errors: kNotFound, with the last lines of the output if the program failed or did not use the
/// GPU, and what it read that was not computed, which may be why it failed.
[[nodiscard]] Result<predict::FoundSteps> steps_of_run(const record::ProgramWork* work,
                                                       const predict::NamePattern* pattern,
                                                       std::size_t wanted, const RunEnd& end);

/// Returns the last 15 lines of a program's output, each after a line break and a bar.
[[nodiscard]] std::string last_lines(std::string_view output);

}  // namespace gpemu::run
