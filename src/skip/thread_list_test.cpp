// SPDX-License-Identifier: Apache-2.0
#include "thread_list.hpp"

#include <atomic>
#include <chrono>
#include <set>

#include <gtest/gtest.h>

#include "real_process_view.hpp"
#include "test_processes.hpp"

namespace gpemu::skip {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): literals only.

void sleep_for_ever() {
  while (true) ::pause();
}

std::set<pid_t> processes_in(const ThreadList& list) {
  std::set<pid_t> processes;
  for (const auto& [thread, listed] : list.threads()) processes.insert(listed.process);
  return processes;
}

TEST(ThreadList, HasAllDescendantsWithoutTheRoot) {
  const Shared<std::atomic<bool>> ends_with_parent;
  const TestProcesses processes({sleep_for_ever, [&] {
                                   if (::fork() == 0) {
                                     ::prctl(PR_SET_PDEATHSIG, SIGKILL);
                                     *ends_with_parent = true;
                                   }
                                   sleep_for_ever();
                                 }});
  ASSERT_TRUE(eventually([&] { return ends_with_parent->load(); }));
  const sim::RealClock host;
  RealProcessView view;
  ThreadList list(processes.root(), view, host);
  EXPECT_TRUE(eventually([&] { return list.make() && processes_in(list).size() == 3; }));
  EXPECT_FALSE(list.threads().contains(processes.root()));
}

TEST(ThreadList, HasAllThreadsOfAProcess) {
  const TestProcesses processes({[] {
    const std::jthread other(sleep_for_ever);
    sleep_for_ever();
  }});
  const sim::RealClock host;
  RealProcessView view;
  ThreadList list(processes.root(), view, host);
  EXPECT_TRUE(eventually([&] { return list.make() && list.threads().size() >= 2; }));
  EXPECT_EQ(processes_in(list).size(), 1U);
}

TEST(ThreadList, IsCurrentForATenthOfASecond) {
  const TestProcesses processes({sleep_for_ever});
  sim::VirtualClock host;
  RealProcessView view;
  ThreadList list(processes.root(), view, host);
  EXPECT_FALSE(list.is_current());
  // Others may start processes on this host.
  EXPECT_TRUE(eventually([&] {
    if (!list.make()) return false;
    host.wait_until(host.now() + 100ms - 1ns);
    return list.is_current();
  }));
  host.wait_until(host.now() + 1ns);
  EXPECT_FALSE(list.is_current());
}

TEST(ThreadList, IsNotCurrentOnceAProcessWasStarted) {
  const TestProcesses processes({sleep_for_ever});
  const sim::VirtualClock host;
  RealProcessView view;
  ThreadList list(processes.root(), view, host);
  EXPECT_TRUE(eventually([&] { return list.make(); }));
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(list.is_current());
}

TEST(ThreadList, IsNotCurrentWithoutThreads) {
  const TestProcesses processes({});
  const sim::VirtualClock host;
  RealProcessView view;
  ThreadList list(processes.root(), view, host);
  EXPECT_TRUE(eventually([&] { return list.make(); }));
  EXPECT_TRUE(list.threads().empty());
  EXPECT_FALSE(list.is_current());
}

}  // namespace
}  // namespace gpemu::skip
