// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <spawn.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "gpemu/base/file.hpp"

namespace gpemu {

/// How long anything may take on a machine that does other things, too.
inline constexpr std::chrono::seconds kPatience{60};

/// Makes what commands take for an installation of gpemu.
inline void make_installation(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder / "lib/gpemu/shims/bin");
  write_file_atomically(folder / "lib/gpemu/shims/libgpemu_audit.so", "").value();
}

/// gpemu-kubernetes, which ends with this object.
class KubernetesProgram {
 public:
  KubernetesProgram() = default;
  KubernetesProgram(const KubernetesProgram&) = delete;
  KubernetesProgram& operator=(const KubernetesProgram&) = delete;
  ~KubernetesProgram() { end(); }

  /// Returns whether it started.
  bool start(std::vector<std::string> words) {
    words.insert(words.begin(), GPEMU_KUBERNETES);
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    return ::posix_spawn(&process_, GPEMU_KUBERNETES, nullptr, nullptr, arguments.data(),
                         environ) == 0;
  }

  [[nodiscard]] pid_t process() const { return process_; }

  /// Returns whether it has not ended.
  bool runs() {
    if (process_ != 0 && ::waitpid(process_, nullptr, WNOHANG) != 0) process_ = 0;
    return process_ != 0;
  }

  /// Sends it a signal, none if 0, and returns its status when it has ended.
  int end(int signal = SIGTERM) {
    if (process_ == 0) return 0;
    if (signal != 0) ::kill(process_, signal);
    int status = 0;
    ::waitpid(std::exchange(process_, 0), &status, 0);
    return status;
  }

 private:
  pid_t process_ = 0;
};

}  // namespace gpemu
