// SPDX-License-Identifier: Apache-2.0
#include "wait_watch.hpp"

#include <array>
#include <atomic>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <thread>

#include <climits>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "real_process_view.hpp"
#include "test_processes.hpp"

namespace gpemu::run {
namespace {

/// Enough checks to see every state of processes that pass work to each other.
constexpr int kManyChecks = 20'000;

using Ends = std::array<int, 2>;

Ends tcp_connection() {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(::bind(listener, any, size), 0);
  EXPECT_EQ(::listen(listener, 1), 0);
  EXPECT_EQ(::getsockname(listener, any, &size), 0);
  const int client = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(::connect(client, any, size), 0);
  const int server = ::accept(listener, nullptr, nullptr);
  ::close(listener);
  return {client, server};
}

/// Makes an io_uring with at most one request: to the kernel, to wait for an hour. Returns its
/// descriptor, negative if the host does not allow it.
int make_ring(bool has_request) {
  io_uring_params facts{};
  const auto ring = static_cast<int>(::syscall(SYS_io_uring_setup, 1, &facts));
  if (ring < 0 || !has_request) return ring;
  const auto map = [ring](std::size_t size, off_t offset) {
    return static_cast<std::byte*>(
        ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, ring, offset));
  };
  std::byte* const queue = map(facts.sq_off.array + sizeof(std::uint32_t), IORING_OFF_SQ_RING);
  auto* const request = reinterpret_cast<io_uring_sqe*>(map(sizeof(io_uring_sqe), IORING_OFF_SQES));
  const __kernel_timespec hour{.tv_sec = 3600, .tv_nsec = 0};
  request->opcode = IORING_OP_TIMEOUT;
  request->addr = reinterpret_cast<std::uint64_t>(&hour);
  request->len = 1;
  *reinterpret_cast<std::uint32_t*>(queue + facts.sq_off.tail) = 1;
  return ::syscall(SYS_io_uring_enter, ring, 1, 0, 0, nullptr, 0) == 1 ? ring : -1;
}

void read_from(int file) {
  char byte = 0;
  while (::read(file, &byte, 1) == 1) {
  }
}

/// Hands a byte back and forth.
void pass_on(int in, int out, bool first) {
  char byte = 0;
  if (first) [[maybe_unused]]
    const auto sent = ::write(out, &byte, 1);
  while (::read(in, &byte, 1) == 1 && ::write(out, &byte, 1) == 1) {
  }
}

class WaitWatchTest : public testing::Test {
 protected:
  void SetUp() override {
    if (kHasThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer's own thread never waits";
  }

  RealProcessView view_;
  sim::RealClock host_;

  static bool no_time(pid_t /*thread*/) { return false; }

  static void expect_waits(WaitWatch& watch) {
    EXPECT_TRUE(eventually([&] { return watch.all_wait(no_time); })) << watch.who_computes();
  }

  /// Returns when processes have been started.
  static void see(WaitWatch& watch, std::size_t processes) {
    EXPECT_TRUE(eventually([&] {
      static_cast<void>(watch.all_wait(no_time));
      return watch.processes().size() >= processes;
    }));
  }

  /// Waits until a thread's state has been judged, and returns whether all ever wait.
  static bool ever_waits(WaitWatch& watch, int checks = kManyChecks) {
    for (int i = 0; i < checks; ++i) {
      if (watch.all_wait(no_time)) return true;
    }
    return false;
  }

  static void expect_in_the_way(WaitWatch& watch, std::string_view way) {
    EXPECT_TRUE(eventually([&] {
      EXPECT_FALSE(watch.all_wait(no_time));
      return watch.who_computes().contains(way);
    })) << watch.who_computes();
    EXPECT_FALSE(ever_waits(watch, 100));
  }
};

TEST_F(WaitWatchTest, SeesProcessesThatWaitForEachOther) {
  Ends pipe{}, pair{};
  ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()), 0);
  const Ends tcp = tcp_connection();
  TestProcesses processes({[&] { read_from(pair[0]); }, [&] { read_from(pair[1]); },
                           [&] { read_from(tcp[0]); }, [&] { read_from(tcp[1]); },
                           [] {
                             while (true) ::pause();
                           },
                           [&] { read_from(pipe[0]); }});
  // Files that this process has open lead to the outside.
  for (const Ends& ends : {pipe, pair, tcp}) {
    ::close(ends[0]);
    ::close(ends[1]);
  }
  WaitWatch watch(processes.root(), "", view_, host_);
  expect_waits(watch);
  EXPECT_EQ(watch.processes().size(), 6U);
}

