// SPDX-License-Identifier: Apache-2.0
#include "cli/interrupt.hpp"

#include <csignal>

#include <gtest/gtest.h>

namespace gpemu::tools {
namespace {

TEST(InterruptGuard, NotesTheFirstSignal) {
  const InterruptGuard guard;
  std::raise(SIGINT);
  EXPECT_TRUE(guard.flag());
}

TEST(InterruptGuard, KeepsASignalIgnored) {
  const auto before = std::signal(SIGINT, SIG_IGN);
  {
    const InterruptGuard guard;
    std::raise(SIGINT);
    EXPECT_FALSE(guard.flag());
  }
  EXPECT_EQ(std::signal(SIGINT, before), SIG_IGN);
}

}  // namespace
}  // namespace gpemu::tools
