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
#include <utility>

#include <climits>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gpemu/sim/random.hpp"

#include "real_process_view.hpp"
#include "test_process_view.hpp"
#include "test_processes.hpp"

namespace gpemu::skip {
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

// ---- In a kernel of the test's own

std::string call_text(long number, int first = 0) {
  return fmt::format("{} {:#x} 0x0 0x0 0x1 0x0 0x0 0x7ffc00001000 0x7f0000001000\n", number, first);
}
const std::string kWaitsForChild = call_text(SYS_wait4);
/// Descriptor 3 is a file.
const std::string kWaitsOutside = call_text(SYS_read, 3);
constexpr std::string_view kInNoCall = "-1 0x7ffc00001000 0x7f0000001000\n",
                           kOnProcessor = "running\n";

constexpr pid_t kWarden = 1, kFirst = 10, kSecond = 20;

/// Two processes that wait for children, below a warden. A check looks at the first one first.
class WaitWatchOrderTest : public testing::Test {
 protected:
  WaitWatchOrderTest() {
    view_.start(kWarden, kWarden, kWaitsForChild);
    view_.start(kFirst, kFirst, kWaitsForChild);
    view_.start(kSecond, kSecond, kWaitsForChild);
    view_.texts["/proc/20/comm"] = "python\n";
    set_children("10 20 ");
  }

  void set_children(std::string_view text) { view_.texts["/proc/1/task/1/children"] = text; }

  static bool no_time(pid_t /*thread*/) { return false; }
  bool all_wait() { return watch_.all_wait(no_time); }

  void second_says(char state, int runs, std::string_view call) {
    view_.says(kSecond, kSecond, state, runs, call);
  }
  void end_second() {
    view_.end(kSecond, kSecond);
    set_children("10 ");
  }
  /// Lets a change happen before a read of one of the second process's files.
  void before_read_of_second(int count, std::function<void()> change, std::string_view name = "") {
    view_.before_read(count, view_.folder_of(kSecond, kSecond).append(name), std::move(change));
  }

  void expect_second_computes(std::string_view way) {
    EXPECT_FALSE(all_wait());
    EXPECT_EQ(watch_.who_computes(), fmt::format("python (20) {}", way));
    EXPECT_EQ(watch_.one_runs(), way == "runs");
  }
  void expect_only_first_is_alive() {
    EXPECT_TRUE(all_wait()) << watch_.who_computes();
    EXPECT_TRUE(watch_.is_alive(kFirst));
    EXPECT_FALSE(watch_.is_alive(kSecond));
  }