TEST_F(WaitWatchTest, NeverMistakesAByteUnderWayForWaiting) {
  for (const bool on_tcp : {false, true}) {
    Ends ends{};
    if (on_tcp) {
      ends = tcp_connection();
    } else {
      ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    }
    TestProcesses processes(
        {[&] { pass_on(ends[0], ends[0], true); }, [&] { pass_on(ends[1], ends[1], false); }});
    ::close(ends[0]);
    ::close(ends[1]);
    WaitWatch watch(processes.root(), "", view_, host_);
    see(watch, 2);
    EXPECT_FALSE(ever_waits(watch)) << on_tcp;
  }
}

TEST_F(WaitWatchTest, SeesThatOthersCanReachAFileWithTheNameOfADeletedOne) {
  const std::string path = testing::TempDir() + fmt::format("gpemu_{} (deleted)", ::getpid());
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  ASSERT_EQ(::ftruncate(file, 4096), 0);
  TestProcesses processes({[file] {
    void* const memory = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ::close(file);
    ::syscall(SYS_futex, memory, FUTEX_WAIT, 0, nullptr, nullptr, 0);
  }});
  ::close(file);
  WaitWatch watch(processes.root(), "", view_, host_);
  expect_in_the_way(watch, "outside");
  ASSERT_EQ(::unlink(path.c_str()), 0);
  WaitWatch later(processes.root(), "", view_, host_);
  expect_waits(later);
}

