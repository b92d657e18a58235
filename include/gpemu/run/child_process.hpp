// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/run/environment.hpp"

namespace gpemu::run {

/// Where a program's standard output goes.
enum class ProgramOutput { kAsItIs, kToStandardError };

/// Runs a program in the foreground and waits for it; returns its exit code, or 128 plus the signal
/// that ended it, as shells do. Its environment is this process's own but for `environment`.
///
/// Ctrl-C reaches the program from the terminal, and this process lets it decide; signals from
/// other processes are passed on to it. Should this process be killed, the program and all
/// processes that it has started are killed, too; those that live when the program ends by itself
/// live on.
///
/// `started` is told the process whose descendants are the program and all that it starts.
///
/// Errors: kNotFound when there is no such program, kIo when it cannot be started.
[[nodiscard]] Result<int> run_program(const std::vector<std::string>& words,
                                      const Environment& environment,
                                      ProgramOutput output = ProgramOutput::kAsItIs,
                                      const std::function<void(pid_t)>& started = {});

/// Runs a program until it ends, then returns its exit code as run_program() does; or until
/// `enough`, which is asked now and then and once when it has ended, says so, then ends it and
/// returns nothing. Whatever the program has started ends with it. What it prints goes to the file
/// `output`.
///
/// Errors: those of run_program(), and of `enough`, which end the program too.
[[nodiscard]] Result<std::optional<int>> run_until(const std::vector<std::string>& words,
                                                   const Environment& environment,
                                                   const std::filesystem::path& output,
                                                   const std::function<Result<bool>()>& enough);

}  // namespace gpemu::run
