// SPDX-License-Identifier: Apache-2.0
#include "gpemu/base/thread.hpp"

#include <array>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace gpemu {
namespace {

TEST(StartThread, TheThreadHasItsNameAndGetsNoSignals) {
  std::array<char, 16> name{};
  sigset_t blocked;
  ::sigemptyset(&blocked);
  std::thread thread = start_thread("gpemu test", [&] {
    ::pthread_getname_np(::pthread_self(), name.data(), name.size());
    ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  });
  ASSERT_TRUE(thread.joinable());
  thread.join();
  EXPECT_EQ(std::string(name.data()), "gpemu test");
  EXPECT_EQ(::sigismember(&blocked, SIGINT), 1);
}

TEST(StartThread, WithoutRoomForAStackThereIsNoThread) {
#if defined(GPEMU_SANITIZE_ADDRESS) || defined(GPEMU_SANITIZE_THREAD)
  GTEST_SKIP() << "sanitizers need more address space than this test leaves";
#endif
  const pid_t child = ::fork();
  if (child == 0) {
    constexpr rlim_t kLimit = rlim_t{1} << 30;
    const rlimit limit{.rlim_cur = kLimit, .rlim_max = kLimit};
    pthread_attr_t attributes;
    ::pthread_attr_init(&attributes);
    ::pthread_attr_setstacksize(&attributes, 2 * kLimit);
    const bool limited =
        ::setrlimit(RLIMIT_AS, &limit) == 0 && ::pthread_setattr_default_np(&attributes) == 0;
    ::_exit(!limited ? 2 : start_thread("gpemu test", [] {}).joinable() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace gpemu
