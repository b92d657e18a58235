// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <csignal>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"

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
/// Errors: kNotFound when there is no such program, kIo when it cannot be started; kInterrupted if
/// a signal waits already that ends programs.
[[nodiscard]] Result<int> run_program(const std::vector<std::string>& words,
                                      const std::vector<std::string>& environment,
                                      ProgramOutput output = ProgramOutput::kAsItIs,
                                      const std::function<void(pid_t)>& started = {});

/// Runs a tool that changes the system, and waits for it: until it has ended, Ctrl-C does not reach
/// it, so that it is never interrupted in the middle. Its standard output goes to standard error.
/// Returns its exit code as run_program() does.
///
/// Errors: those of run_program(); kUnavailable after `patience`, which ends it.
[[nodiscard]] Result<int> run_tool(const std::vector<std::string>& words,
                                   const std::vector<std::string>& environment, Duration patience);

/// While one exists, the signals that end a program wait, so that what has been made is removed
/// before they end this process. run_program() leaves them to the program while it runs. Thread
/// safety: for the thread that starts all others.
class SignalsWait {
 public:
  SignalsWait();
  SignalsWait(const SignalsWait&) = delete;
  SignalsWait& operator=(const SignalsWait&) = delete;
  ~SignalsWait();

 private:
  sigset_t before_{};
};

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

/// What a program printed, and its exit code as run_program() returns it.
struct PrintedRun {
  int code = 0;
  std::string output, errors;
};

/// Runs a program in the background, in a folder, with nothing to read, and returns what it
/// printed. Signals from the terminal do not reach it. `held`, a file descriptor or -1, stays open
/// until the last of its processes has ended, so that a lock on it does, too; everything that it
/// has started ends with it, also if this process is killed. After `stop` it gets SIGTERM, and is
/// ended a second later.
///
/// Thread safety: any thread. Errors: as run_program(); kInterrupted if `stop` ended it; kIo if
/// what it printed cannot be kept.
[[nodiscard]] Result<PrintedRun> run_for_output(const std::vector<std::string>& words,
                                                const std::vector<std::string>& environment,
                                                const std::filesystem::path& folder, int held,
                                                const std::atomic<bool>& stop);

}  // namespace gpemu::run
