// SPDX-License-Identifier: Apache-2.0
#include "gpemu/base/signals.hpp"

#include <thread>

#include <gtest/gtest.h>

namespace gpemu {
namespace {

volatile std::sig_atomic_t signals_handled = 0;

/// Returns whether the calling thread gets a signal.
bool gets(int signal) {
  sigset_t blocked;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  return ::sigismember(&blocked, signal) == 0;
}

TEST(SignalsHeld, ASignalWaitsUntilTheEnd) {
  auto* const before = std::signal(SIGUSR1, [](int) { signals_handled = signals_handled + 1; });
  {
    const SignalsHeld held;
    ASSERT_EQ(std::raise(SIGUSR1), 0);
    EXPECT_EQ(signals_handled, 0);
  }
  EXPECT_EQ(signals_handled, 1);
  std::signal(SIGUSR1, before);
}

TEST(SignalsHeld, AThreadThatIsStartedMeanwhileNeverGetsAny) {
  bool any = true;
  std::thread thread;
  {
    const SignalsHeld held;
    thread = std::thread([&any] { any = gets(SIGINT) || gets(SIGTERM) || gets(SIGUSR1); });
  }
  thread.join();
  EXPECT_FALSE(any);
  EXPECT_TRUE(gets(SIGINT) && gets(SIGTERM) && gets(SIGUSR1)) << "the thread that held them";
}

TEST(SignalsHeld, ASignalThatWasHeldBeforeStaysHeld) {
  const SignalsHeld outer;
  {
    const SignalsHeld inner;
  }
  EXPECT_FALSE(gets(SIGUSR1));
}

}  // namespace
}  // namespace gpemu
