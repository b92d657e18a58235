// SPDX-License-Identifier: Apache-2.0
#include "gpemu/run/child_process.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <system_error>
#include <thread>
#include <unistd.h>

#include "gpemu/base/file.hpp"

#include "warden.hpp"

namespace gpemu::run {
namespace {

/// Signals that people and schedulers send to programs.
constexpr std::array kPassedOn = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

/// How often a program is checked; far less than the second that its start takes.
constexpr std::chrono::milliseconds kPollInterval{20};

volatile pid_t warden_to_tell = 0;

extern "C" void gpemu_pass_on(int signal, siginfo_t* info, void* /*context*/) {
  // The terminal has sent Ctrl-C to the program as well.
  const bool from_terminal = info->si_code == SI_KERNEL;
  if (warden_to_tell > 0 && !from_terminal) ::kill(warden_to_tell, signal);
}

/// Leaves signals to the program while it runs, then restores the previous handlers.
class SignalsToChild {
 public:
  /// Signals that arrive are kept until tell().
  SignalsToChild() {
    sigset_t passed_on;
    ::sigemptyset(&passed_on);
    for (const int signal : kPassedOn) ::sigaddset(&passed_on, signal);
    ::sigprocmask(SIG_BLOCK, &passed_on, &old_mask_);
    for (std::size_t i = 0; i < kPassedOn.size(); ++i) {
      struct sigaction pass{};
      pass.sa_sigaction = gpemu_pass_on;
      pass.sa_flags = SA_SIGINFO | SA_RESTART;
      ::sigaction(kPassedOn[i], nullptr, &old_[i]);
      // As with nohup, an ignored signal stays ignored, for the program too.
      if (old_[i].sa_handler != SIG_IGN) ::sigaction(kPassedOn[i], &pass, nullptr);
    }
  }
  SignalsToChild(const SignalsToChild&) = delete;
  SignalsToChild& operator=(const SignalsToChild&) = delete;
  ~SignalsToChild() {
    warden_to_tell = 0;
    restore();
  }

  void tell(pid_t warden) const {
    warden_to_tell = warden;
    ::sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
  }

  void restore() const {
    for (std::size_t i = 0; i < kPassedOn.size(); ++i) {
      ::sigaction(kPassedOn[i], &old_[i], nullptr);
    }
    ::sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
  }

 private:
  sigset_t old_mask_{};
  std::array<struct sigaction, kPassedOn.size()> old_{};
};

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

/// A program to start: the arguments of exec, made before the fork.
class Command {
 public:
  /// Both outlive the command.
  Command(const std::vector<std::string>& words, const std::vector<std::string>& environment)
      : words_(words),
        word_pointers_(pointers(words)),
        environment_pointers_(pointers(environment)) {
    GPEMU_CHECK(!words.empty(), "a program needs a name");
  }
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  /// Starts the program, after calling `prepare` in the child.
  ///
  /// Errors: as run_program().
  [[nodiscard]] Result<Warden> start(Warden::Leftovers leftovers,
                                     const std::function<void()>& prepare) const {
    GPEMU_ASSIGN(Warden warden, Warden::start(
                                    [&] {
                                      prepare();
                                      // The program is looked for in its own PATH.
                                      ::environ = const_cast<char**>(environment_pointers_.data());
                                      ::execvp(word_pointers_[0], word_pointers_.data());
                                      return errno;
                                    },
                                    leftovers));
    const int error = warden.start_error();
    if (error == 0) return warden;
    return fail(error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo, "cannot start '{}': {}",
                words_[0], errno_message(error));
  }

 private:
  const std::vector<std::string>& words_;
  std::vector<char*> word_pointers_, environment_pointers_;
};

}  // namespace

Result<int> run_program(const std::vector<std::string>& words,
                        const std::vector<std::string>& environment, ProgramOutput output,
                        const std::function<void(pid_t)>& started) {
  const Command command(words, environment);
  const SignalsToChild signals;
  GPEMU_ASSIGN(Warden warden, command.start(Warden::Leftovers::kLiveOn, [&signals, output] {
    if (output == ProgramOutput::kToStandardError) ::dup2(STDERR_FILENO, STDOUT_FILENO);
    signals.restore();
  }));
  signals.tell(warden.pid());
  if (started) started(warden.pid());
  return warden.wait();
}

Result<std::optional<int>> run_until(const std::vector<std::string>& words,
                                     const std::vector<std::string>& environment,
                                     const std::filesystem::path& output,
                                     const std::function<Result<bool>()>& enough) {
  const FileDescriptor file(
      ::open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600));
  if (!file.valid()) return fail(ErrorCode::kIo, "{}: {}", output.string(), errno_message(errno));
  const Command command(words, environment);
  GPEMU_ASSIGN(Warden warden, command.start(Warden::Leftovers::kEnd, [&file] {
    ::dup2(file.get(), STDOUT_FILENO);
    ::dup2(file.get(), STDERR_FILENO);
  }));
  while (true) {
    std::this_thread::sleep_for(kPollInterval);
    const std::optional<int> code = warden.poll();
    GPEMU_ASSIGN(const bool done, enough());
    if (done || code) return code;
  }
}

}  // namespace gpemu::run
