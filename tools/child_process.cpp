// SPDX-License-Identifier: Apache-2.0
#include "child_process.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "gpemu/base/file.hpp"

namespace gpemu::tools {
namespace {

volatile pid_t child_to_end = 0;

void pass_on(int signal) {
  if (child_to_end > 0) ::kill(child_to_end, signal);
}

/// Lets the program decide about signals while it lives, and restores what was before.
class SignalsToChild {
 public:
  SignalsToChild() {
    struct sigaction ignore{};
    ignore.sa_handler = SIG_IGN;
    ::sigaction(SIGINT, &ignore, &old_interrupt_);
    ::sigaction(SIGQUIT, &ignore, &old_quit_);
    struct sigaction pass{};
    pass.sa_handler = pass_on;
    ::sigaction(SIGTERM, &pass, &old_terminate_);
  }
  SignalsToChild(const SignalsToChild&) = delete;
  SignalsToChild& operator=(const SignalsToChild&) = delete;
  ~SignalsToChild() { restore(); }

  void restore() const {
    ::sigaction(SIGINT, &old_interrupt_, nullptr);
    ::sigaction(SIGQUIT, &old_quit_, nullptr);
    ::sigaction(SIGTERM, &old_terminate_, nullptr);
  }

 private:
  struct sigaction old_interrupt_{};
  struct sigaction old_quit_{};
  struct sigaction old_terminate_{};
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

  const SignalsToChild signals;
  const pid_t child = ::fork();
  if (child < 0) return fail(ErrorCode::kIo, "fork: {}", errno_message(errno));
  if (child == 0) {
    signals.restore();
    become(word_pointers, environment_pointers, writer.get());
  }
  child_to_end = child;
  writer = FileDescriptor();
  int error = 0;
  const bool started = ::read(reader.get(), &error, sizeof(error)) != sizeof(error);
  GPEMU_ASSIGN(const int code, wait_for(child));
  child_to_end = 0;
  if (!started) {
    return fail(error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo, "cannot start '{}': {}",
                words[0], errno_message(error));
  }
  return code;
}

}  // namespace gpemu::tools
