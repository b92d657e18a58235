// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <sys/types.h>
#include <utility>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/base/file.hpp"

namespace gpemu::run {

/// A program that runs under a warden: a process between the program and this process. If this
/// process ends first, in whatever way, including SIGKILL, the warden ends the program and
/// everything that it started.
///
/// The warden adopts all orphans of the program, also those in their own sessions. It notices the
/// end of this process by a pipe that the kernel closes. It belongs to this process's group,
/// ignores signals from the terminal, and passes on signals from this process. If the warden itself
/// is killed, the kernel ends the program, and wait() or poll() end the rest. Processes of other
/// users, for example after sudo, can escape, because the warden may not kill them.
///
/// Several can exist, each used by one thread. If one of them is killed, programs that were started
/// after it end, too.
class Warden {
 public:
  /// What happens to the program's processes that still run when it ends.
  enum class Leftovers { kLiveOn, kEnd };

  /// Starts the program by calling `become` in a new process with this one's signal handling. It
  /// returns an errno value if the program cannot be started.
  ///
  /// Errors: kIo if a process cannot be created.
  [[nodiscard]] static Result<Warden> start(const std::function<int()>& become,
                                            Leftovers leftovers);
  Warden(Warden&&) noexcept = default;
  Warden& operator=(Warden&&) = delete;
  Warden(const Warden&) = delete;
  Warden& operator=(const Warden&) = delete;
  /// Ends the program and its processes, except those left running after the program's own end.
  ~Warden() { end(); }

  /// Returns the process to which signals for the program are sent.
  [[nodiscard]] pid_t pid() const { return pid_; }

  /// Returns the result of `become`, once; 0 if the program was started.
  [[nodiscard]] int start_error();

  /// Waits for the program; returns its exit code, or 128 plus the signal that ended it.
  [[nodiscard]] int wait();

  /// Like wait() if the program has ended, else returns nothing.
  [[nodiscard]] std::optional<int> poll();

  /// Ends the program and everything that it has started.
  void end();

 private:
  Warden(pid_t pid, FileDescriptor life, FileDescriptor report, std::vector<pid_t> inherited)
      : pid_(pid),
        life_(std::move(life)),
        report_(std::move(report)),
        inherited_(std::move(inherited)) {}
  int ended(int status);

  pid_t pid_;
  /// A pipe's end, closed when this process ends. No other process has it for longer than its
  /// start.
  FileDescriptor life_;
  FileDescriptor report_;         ///< carries the result of `become`.
  std::vector<pid_t> inherited_;  ///< earlier children, of a shell that became this process.
  std::optional<int> code_;
};

}  // namespace gpemu::run
