// SPDX-License-Identifier: Apache-2.0
#include "child_process.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <fmt/format.h>

#include "gpemu/base/file.hpp"

namespace gpemu::tools {
namespace {

/// Signals by which people and schedulers tell a program something.
constexpr std::array kPassedOn = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

/// How often a program is looked at. Far below the second that it takes to start.
constexpr std::chrono::milliseconds kPollInterval{20};

volatile pid_t child_to_tell = 0;

extern "C" void gpemu_pass_on(int signal, siginfo_t* info, void* /*context*/) {
  // The terminal has sent Ctrl-C to the program as well.
  const bool from_terminal = info->si_code == SI_KERNEL;
  if (child_to_tell > 0 && !from_terminal) ::kill(child_to_tell, signal);
}

/// Lets the program decide about signals while it lives, and restores what was before.
class SignalsToChild {
 public:
  /// What arrives is kept until tell().
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
      // nohup and the like: what is ignored stays so, for the program too.
      if (old_[i].sa_handler != SIG_IGN) ::sigaction(kPassedOn[i], &pass, nullptr);
    }
  }
  SignalsToChild(const SignalsToChild&) = delete;
  SignalsToChild& operator=(const SignalsToChild&) = delete;
  ~SignalsToChild() {
    child_to_tell = 0;
    restore();
  }

  void tell(pid_t child) const {
    child_to_tell = child;
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

/// A program to start: what exec wants, made before the fork.
class Command {
 public:
  Command(const std::vector<std::string>& words,
          const std::vector<std::pair<std::string, std::string>>& additions)
      : words_(words),
        environment_(merged_environment(additions)),
        word_pointers_(pointers(words_)),
        environment_pointers_(pointers(environment_)) {
    GPEMU_CHECK(!words.empty(), "a program needs a name");
  }
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  /// Starts the program; `prepare` is called in the child before. Returns the child.
  ///
  /// Errors: as run_program().
  [[nodiscard]] Result<pid_t> start(const std::function<void()>& prepare) const {
    int pipe_ends[2];
    if (::pipe2(pipe_ends, O_CLOEXEC) != 0) {
      return fail(ErrorCode::kIo, "pipe: {}", errno_message(errno));
    }
    const FileDescriptor reader(pipe_ends[0]);
    FileDescriptor writer(pipe_ends[1]);
    const pid_t self = ::getpid();
    const pid_t child = ::fork();
    if (child < 0) return fail(ErrorCode::kIo, "fork: {}", errno_message(errno));
    if (child == 0) {
      prepare();
      // A program that outlives the command, even one that was killed, is asked to end.
      if (::prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || ::getppid() != self) ::_exit(127);
      become(writer.get());
    }
    writer = FileDescriptor();
    int error = 0;
    if (::read(reader.get(), &error, sizeof(error)) != sizeof(error)) return child;
    ::waitpid(child, nullptr, 0);
    return fail(error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo, "cannot start '{}': {}",
                words_[0], errno_message(error));
  }

 private:
  /// In the child: becomes the program, or tells the parent why not.
  [[noreturn]] void become(int report) const {
    ::execvpe(word_pointers_[0], word_pointers_.data(), environment_pointers_.data());
    const int error = errno;
    [[maybe_unused]] const ssize_t written = ::write(report, &error, sizeof(error));
    ::_exit(127);
  }

  const std::vector<std::string>& words_;
  std::vector<std::string> environment_;
  std::vector<char*> word_pointers_, environment_pointers_;
};

int exit_code_of(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

Result<int> wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return fail(ErrorCode::kIo, "waitpid: {}", errno_message(errno));
  }
  return exit_code_of(status);
}

/// Returns the children of this process, those included that it took over from theirs.
std::vector<pid_t> children() {
  std::vector<pid_t> found;
  std::error_code ignored;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", ignored)) {
    std::ifstream file(task.path() / "children");
    for (pid_t child = 0; file >> child;) found.push_back(child);
  }
  return found;
}

/// Ends all processes that descend from this one.
void end_descendants(pid_t first) {
  ::kill(first, SIGKILL);
  do {
    for (const pid_t child : children()) ::kill(child, SIGKILL);
    // Children of what ends become this process's, which takes them over.
  } while (::waitpid(-1, nullptr, 0) > 0 || errno == EINTR);
}

}  // namespace

Result<int> run_program(const std::vector<std::string>& words,
                        const std::vector<std::pair<std::string, std::string>>& environment) {
  const Command command(words, environment);
  const SignalsToChild signals;
  GPEMU_ASSIGN(const pid_t child, command.start([&signals] { signals.restore(); }));
  signals.tell(child);
  GPEMU_ASSIGN(const int code, wait_for(child));
  return code;
}

Result<std::optional<int>> run_until(
    const std::vector<std::string>& words,
    const std::vector<std::pair<std::string, std::string>>& environment,
    const std::filesystem::path& output, const std::function<Result<bool>()>& enough) {
  const FileDescriptor file(
      ::open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600));
  if (!file.valid() || ::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
    return fail(ErrorCode::kIo, "{}: {}", output.string(), errno_message(errno));
  }
  const Command command(words, environment);
  GPEMU_ASSIGN(const pid_t child, command.start([&file] {
    ::dup2(file.get(), STDOUT_FILENO);
    ::dup2(file.get(), STDERR_FILENO);
  }));
  Result<bool> done = false;
  std::optional<int> code;
  while (done && !*done && !code) {
    std::this_thread::sleep_for(kPollInterval);
    int status = 0;
    if (::waitpid(child, &status, WNOHANG) == child) code = exit_code_of(status);
    done = enough();
  }
  if (!code) {
    end_descendants(child);
  } else {
    for (const pid_t left : children()) end_descendants(left);
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
  if (!done) return std::unexpected(std::move(done).error());
  return code;
}

}  // namespace gpemu::tools
