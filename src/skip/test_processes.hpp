// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <csignal>
#include <functional>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

namespace gpemu::skip {

/// A value in memory that processes share.
template <typename Value>
class Shared {
 public:
  Shared()
      : value_(new(::mmap(nullptr, sizeof(Value), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Value()) {}
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  ~Shared() { ::munmap(value_, sizeof(Value)); }

  Value& operator*() const { return *value_; }
  Value* operator->() const { return value_; }

 private:
  Value* value_;
};

/// Whether ThreadSanitizer is in each process: its own thread sleeps in a call that does not show
/// when it ends, so the processes never all wait.
#if defined(GPEMU_SANITIZE_THREAD)
inline constexpr bool kHasThreadSanitizer = true;
#else
inline constexpr bool kHasThreadSanitizer = false;
#endif

/// Returns whether a condition comes true. It gives up after 60,000 pauses of a millisecond,
/// however slow the host is: then the test has hung.
template <typename Condition>
[[nodiscard]] bool eventually(const Condition& condition) {
  for (int i = 0; i < 60'000; ++i) {
    if (condition()) return true;
    ::poll(nullptr, 0, 1);
  }
  return false;
}

/// Processes of a test below one that acts as the warden; they end with the object.
class TestProcesses {
 public:
  using Body = std::function<void()>;

  explicit TestProcesses(const std::vector<Body>& bodies) {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    // The process that acts as the warden does not count, because a watch of it must find all
    // others.
    const Shared<std::atomic<bool>> started;
    root_ = ::fork();
    if (root_ != 0) {
      while (!*started) std::this_thread::yield();
      return;
    }
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const pid_t own = ::getpid();
    for (const Body& body : bodies) {
      if (::fork() != 0) continue;
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() == own) body();
      ::_exit(0);
    }
    *started = true;
    while (true) {
      if (::waitpid(-1, nullptr, 0) < 0) ::pause();
    }
  }
  TestProcesses(const TestProcesses&) = delete;
  TestProcesses& operator=(const TestProcesses&) = delete;
  ~TestProcesses() {
    ::kill(root_, SIGKILL);
    while (::waitpid(-1, nullptr, 0) > 0) {
    }
  }

  [[nodiscard]] pid_t root() const { return root_; }

 private:
  pid_t root_ = 0;
};

}  // namespace gpemu::skip
