// SPDX-License-Identifier: Apache-2.0
#include "descendants.hpp"

#include <cerrno>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace gpemu::run {
namespace {

/// Starts a child that never ends by itself.
pid_t start_child() {
  const pid_t child = ::fork();
  while (child == 0) ::pause();
  return child;
}

/// Returns whether a child has ended and was waited for.
bool is_gone(pid_t child) {
  return ::waitpid(child, nullptr, WNOHANG) < 0 && errno == ECHILD;
}

TEST(Descendants, AreEndedExceptTheSparedOnes) {
  const pid_t spared = start_child();
  const pid_t child = start_child();
  end_descendants({spared});
  EXPECT_TRUE(is_gone(child));
  EXPECT_FALSE(is_gone(spared));
  end_descendants({});
  EXPECT_TRUE(is_gone(spared));
}

TEST(Descendants, AreEndedThoughTheyCannotBeListedAtFirst) {
  const pid_t child = start_child();
  int calls = 0;
  end_descendants({}, [&calls]() -> Result<std::vector<pid_t>> {
    if (++calls <= 2) return fail(ErrorCode::kIo, "no memory");
    return children();
  });
  EXPECT_TRUE(is_gone(child));
}

TEST(Descendants, ThatCanNeverBeListedAreGivenUp) {
  const pid_t child = start_child();
  end_descendants({}, []() -> Result<std::vector<pid_t>> {
    return fail(ErrorCode::kNotFound, "there is no /proc");
  });
  EXPECT_FALSE(is_gone(child));
  end_descendants({});
}

}  // namespace
}  // namespace gpemu::run
