// SPDX-License-Identifier: Apache-2.0
//
// nvidia-cuda-mps-control: the control daemon of MPS, and the program that gives it commands.
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <iostream>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include <fmt/core.h>

#include "gpemu/base/file.hpp"
#include "gpemu/base/variables.hpp"
#include "gpemu/device/node.hpp"
#include "gpemu/mps/channel.hpp"
#include "gpemu/mps/pipe.hpp"

#include "mps/control_daemon.hpp"

namespace gpemu::mps {
namespace {

constexpr std::string_view kUsage =
    "usage: nvidia-cuda-mps-control [-d | -f | -v]\n"
    "\n"
    "Starts the control daemon of MPS for gpemu's GPUs, or reads commands for it from standard\n"
    "input, one a line; `help` lists them.\n"
    "\n"
    "  -d  start the daemon in the background\n"
    "  -f  start it in the foreground\n"
    "  -v  print the version\n"
    "\n"
    "example:\n"
    "  gpemu run --gpu A100-SXM4-40GB -- sh -c 'nvidia-cuda-mps-control -d\n"
    "      python a.py & python b.py & wait; echo quit | nvidia-cuda-mps-control'\n";

/// The version whose commands these are. Source: NVIDIA, "Multi-Process Service", CUDA 13.1.
constexpr int kVersion = 13010;

/// A daemon answers at once, unless it waits 5 s for each of a few servers that are stopped.
constexpr std::chrono::seconds kAnswerTime(30);

volatile bool stops = false;

std::filesystem::path pid_file(const std::filesystem::path& pipe) {
  return pipe / "nvidia-cuda-mps-control.pid";
}

/// As before, the daemon works without this file, too.
void write_pid(const std::filesystem::path& pipe, pid_t pid) {
  static_cast<void>(write_file_atomically(pid_file(pipe), fmt::format("{}\n", pid)));
}

Result<void> make_pipe_directory(const std::filesystem::path& pipe) {
  std::error_code error;
  std::filesystem::create_directories(pipe, error);
  if (!error) return {};
  return fail(ErrorCode::kIo, "cannot make the folder {}: {}; set CUDA_MPS_PIPE_DIRECTORY",
              pipe.string(), error.message());
}

/// Returns the key of the emulated machine in which this process runs.
Result<std::string> own_machine() {
  const auto variable_of = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  const std::string node = variable_of(variable::kNode);
  const std::string key = node.empty() ? ""
                                       : machine_key(device::default_node_folder() / node,
                                                     variable_of(variable::kDevices));
  if (!key.empty()) return key;
  return fail(ErrorCode::kNotFound,
              "no emulated GPUs: start the daemon inside of `gpemu run`, where the programs run");
}

struct Listening {
  FileDescriptor listener;
  std::string machine;
};

/// Does all that can fail before the daemon runs.
Result<Listening> prepare(const std::filesystem::path& pipe) {
  GPEMU_ASSIGN(std::string machine, own_machine());
  GPEMU_TRY(make_pipe_directory(pipe));
  const std::filesystem::path socket = control_socket(pipe);
  auto listener = listen_on(socket);
  if (!listener && listener.error().code == ErrorCode::kUnavailable) {
    return fail(ErrorCode::kUnavailable, "An instance of this daemon is already running");
  }
  if (!listener) return std::unexpected(listener.error());
  // Root serves all users, anybody else only themselves.
  ::chmod(socket.c_str(), ::geteuid() == 0 ? 0666 : 0600);
  return Listening{.listener = *std::move(listener), .machine = std::move(machine)};
}

int serve(Listening listening, const std::filesystem::path& pipe, bool shows) {
  struct sigaction action{};
  action.sa_handler = [](int) { stops = true; };
  ::sigaction(SIGTERM, &action, nullptr);
  ::sigaction(SIGINT, &action, nullptr);
  LogFile log(log_directory(::getenv), "control.log", "Control", shows);
  log.write("Starting control daemon using socket {}", control_socket(pipe).string());
  log.write("To connect CUDA applications to this daemon, set env CUDA_MPS_PIPE_DIRECTORY={}",
            pipe.string());
  std::error_code ignored;
  const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe", ignored);
  ControlDaemon daemon(std::move(listening.listener), std::move(listening.machine),
                       own.parent_path() / "nvidia-cuda-mps-server", std::move(log));
  daemon.run(stops);
  std::filesystem::remove(control_socket(pipe), ignored);
  std::filesystem::remove(pid_file(pipe), ignored);
  daemon.answer_quit();
  return 0;
}

int tell(const Error& error) {
  fmt::print(stderr, "{}\n", error.message);
  return 1;
}

int start_in_foreground() {
  const std::filesystem::path pipe = pipe_directory(::getenv);
  auto listening = prepare(pipe);
  if (!listening) return tell(listening.error());
  write_pid(pipe, ::getpid());
  return serve(*std::move(listening), pipe, true);
}

/// The parent ends once the daemon can be reached, and its file says which process it is.
int start_in_background() {
  const std::filesystem::path pipe = std::filesystem::absolute(pipe_directory(::getenv));
  auto listening = prepare(pipe);
  if (!listening) return tell(listening.error());
  const pid_t child = ::fork();
  if (child < 0) {
    return tell({.code = ErrorCode::kIo,
                 .message = fmt::format("cannot start the daemon: {}", errno_message(errno))});
  }
  if (child > 0) {
    write_pid(pipe, child);
    ::_exit(0);
  }
  ::setsid();
  const FileDescriptor nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    ::dup2(nothing.get(), standard);
  }
  return serve(*std::move(listening), pipe, false);
}

/// Passes commands on to the daemon. Returns the exit code.
int command() {
  const std::filesystem::path socket = control_socket(pipe_directory(::getenv));
  int code = 0;
  for (std::string line; std::getline(std::cin, line);) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const auto channel = connect_to(socket);
    if (!channel) {
      fmt::print(stderr, "Cannot find MPS control daemon process ({})\n", channel.error().message);
      return 1;
    }
    if (!channel->send({.kind = "command", .values = {}, .text = line})) return 1;
    // `quit` waits until clients have ended.
    const bool quits = line.find("quit") != std::string::npos;
    const auto received = quits ? channel->receive() : channel->receive(kAnswerTime);
    if (!received && received.error().code == ErrorCode::kNotReady) {
      fmt::print(stderr, "The MPS control daemon has not answered for {} s: is it stopped?\n",
                 kAnswerTime.count());
      return 1;
    }
    if (!received) {
      fmt::print(stderr, "The MPS control daemon has ended\n");
      return 1;
    }
    fmt::print("{}", received->message.text);
    std::fflush(stdout);
    if (received->message.value("good") == "0") code = 1;
  }
  return code;
}

int run(int count, char** arguments) {
  if (count == 1) return command();
  const std::string_view option = arguments[1];
  if (count == 2 && option == "-d") return start_in_background();
  if (count == 2 && option == "-f") return start_in_foreground();
  if (count == 2 && option == "-v") {
    fmt::print("CUDA MPS Control binary version: {}\n", kVersion);
    return 0;
  }
  if (option == "-h" || option == "--help") {
    fmt::print("{}", kUsage);
    return 0;
  }
  for (const std::string_view one : {"-S", "--static-partitioning", "-multiuser-server"}) {
    for (int i = 1; i < count; ++i) {
      if (one != arguments[i]) continue;
      fmt::print(stderr, "nvidia-cuda-mps-control: {} is not supported\n", one);
      return 1;
    }
  }
  fmt::print(stderr, "{}", kUsage);
  return 1;
}

}  // namespace
}  // namespace gpemu::mps

int main(int count, char** arguments) {
  return gpemu::mps::run(count, arguments);
}
