// SPDX-License-Identifier: Apache-2.0
#include "warden.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <mutex>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "descendants.hpp"

namespace gpemu::run {
namespace {

/// This signal ends the program's processes; they cannot block it.
constexpr int kEnd = SIGKILL;

int exit_code_of(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/// A pipe that no program inherits.
struct Pipe {
  FileDescriptor reader, writer;
};

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return fail(ErrorCode::kIo, "pipe: {}", errno_message(errno));
  }
  return Pipe{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

/// Signal handling as it was before a program was started.
struct OldSignals {
  sigset_t mask;
  struct sigaction child;
};

/// The code of the warden's process. It never returns; every path ends in _exit().
class Guard {
 public:
  Guard(const Pipe& life, const Pipe& report, const OldSignals& old, pid_t ward,
        Warden::Leftovers leftovers)
      : life_(life.reader.get()),
        report_(report.writer.get()),
        old_(old),
        ward_(ward),
        leftovers_(leftovers) {}

  [[noreturn]] void run(const std::function<int()>& become) {
    // Only the pipe shows reliably that the command has ended; this wakes a warden that was stopped
    // together with it.
    ::prctl(PR_SET_PDEATHSIG, SIGCONT);
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    ::prctl(PR_SET_NAME, "gpemu-warden");
    const pid_t self = ::getpid();
    program_ = ::fork();
    if (program_ == 0) start(become, self);
    if (program_ < 0) {
      report(errno);
      ::_exit(EXIT_FAILURE);
    }
    sigset_t all;
    ::sigfillset(&all);
    const int signals = ::signalfd(-1, &all, SFD_CLOEXEC);
    // Everything else is closed, because it would stay held while any process has it open: locks of
    // the command, pipes that others read to their end.
    constexpr int kLife = 0, kSignals = 1;
    if (::dup2(life_, kLife) != kLife || ::dup2(signals, kSignals) != kSignals) end();
    ::closefrom(kSignals + 1);
    watch(kLife, kSignals);
  }

 private:
  /// In the program's process.
  [[noreturn]] void start(const std::function<int()>& become, pid_t warden) const {
    ::sigaction(SIGCHLD, &old_.child, nullptr);
    ::sigprocmask(SIG_SETMASK, &old_.mask, nullptr);
    if (::prctl(PR_SET_PDEATHSIG, kEnd) == 0 && ::getppid() == warden) report(become());
    ::_exit(127);
  }

  void report(int error) const {
    [[maybe_unused]] const ssize_t written = ::write(report_, &error, sizeof(error));
  }

  [[noreturn]] void watch(int life, int signals) const {
    std::array<pollfd, 2> events = {{{life, POLLIN, 0}, {signals, POLLIN, 0}}};
    while (true) {
      if (::poll(events.data(), events.size(), -1) < 0) continue;
      if (events[0].revents != 0) end();
      if (events[1].revents == 0) continue;
      signalfd_siginfo info{};
      if (::read(signals, &info, sizeof(info)) != sizeof(info)) continue;
      if (info.ssi_signo == SIGCHLD) {
        reap();
      } else if (info.ssi_code == SI_USER && static_cast<pid_t>(info.ssi_pid) == ward_) {
        ::kill(program_, static_cast<int>(info.ssi_signo));
      }
    }
  }

  void reap() const {
    int status = 0;
    for (pid_t child = 0; (child = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      if (child != program_) continue;
      if (leftovers_ == Warden::Leftovers::kEnd) end_descendants({});
      ::_exit(exit_code_of(status));
    }
  }

  [[noreturn]] void end() const {
    ::kill(program_, kEnd);  // The search below needs /proc.
    end_descendants({});
    ::_exit(128 + kEnd);
  }

  int life_, report_;
  const OldSignals& old_;
  pid_t ward_;
  Warden::Leftovers leftovers_;
  pid_t program_ = 0;
};

}  // namespace

Result<Warden> Warden::start(const std::function<int()>& become, Leftovers leftovers) {
  GPEMU_ASSIGN(Pipe life, make_pipe());
  GPEMU_ASSIGN(Pipe report, make_pipe());
  // One after the other, so that each knows the wardens that were there before it.
  static std::mutex mutex;
  const std::scoped_lock lock(mutex);
  GPEMU_ASSIGN(std::vector<pid_t> inherited, children());
  // If the warden is killed, this process adopts its children.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  OldSignals old{};
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, &old.mask);
  // A process that ignores this signal cannot wait for its children.
  struct sigaction standard{};
  standard.sa_handler = SIG_DFL;
  ::sigaction(SIGCHLD, &standard, &old.child);
  const pid_t self = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) Guard(life, report, old, self, leftovers).run(become);
  const int error = errno;
  ::sigprocmask(SIG_SETMASK, &old.mask, nullptr);
  if (pid < 0) return fail(ErrorCode::kIo, "fork: {}", errno_message(error));
  return Warden(pid, std::move(life.writer), std::move(report.reader), std::move(inherited));
}

int Warden::start_error() {
  int error = 0;
  ssize_t count = 0;
  while ((count = ::read(report_.get(), &error, sizeof(error))) < 0 && errno == EINTR) {
  }
  return count == sizeof(error) ? error : 0;
}

int Warden::ended(int status) {
  code_ = exit_code_of(status);
  if (WIFSIGNALED(status)) end_descendants(inherited_);
  return *code_;
}

int Warden::wait() {
  int status = 0;
  while (!code_ && ::waitpid(pid_, &status, 0) != pid_) {
    if (errno != EINTR) return *(code_ = 128 + kEnd);  // Another warden's end included it.
  }
  return code_ ? *code_ : ended(status);
}

std::optional<int> Warden::poll() {
  int status = 0;
  if (code_) return code_;
  const pid_t found = ::waitpid(pid_, &status, WNOHANG);
  if (found == pid_) return ended(status);
  if (found < 0 && errno == ECHILD) code_ = 128 + kEnd;  // Another warden's end included it.
  return code_;
}

void Warden::end() {
  if (!life_.valid()) return;
  life_ = FileDescriptor();
  static_cast<void>(wait());
}

}  // namespace gpemu::run
