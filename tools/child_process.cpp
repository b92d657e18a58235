// SPDX-License-Identifier: Apache-2.0
#include "child_process.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "gpemu/base/file.hpp"

namespace gpemu::tools {
namespace {

/// Signals by which people and schedulers tell a program something.
constexpr std::array kPassedOn = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

volatile pid_t child_to_tell = 0;

extern "C" void gpemu_pass_on(int signal, siginfo_t* info, void* /*context*/) {
  // The terminal has sent Ctrl-C to the program as well.
  const bool from_terminal = info->si_code == SI_KERNEL;
  if (child_to_tell > 0 && !from_terminal) ::kill(child_to_tell, signal);
}

/// Lets the program decide about signals while it lives, and restores what was before.
class SignalsToChild {
 public:
  SignalsToChild() {
    for (std::size_t i = 0; i < kPassedOn.size(); ++i) {
      struct sigaction pass{};
      pass.sa_sigaction = gpemu_pass_on;
      pass.sa_flags = SA_SIGINFO | SA_RESTART;
      ::sigaction(kPassedOn[i], nullptr, &old_[i]);
      // nohup and the like: what is ignored stays so, for the program too.
      if (old_[i].sa_handler != SIG_IGN) ::sigaction(kPassedOn[i], &pass, nullptr);
    }
  }
  SignalsToChild(const SignalsToChild&) = delete;
  SignalsToChild& operator=(const SignalsToChild&) = delete;
  ~SignalsToChild() { restore(); }

  void restore() const {
    for (std::size_t i = 0; i < kPassedOn.size(); ++i) {
      ::sigaction(kPassedOn[i], &old_[i], nullptr);
    }
  }

 private:
  std::array<struct sigaction, kPassedOn.size()> old_{};
};

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

std::vector<std::string> merged_environment(
    const std::vector<std::pair<std::string, std::string>>& additions) {
  std::vector<std::string> merged;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const bool replaced = std::ranges::any_of(additions, [&text](const auto& addition) {
      return text.starts_with(addition.first) && text[addition.first.size()] == '=';
    });
    if (!replaced) merged.push_back(text);
  }
  for (const auto& [name, value] : additions) merged.push_back(fmt::format("{}={}", name, value));
  return merged;
}

/// In the child: becomes the program, or tells the parent why not.
[[noreturn]] void become(const std::vector<char*>& words, const std::vector<char*>& environment,
                         int report) {
  ::execvpe(words[0], words.data(), environment.data());
  const int error = errno;
  [[maybe_unused]] const ssize_t written = ::write(report, &error, sizeof(error));
  ::_exit(127);
}

Result<int> wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return fail(ErrorCode::kIo, "waitpid: {}", errno_message(errno));
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

Result<int> run_program(const std::vector<std::string>& words,
                        const std::vector<std::pair<std::string, std::string>>& environment) {
  GPEMU_CHECK(!words.empty(), "a program needs a name");
  const std::vector<std::string> merged = merged_environment(environment);
  const std::vector<char*> word_pointers = pointers(words);
  const std::vector<char*> environment_pointers = pointers(merged);
  int pipe_ends[2];
  if (::pipe2(pipe_ends, O_CLOEXEC) != 0) {
    return fail(ErrorCode::kIo, "pipe: {}", errno_message(errno));
  }
  const FileDescriptor reader(pipe_ends[0]);
  FileDescriptor writer(pipe_ends[1]);

  const pid_t self = ::getpid();
  const SignalsToChild signals;
  const pid_t child = ::fork();
  if (child < 0) return fail(ErrorCode::kIo, "fork: {}", errno_message(errno));
  if (child == 0) {
    signals.restore();
    // Whatever ends the command ends the program, so that nothing is left over.
    if (::prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || ::getppid() != self) ::_exit(127);
    become(word_pointers, environment_pointers, writer.get());
  }
  child_to_tell = child;
  writer = FileDescriptor();
  int error = 0;
  const bool started = ::read(reader.get(), &error, sizeof(error)) != sizeof(error);
  GPEMU_ASSIGN(const int code, wait_for(child));
  child_to_tell = 0;
  if (!started) {
    return fail(error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo, "cannot start '{}': {}",
                words[0], errno_message(error));
  }
  return code;
}

}  // namespace gpemu::tools