  TestProcessView view_;
  sim::VirtualClock host_;
  WaitWatch watch_{kWarden, "", view_, host_};
};

TEST_F(WaitWatchOrderTest, AThreadWaitsThatSleepsInAWaitThatCounts) {
  EXPECT_TRUE(all_wait()) << watch_.who_computes();
  EXPECT_TRUE(watch_.is_alive(kSecond));
  EXPECT_TRUE(all_wait()) << "nothing has changed";
}

TEST_F(WaitWatchOrderTest, AThreadThatIsGoneHasEnded) {
  EXPECT_TRUE(all_wait());
  end_second();
  expect_only_first_is_alive();
}

TEST_F(WaitWatchOrderTest, AThreadThatGoesWhileItIsExaminedHasEnded) {
  before_read_of_second(2, [this] { end_second(); }, "stat");
  expect_only_first_is_alive();
}

TEST_F(WaitWatchOrderTest, AZombieHasEnded) {
  second_says('Z', 1, kInNoCall);
  expect_only_first_is_alive();
}

TEST_F(WaitWatchOrderTest, AZombieThatStillRunsMayWakeItsParent) {
  second_says('Z', 1, kOnProcessor);
  expect_second_computes("waits for the host");
}

TEST_F(WaitWatchOrderTest, AThreadThatRunsComputes) {
  second_says('R', 1, kWaitsForChild);
  expect_second_computes("runs");
  EXPECT_EQ(watch_.counts().looks_anew, 1U) << "its state says enough";
}

TEST_F(WaitWatchOrderTest, AThreadWhoseRunsAreNotCountedComputes) {
  second_says('S', 0, kWaitsForChild);
  expect_second_computes("may not be inspected");
}

TEST_F(WaitWatchOrderTest, AThreadWhoseCallIsNotShownComputes) {
  second_says('S', 1, "");
  expect_second_computes("may not be inspected");
}

TEST_F(WaitWatchOrderTest, AThreadThatWaitsForADiskComputes) {
  second_says('D', 1, kWaitsForChild);
  expect_second_computes("waits for the host");
}

TEST_F(WaitWatchOrderTest, AThreadThatWaitsForAPageComputes) {
  second_says('S', 1, kInNoCall);
  expect_second_computes("waits in no system call");
}

TEST_F(WaitWatchOrderTest, AThreadThatWaitsForAFileComputes) {
  second_says('S', 1, kWaitsOutside);
  expect_second_computes("waits for something outside the run");
}

TEST_F(WaitWatchOrderTest, AThreadThatWaitsForATimeComputesUnlessItIsKnown) {
  second_says('S', 1, call_text(SYS_clock_nanosleep));
  expect_second_computes("waits for a timeout of its own");
  EXPECT_EQ(watch_.counts().looks, 2U) << "one pass says enough";
  EXPECT_TRUE(watch_.all_wait([](pid_t) { return true; }));
  expect_second_computes("waits for a timeout of its own");
}

TEST_F(WaitWatchOrderTest, SeesAThreadThatBeginsToRunWhileItIsExamined) {
  for (const int read : {2, 3, 4}) {
    second_says('S', 1, kWaitsForChild);
    WaitWatch watch(kWarden, "", view_, host_);
    before_read_of_second(read, [this] { second_says('R', 2, kOnProcessor); });
    EXPECT_FALSE(watch.all_wait(no_time)) << read;
    EXPECT_TRUE(watch.one_runs()) << read;
  }
}

TEST_F(WaitWatchOrderTest, AProcessInAnotherNamespaceComputes) {
  for (const char* const name : {"/proc/20/ns/pid", "/proc/20/ns/time"}) {
    const std::string own = std::exchange(view_.links[name], "other");
    WaitWatch watch(kWarden, "", view_, host_);
    EXPECT_FALSE(watch.all_wait(no_time)) << name;
    EXPECT_EQ(watch.who_computes(), "a process is in another PID or time namespace");
    view_.links[name] = own;
  }
}

TEST_F(WaitWatchOrderTest, WithoutAListThatIsCompleteNobodyWaits) {
  for (int read = 1; read <= 20; ++read) {
    view_.before_read(read, "/proc/loadavg", [this, read] {
      view_.texts["/proc/loadavg"] = fmt::format("0.00 0.01 0.05 1/612 {}\n", 100 + read);
    });
  }
  EXPECT_FALSE(all_wait());
  EXPECT_EQ(watch_.who_computes(), "a process starts all the time");
}

TEST_F(WaitWatchOrderTest, AThreadThatFallsAsleepAnewInEachPassDoesNotWait) {
  for (int runs = 2; runs <= 20; ++runs) {
    before_read_of_second(
        runs - 1, [this, runs] { second_says('S', runs, kWaitsForChild); }, "schedstat");
  }
  EXPECT_FALSE(all_wait());
  EXPECT_EQ(watch_.who_computes(), "a process wakes now and then");
}

/// If the count were read first, the state would be that of the new wait.
TEST_F(WaitWatchOrderTest, SeesAWaitThatReplacesAKnownOneWhileItIsExamined) {
  EXPECT_TRUE(all_wait());
  before_read_of_second(2, [this] { second_says('S', 2, kWaitsOutside); });
  expect_second_computes("waits for something outside the run");
}

/// If the count were read last, it would be that of the new wait, but the call that of the old one.
TEST_F(WaitWatchOrderTest, SeesAWaitThatReplacesAnotherAfterItsCallWasRead) {
  before_read_of_second(4, [this] { second_says('S', 2, kWaitsOutside); });
  expect_second_computes("waits for something outside the run");
}

TEST_F(WaitWatchOrderTest, SeesWhomAThreadWokeBeforeItEnded) {
  EXPECT_TRUE(all_wait());
  before_read_of_second(1, [this] {
    view_.says(kFirst, kFirst, 'R', 2, kOnProcessor);
    end_second();
  });
  EXPECT_FALSE(all_wait());
  EXPECT_TRUE(watch_.one_runs());
}

TEST_F(WaitWatchOrderTest, SeesAThreadThatIsStartedDuringAPass) {
  EXPECT_TRUE(all_wait());
  before_read_of_second(2, [this] {
    view_.start(kSecond, 21, kWaitsForChild);
    view_.says(kSecond, 21, 'R', 1, kOnProcessor);
  });
  expect_second_computes("runs");
}

TEST_F(WaitWatchOrderTest, SeesAProcessThatHadItsNumberBeforeItCouldBeFound) {
  view_.texts["/proc/loadavg"] = "0.00 0.01 0.05 1/612 30\n";
  view_.says(kFirst, kFirst, 'R', 1, kOnProcessor);
  view_.before_read(1, view_.folder_of(kFirst, kFirst), [this] {
    view_.start(30, 30, kWaitsForChild);
    view_.says(30, 30, 'R', 1, kOnProcessor);
    set_children("10 20 30 ");
    view_.says(kFirst, kFirst, 'S', 1, kWaitsForChild);
  });
  EXPECT_FALSE(all_wait());
  EXPECT_TRUE(watch_.one_runs());
}

TEST_F(WaitWatchOrderTest, SeesThatAProcessWhichHasStartedHoldsWhatAnotherWaitsFor) {
  view_.has_open(kSecond, 3, "socket:[7]");
  view_.unix_by_inode = {{7, {socket_state::kEstablished, 8}},
                         {8, {socket_state::kEstablished, 7}}};
  second_says('S', 1, kWaitsOutside);
  expect_second_computes("waits for something outside the run");
  view_.start(30, 30, kWaitsForChild);
  view_.has_open(30, 4, "socket:[8]");
  set_children("10 20 30 ");
  EXPECT_TRUE(all_wait()) << watch_.who_computes();
}

/// Two threads that wake each other, in the steps that the kernel takes. One of them always runs or
/// is ready to run.
class Handover {
 public:
  /// Both have run once. The first one now runs again.
  explicit Handover(TestProcessView& view) : view_(view) { says(kFirst, 'R', kOnProcessor); }

