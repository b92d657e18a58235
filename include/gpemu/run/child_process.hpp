// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "gpemu/base/error.hpp"

namespace gpemu::run {

/// Where a program's standard output goes.
enum class ProgramOutput { kAsItIs, kToStandardError };

/// Runs a program in the foreground and waits for it; returns its exit code, or 128 plus the signal
/// that ended it, as shells do. Its environment is `environment`, entries "NAME=value".
/// The program is searched for in this process's PATH.
///
/// Ctrl-C reaches the program from the terminal, and the program decides what to do. Signals from
/// other processes are passed on to it. If this process is killed, the program and all processes
/// that it has started are killed too. If the program ends by itself, processes that it has left
/// live on.
///
/// `started` is called with the process whose descendants are the program and everything that it
/// starts.
///
/// Errors: kNotFound when there is no such program, kIo when it cannot be started.
[[nodiscard]] Result<int> run_program(const std::vector<std::string>& words,
                                      const std::vector<std::string>& environment,
                                      ProgramOutput output = ProgramOutput::kAsItIs,
                                      const std::function<void(pid_t)>& started = {});

/// Runs a program until it ends or until `enough` returns true. If the program ends, returns its
/// exit code as run_program() does; otherwise ends the program and returns nothing. `enough` is
/// called from time to time, and once after the program has ended. Everything that the program has
/// started ends with it. The program's output goes to the file `output`.
///
/// Errors: those of run_program(), and of `enough`, which end the program too.
[[nodiscard]] Result<std::optional<int>> run_until(const std::vector<std::string>& words,
                                                   const std::vector<std::string>& environment,
                                                   const std::filesystem::path& output,
                                                   const std::function<Result<bool>()>& enough);

}  // namespace gpemu::run
