// SPDX-License-Identifier: Apache-2.0
// A shell cannot do this: it starts programs in the background with Ctrl-C ignored, and one that
// comes before the program has taken that back is lost, so that the program is waited for for ever.
#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <optional>
#include <span>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpemu/base/file.hpp"
#include "gpemu/run/cluster.hpp"
#include "gpemu/run/environment.hpp"

#include "pointers.hpp"

namespace gpemu::run {
namespace {

/// Those that a terminal sends to the whole group, and those that reach this process alone.
constexpr std::array kFromTerminal = {SIGINT, SIGQUIT};
constexpr std::array kToOne = {SIGTERM, SIGHUP};

/// The programs' processes, for the signal handler; 0 where none runs.
std::array<volatile pid_t, kMostHosts> hosts{};

void tell_hosts(int signal) {
  for (const volatile pid_t& host : hosts) {
    if (const pid_t pid = host; pid > 0) ::kill(pid, signal);
  }
}

extern "C" void gpemu_tell_hosts(int signal, siginfo_t* info, void* /*context*/) {
  const bool is_for_all = std::ranges::find(kFromTerminal, signal) != kFromTerminal.end() &&
                          (info->si_code == SI_KERNEL || info->si_pid != ::getppid());
  const int error = errno;
  if (!is_for_all) tell_hosts(signal);
  errno = error;
}

sigset_t handled_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : kFromTerminal) ::sigaddset(&set, signal);
  for (const int signal : kToOne) ::sigaddset(&set, signal);
  return set;
}

/// Returns a signal that waits, if any.
int waiting_signal() {
  sigset_t waiting;
  ::sigpending(&waiting);
  for (const std::span<const int> signals :
       {std::span<const int>(kFromTerminal), std::span<const int>(kToOne)}) {
    for (const int signal : signals) {
      if (::sigismember(&waiting, signal) == 1) return signal;
    }
  }
  return 0;
}

/// In the new process.
[[noreturn]] void become(const std::vector<char*>& words, std::vector<char*>& environment,
                         bool has_input, const sigset_t& mask) {
  if (!has_input) {
    const int nothing = ::open("/dev/null", O_RDONLY);
    if (nothing < 0 || ::dup2(nothing, STDIN_FILENO) < 0) ::_exit(126);
    ::close(nothing);
  }
  for (const std::span<const int> signals :
       {std::span<const int>(kFromTerminal), std::span<const int>(kToOne)}) {
    for (const int signal : signals) {
      struct sigaction action{};
      ::sigaction(signal, nullptr, &action);
      // As with nohup, an ignored signal stays ignored.
      if (action.sa_handler != SIG_IGN) ::signal(signal, SIG_DFL);
    }
  }
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
  ::environ = environment.data();
  ::execvp(words[0], words.data());
  const std::string text = fmt::format("cannot start '{}': {}\n", words[0], errno_message(errno));
  static_cast<void>(!::write(STDERR_FILENO, text.data(), text.size()));
  ::_exit(127);
}

/// Waits for all; returns the first exit code that is not 0.
int wait_for_hosts(std::size_t started) {
  std::vector<int> codes(started, 0);
  for (std::size_t left = started; left > 0;) {
    int status = 0;
    const pid_t ended = ::waitpid(-1, &status, 0);
    if (ended < 0 && errno == EINTR) continue;
    if (ended < 0) break;
    const auto host = std::ranges::find(hosts, ended) - hosts.begin();
    if (host == std::ssize(hosts)) continue;
    hosts[static_cast<std::size_t>(host)] = 0;
    codes[static_cast<std::size_t>(host)] =
        WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    --left;
  }
  const auto failed = std::ranges::find_if(codes, [](int code) { return code != 0; });
  return failed == codes.end() ? 0 : *failed;
}

}  // namespace

Result<int> run_hosts(const std::vector<HostProgram>& programs,
                      const std::vector<std::string>& environment) {
  GPEMU_CHECK(programs.size() <= hosts.size(), "a cluster has so many hosts at most");
  const sigset_t handled = handled_signals();
  sigset_t mask;
  ::sigprocmask(SIG_BLOCK, &handled, &mask);
  for (const std::span<const int> signals :
       {std::span<const int>(kFromTerminal), std::span<const int>(kToOne)}) {
    for (const int signal : signals) {
      struct sigaction old{};
      struct sigaction action{};
      action.sa_sigaction = gpemu_tell_hosts;
      action.sa_flags = SA_SIGINFO | SA_RESTART;
      action.sa_mask = handled;
      ::sigaction(signal, nullptr, &old);
      if (old.sa_handler != SIG_IGN) ::sigaction(signal, &action, nullptr);
    }
  }
  std::size_t started = 0;
  int stopped_by = 0;
  std::optional<Error> error;
  for (; started < programs.size() && stopped_by == 0 && !error; ++started) {
    const std::vector<std::string> entries =
        changed(environment, {.set = programs[started].variables}, {});
    const std::vector<char*> words = pointers(programs[started].words);
    std::vector<char*> variables = pointers(entries);
    const pid_t pid = ::fork();
    if (pid == 0) become(words, variables, started == 0, mask);
    if (pid < 0) {
      error = fail(ErrorCode::kIo, "fork: {}", errno_message(errno)).error();
      break;
    }
    hosts[started] = pid;
    stopped_by = waiting_signal();
    // The last one may have come too late for a signal of the terminal. A signal that it has not
    // seen yet, and the same once more, are one.
    if (stopped_by != 0) ::kill(pid, stopped_by);
  }
  if (error) tell_hosts(SIGTERM);
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
  const int code = wait_for_hosts(started);
  if (error) return std::unexpected(*error);
  return code == 0 && stopped_by != 0 && started < programs.size() ? 128 + stopped_by : code;
}

}  // namespace gpemu::run