  void step() {
    const pid_t waker = wakers_[0], woken = wakers_[1];
    switch (step_++ % 4) {
      case 0:  // Its call is shown until it is in a processor's queue.
        return says(woken, 'R', kWaitsForChild);
      case 1:
        return says(waker, 'S', kOnProcessor);
      case 2:
        return says(waker, 'S', kWaitsForChild);
      default:
        ++runs_[woken];
        std::swap(wakers_[0], wakers_[1]);
        return says(woken, 'R', kOnProcessor);
    }
  }

  void all_sleep() {
    for (const pid_t thread : wakers_) says(thread, 'S', kWaitsForChild);
  }

 private:
  void says(pid_t thread, char state, std::string_view call) {
    view_.says(thread, thread, state, runs_[thread], call);
  }

  TestProcessView& view_;
  std::array<pid_t, 2> wakers_ = {kFirst, kSecond};
  std::map<pid_t, int> runs_ = {{kFirst, 2}, {kSecond, 1}};
  int step_ = 0;
};

TEST_F(WaitWatchOrderTest, NeverMistakesAHandoverForWaitingWhereverItsStepsFall) {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    sim::Rng rng(seed);
    for (const pid_t thread : {kFirst, kSecond}) view_.says(thread, thread, 'S', 1, kWaitsForChild);
    WaitWatch watch(kWarden, "", view_, host_);
    EXPECT_TRUE(watch.all_wait(no_time)) << watch.who_computes();
    Handover handover(view_);
    for (int read = 1; read <= 40; ++read) {
      view_.before_read(read, "/proc/", [&handover, steps = rng.below(5)] {
        for (std::uint64_t i = 0; i < steps; ++i) handover.step();
      });
    }
    for (int check = 0; check < 4; ++check) EXPECT_FALSE(watch.all_wait(no_time)) << seed;
    view_.forget_changes();
    handover.all_sleep();
    EXPECT_TRUE(watch.all_wait(no_time)) << watch.who_computes();
  }
}

}  // namespace
}  // namespace gpemu::skip
