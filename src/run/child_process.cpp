// SPDX-License-Identifier: Apache-2.0
#include "gpemu/run/child_process.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <span>
#include <sys/mman.h>
#include <system_error>
#include <thread>
#include <unistd.h>

#include <fmt/ranges.h>

#include "gpemu/base/file.hpp"

#include "pointers.hpp"
#include "warden.hpp"

namespace gpemu::run {
namespace {

/// Signals that people and schedulers send to programs.
constexpr std::array kPassedOn = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

/// Those that end a program unless it wants otherwise, and that people send. SIGQUIT stays a way
/// out when all else fails.
constexpr std::array kEnding = {SIGINT, SIGTERM, SIGHUP};

sigset_t set_of(std::span<const int> signals) {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : signals) ::sigaddset(&set, signal);
  return set;
}

/// How often a tool is checked, which takes some milliseconds.
constexpr std::chrono::milliseconds kToolInterval{1};

/// How often a program is checked whose output is wanted: after a twentieth of the time that it has
/// run, so that short ones are not kept waiting and long ones not woken for.
constexpr std::chrono::milliseconds kLeastInterval{1};
constexpr std::chrono::milliseconds kMostInterval{50};
constexpr int kIntervalShare = 20;

/// So long a program may take to end after SIGTERM.
constexpr std::chrono::seconds kGrace{1};

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
    const sigset_t passed_on = set_of(kPassedOn);
    ::sigprocmask(SIG_BLOCK, &passed_on, &old_mask_);
    running_mask_ = old_mask_;
    // While the program runs, they are the program's, even if they wait outside.
    for (const int signal : kEnding) ::sigdelset(&running_mask_, signal);
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
    restore(old_mask_);
  }

  /// Returns whether a signal waits that would end the program.
  [[nodiscard]] bool any_waits() const {
    sigset_t waiting;
    ::sigpending(&waiting);
    return std::ranges::any_of(kEnding, [this, &waiting](int signal) {
      return ::sigismember(&waiting, signal) == 1 && !is_ignored(signal);
    });
  }

  void tell(pid_t warden) const {
    // The terminal may have sent those that wait before the program was there.
    sigset_t waiting;
    ::sigpending(&waiting);
    for (const int signal : kPassedOn) {
      if (::sigismember(&waiting, signal) == 1) ::kill(warden, signal);
    }
    warden_to_tell = warden;
    ::sigprocmask(SIG_SETMASK, &running_mask_, nullptr);
  }

  /// In the program's process.
  void leave_to_program() const { restore(running_mask_); }

 private:
  void restore(const sigset_t& mask) const {
    // Held until all handlers are back.
    const sigset_t passed_on = set_of(kPassedOn);
    ::sigprocmask(SIG_BLOCK, &passed_on, nullptr);
    for (std::size_t i = 0; i < kPassedOn.size(); ++i) {
      ::sigaction(kPassedOn[i], &old_[i], nullptr);
    }
    ::sigprocmask(SIG_SETMASK, &mask, nullptr);
  }

  [[nodiscard]] bool is_ignored(int signal) const {
    const auto place = std::ranges::find(kPassedOn, signal) - kPassedOn.begin();
    return old_[static_cast<std::size_t>(place)].sa_handler == SIG_IGN;
  }

  sigset_t old_mask_{};
  sigset_t running_mask_{};
  std::array<struct sigaction, kPassedOn.size()> old_{};
};

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

/// A file in memory, for what a program prints: on a disk, making and removing one takes
/// milliseconds.
class PrintedText {
 public:
  PrintedText() : file_(::memfd_create("gpemu-printed", MFD_CLOEXEC)) {}

  /// Returns whether the file could be made.
  [[nodiscard]] bool valid() const { return file_.valid(); }
  [[nodiscard]] int descriptor() const { return file_.get(); }

  /// Returns the text, or of a longer one the end.
  [[nodiscard]] Result<std::string> text() const {
    constexpr off_t kMostText = off_t{256} << 20;  // As read_file().
    const off_t size = ::lseek(descriptor(), 0, SEEK_END);
    const off_t begin = std::max<off_t>(size - kMostText, 0);
    std::string text(static_cast<std::size_t>(std::max<off_t>(size - begin, 0)), '\0');
    std::size_t done = 0;
    while (done < text.size()) {
      const ssize_t count = ::pread(descriptor(), text.data() + done, text.size() - done,
                                    begin + static_cast<off_t>(done));
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) {
        return fail(ErrorCode::kIo, "what a program printed cannot be read: {}",
                    errno_message(count == 0 ? EIO : errno));
      }
      done += static_cast<std::size_t>(count);
    }
    return text;
  }

 private:
  FileDescriptor file_;
};