TEST_F(WaitWatchTest, NeverMistakesAWakeUnderWayForWaiting) {
  const Shared<std::atomic<int>> turn;
  const auto play = [&turn](int own) {
    while (true) {
      for (int seen = 0; (seen = turn->load()) != own;) {
        ::syscall(SYS_futex, &*turn, FUTEX_WAIT, seen, nullptr, nullptr, 0);
      }
      turn->store(1 - own);
      ::syscall(SYS_futex, &*turn, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
    }
  };
  TestProcesses processes({[&] { play(0); }, [&] { play(1); }});
  WaitWatch watch(processes.root(), "", view_, host_);
  see(watch, 2);
  EXPECT_FALSE(ever_waits(watch));
}

TEST_F(WaitWatchTest, NeverMissesAChildThatIsWaitedFor) {
  TestProcesses processes({[] {
    while (true) {
      const pid_t child = ::fork();
      if (child == 0) ::_exit(0);
      ::waitpid(child, nullptr, 0);
    }
  }});
  WaitWatch watch(processes.root(), "", view_, host_);
  see(watch, 1);
  EXPECT_FALSE(ever_waits(watch));
}

TEST_F(WaitWatchTest, NeverMissesProcessesThatReplaceThemselves) {
  const Shared<std::atomic<bool>> stop;
  TestProcesses processes({[&] {
                             while (!*stop && ::fork() == 0) {
                             }
                           },
                           [] {
                             while (true) ::pause();
                           }});
  WaitWatch watch(processes.root(), "", view_, host_);
  see(watch, 2);
  EXPECT_FALSE(ever_waits(watch));
  *stop = true;
  expect_waits(watch);
}

TEST_F(WaitWatchTest, WhatIsInheritedLeadsOutside) {
  Ends pipe{};
  ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
  TestProcesses processes({[&] { read_from(pipe[0]); }});
  WaitWatch watch(processes.root(), "", view_, host_);
  expect_in_the_way(watch, "outside");
  ::close(pipe[0]);
  ::close(pipe[1]);
}

TEST_F(WaitWatchTest, AConnectionLeadsToWhoeverHoldsItsOtherEnd) {
  const Ends tcp = tcp_connection();
  TestProcesses processes({[&] {
    ::close(tcp[1]);
    read_from(tcp[0]);
  }});
  ::close(tcp[0]);
  WaitWatch watch(processes.root(), "", view_, host_);
  expect_in_the_way(watch, "outside");
  ::close(tcp[1]);
}

TEST_F(WaitWatchTest, ATimeOfItsOwnIsNoWaiting) {
  TestProcesses processes({[] { ::poll(nullptr, 0, 3'600'000); }});
  WaitWatch watch(processes.root(), "", view_, host_);
  expect_in_the_way(watch, "a timeout of its own");
  // Unless it is known.
  EXPECT_TRUE(eventually([&] { return watch.all_wait([](pid_t) { return true; }); }));
}

TEST_F(WaitWatchTest, ATimerThatRunsIsNoWaiting) {
  for (const bool runs : {false, true}) {
    TestProcesses processes({[runs] {
      const int set = ::epoll_create1(0), timer = ::timerfd_create(CLOCK_MONOTONIC, 0);
      const itimerspec hour{.it_interval = {}, .it_value = {.tv_sec = 3600, .tv_nsec = 0}};
      if (runs) ::timerfd_settime(timer, 0, &hour, nullptr);
      epoll_event event{.events = EPOLLIN, .data = {}};
      ::epoll_ctl(set, EPOLL_CTL_ADD, timer, &event);
      ::epoll_wait(set, &event, 1, -1);
    }});
    WaitWatch watch(processes.root(), "", view_, host_);
    if (runs) {
      expect_in_the_way(watch, "outside");
    } else {
      expect_waits(watch);
    }
  }
}

TEST_F(WaitWatchTest, ARequestToTheKernelIsNoWaiting) {
  const FileDescriptor probe(make_ring(false));
  if (!probe.valid()) GTEST_SKIP() << "this host does not allow io_uring";
  for (const bool has_request : {false, true}) {
    TestProcesses processes({[has_request] {
      eventfd_t value = 0;
      if (make_ring(has_request) >= 0) ::eventfd_read(::eventfd(0, 0), &value);
    }});
    WaitWatch watch(processes.root(), "", view_, host_);
    if (has_request) {
      expect_in_the_way(watch, "for the kernel");
    } else {
      expect_waits(watch);
    }
  }
}

TEST_F(WaitWatchTest, AStoppedProcessIsNotWaiting) {
  TestProcesses processes({[] { ::raise(SIGSTOP); },
                           [] {
                             while (true) ::pause();
                           }});
  WaitWatch watch(processes.root(), "", view_, host_);
  expect_in_the_way(watch, "the host");
}

TEST_F(WaitWatchTest, AWaitThatGoesOnAfterAStopCountsAsBefore) {
  for (const bool is_outside : {false, true}) {
    int pipe[2] = {-1, -1};
    ASSERT_EQ(::pipe(pipe), 0);
    pollfd polled{.fd = is_outside ? pipe[0] : -1, .events = POLLIN, .revents = 0};
    const Shared<std::atomic<pid_t>> sleeper;
    TestProcesses processes({[&] {
      *sleeper = ::getpid();
      ::poll(&polled, 1, 3'600'000);
    }});
    WaitWatch watch(processes.root(), "", view_, host_);
    const auto all_wait = [&] { return watch.all_wait([](pid_t) { return true; }); };
    const auto is_in_the_way = [&] {
      return !all_wait() && watch.who_computes().contains("outside");
    };
    const auto expect_state = [&] {
      EXPECT_TRUE(is_outside ? eventually(is_in_the_way) : eventually(all_wait));
    };
    expect_state();
    ASSERT_GT(*sleeper, 0);
    ASSERT_EQ(::kill(*sleeper, SIGSTOP), 0);
    EXPECT_TRUE(
        eventually([&] { return !all_wait() && watch.who_computes().contains("the host"); }));
    ASSERT_EQ(::kill(*sleeper, SIGCONT), 0);
    expect_state();
    ::close(pipe[0]);
    ::close(pipe[1]);
  }
}

TEST_F(WaitWatchTest, SeesAllThreads) {
  const Shared<std::atomic<bool>> stop;
  TestProcesses processes({[&] {
    std::jthread computes([&] {
      while (!*stop) {
      }
    });
    while (true) ::pause();
  }});
  WaitWatch watch(processes.root(), "", view_, host_);
  expect_in_the_way(watch, "runs");
  *stop = true;
  expect_waits(watch);
}

TEST_F(WaitWatchTest, WithoutProcessesNobodyWaits) {
  TestProcesses processes({});
  WaitWatch watch(processes.root(), "", view_, host_);
  EXPECT_FALSE(watch.all_wait(no_time));
}

}  // namespace
}  // namespace gpemu::run
