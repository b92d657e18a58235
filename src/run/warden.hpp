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

/// A program that runs under a warden: a process between it and this one which ends the program,
/// and all that it has started, when this process ends before it in whatever way, SIGKILL included.
///
/// The warden becomes the parent of all processes that the program's leave behind, also of those in
/// sessions of their own. It notices the end of this process by a pipe that the kernel closes. It
/// belongs to this process's group, ignores what the terminal sends, and passes on what this
/// process sends it. When the warden itself is killed, the kernel ends the program, and wait() or
/// poll() end the rest. Processes of other users, as sudo makes them, can escape: they may not be
/// killed.
///
/// Thread safety: none. One lives at a time.
class Warden {
 public:
  /// What becomes of processes that the program started and that live when it ends.
  enum class Leftovers { kLiveOn, kEnd };

  /// Starts the program by `become`, which is called in a new process with this one's handling of
  /// signals, and returns an errno value when the program cannot be started.
  ///
  /// Errors: kIo when a process cannot be made.
  [[nodiscard]] static Result<Warden> start(const std::function<int()>& become,
                                            Leftovers leftovers);
  Warden(Warden&&) noexcept = default;
  Warden& operator=(Warden&&) = delete;
  Warden(const Warden&) = delete;
  Warden& operator=(const Warden&) = delete;
  /// Nothing of the program is left when this returns, but for what lives on after its own end.
  ~Warden() { end(); }

  /// Returns the process to which signals for the program are sent.
  [[nodiscard]] pid_t pid() const { return pid_; }

  /// Returns what `become` returned, once; 0 when the program was started.
  [[nodiscard]] int start_error();

  /// Waits for the program; returns its exit code, or 128 plus the signal that ended it.
  [[nodiscard]] int wait();

  /// As wait() when the program has ended, else nothing.
  [[nodiscard]] std::optional<int> poll();

  /// Ends the program and all that it has started.
  void end();

 private:
  Warden(pid_t pid, FileDescriptor life, FileDescriptor report, std::vector<pid_t> inherited)
      : pid_(pid),
        life_(std::move(life)),
        report_(std::move(report)),
        inherited_(std::move(inherited)) {}
  int ended(int status);

  pid_t pid_;
  FileDescriptor life_;    ///< a pipe's end that nobody else has: closed when this process ends.
  FileDescriptor report_;  ///< what `become` returns comes from here.
  std::vector<pid_t> inherited_;  ///< children from before: of a shell that became this process.
  std::optional<int> code_;
};

}  // namespace gpemu::run