/// Waits for a program until it has ended, and ends it after `stop`; returns its exit code, or
/// nothing after `stop`.
std::optional<int> wait_or_stop(Warden& warden, const std::atomic<bool>& stop) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  std::optional<Clock::time_point> stopped;
  while (true) {
    if (const std::optional<int> code = warden.poll()) return stopped ? std::nullopt : code;
    const auto now = Clock::now();
    if (stop && !stopped) {
      stopped = now;
      ::kill(warden.pid(), SIGTERM);
    }
    if (stopped && now - *stopped > kGrace) {
      warden.end();
      return std::nullopt;
    }
    const auto interval =
        std::chrono::duration_cast<std::chrono::milliseconds>((now - start) / kIntervalShare);
    std::this_thread::sleep_for(std::clamp(interval, kLeastInterval, kMostInterval));
  }
}

}  // namespace

Result<int> run_program(const std::vector<std::string>& words,
                        const std::vector<std::string>& environment, ProgramOutput output,
                        const std::function<void(pid_t)>& started) {
  const Command command(words, environment);
  const SignalsToChild signals;
  if (signals.any_waits()) return fail(ErrorCode::kInterrupted, "stopped before the program began");
  GPEMU_ASSIGN(Warden warden, command.start(Warden::Leftovers::kLiveOn, [&signals, output] {
    if (output == ProgramOutput::kToStandardError) ::dup2(STDERR_FILENO, STDOUT_FILENO);
    signals.leave_to_program();
  }));
  signals.tell(warden.pid());
  if (started) started(warden.pid());
  return warden.wait();
}

Result<int> run_tool(const std::vector<std::string>& words,
                     const std::vector<std::string>& environment, Duration patience) {
  const Command command(words, environment);
  GPEMU_ASSIGN(Warden warden, command.start(Warden::Leftovers::kEnd, [] {
    // The terminal sends signals to its own group only.
    ::setpgid(0, 0);
    ::dup2(STDERR_FILENO, STDOUT_FILENO);
  }));
  const auto until = std::chrono::steady_clock::now() + patience;
  while (true) {
    if (const std::optional<int> code = warden.poll()) return *code;
    if (std::chrono::steady_clock::now() >= until) {
      warden.end();
      return fail(ErrorCode::kUnavailable, "`{}` has not ended in {:g} s (--patience)",
                  fmt::join(words, " "), to_seconds(patience));
    }
    std::this_thread::sleep_for(kToolInterval);
  }
}

SignalsWait::SignalsWait() {
  const sigset_t ending = set_of(kEnding);
  ::sigprocmask(SIG_BLOCK, &ending, &before_);
}

SignalsWait::~SignalsWait() {
  ::sigprocmask(SIG_SETMASK, &before_, nullptr);
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

Result<PrintedRun> run_for_output(const std::vector<std::string>& words,
                                  const std::vector<std::string>& environment,
                                  const std::filesystem::path& folder, int held,
                                  const std::atomic<bool>& stop) {
  const PrintedText output, errors;
  if (!output.valid() || !errors.valid()) {
    return fail(ErrorCode::kIo, "cannot make a temporary file: {}", errno_message(errno));
  }
  const FileDescriptor nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const Command command(words, environment);
  GPEMU_ASSIGN(Warden warden, command.start(Warden::Leftovers::kEnd, [&] {
    ::setpgid(0, 0);
    ::dup2(nothing.get(), STDIN_FILENO);
    ::dup2(output.descriptor(), STDOUT_FILENO);
    ::dup2(errors.descriptor(), STDERR_FILENO);
    if (held >= 0) ::fcntl(held, F_SETFD, 0);
    if (!folder.empty() && ::chdir(folder.c_str()) != 0) ::_exit(EXIT_FAILURE);
  }));
  const std::optional<int> code = wait_or_stop(warden, stop);
  if (!code) return fail(ErrorCode::kInterrupted, "stopped");
  PrintedRun run{.code = *code, .output = {}, .errors = {}};
  GPEMU_ASSIGN(run.output, output.text());
  GPEMU_ASSIGN(run.errors, errors.text());
  return run;
}

}  // namespace gpemu::run
