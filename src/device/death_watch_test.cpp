// SPDX-License-Identifier: Apache-2.0
#include "death_watch.hpp"

#include <atomic>
#include <csignal>
#include <cstdint>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/sim/clock.hpp"

namespace gpemu::device {
namespace {

/// Counts what a watch tells.
class DeathWatchTest : public testing::Test {
 protected:
  ~DeathWatchTest() override {
    for (const pid_t child : children_) end(child);
  }
  pid_t begin() {
    const pid_t child = ::fork();
    if (child == 0) {
      while (true) ::pause();
    }
    children_.push_back(child);
    return child;
  }
  static void end(pid_t child) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  /// Waits until the watch has told so often. Fails with the test's time limit.
  void wait_for(std::uint32_t times) {
    sim::RealClock clock;
    for (std::uint32_t seen = told_; seen < times; seen = told_) {
      clock.wait_for_change(told_, seen, TimePoint::max());
    }
  }

  std::vector<pid_t> children_;
  std::atomic<std::uint32_t> told_{0};
  DeathWatch watch_{[this] {
    ++told_;
    sim::wake_all(told_);
  }};
};

TEST_F(DeathWatchTest, TellsEachDeathOnce) {
  const pid_t first = begin();
  const pid_t second = begin();
  watch_.watch({first, second});
  end(first);
  wait_for(1);
  watch_.watch({first, second});
  end(second);
  wait_for(2);
  EXPECT_EQ(told_, 2U);
  EXPECT_TRUE(watch_.works());
}

TEST_F(DeathWatchTest, TellsThatAProcessHasEndedBefore) {
  const pid_t child = begin();
  end(child);
  watch_.watch({child});
  wait_for(1);
}

TEST_F(DeathWatchTest, TellsNothingOfProcessesThatItWatchesNoMore) {
  const pid_t first = begin();
  const pid_t second = begin();
  watch_.watch({first});
  watch_.watch({second});
  end(first);
  end(second);
  wait_for(1);
  EXPECT_EQ(told_, 1U);
}

TEST_F(DeathWatchTest, NoticesThatTheProgramClosedItsDescriptors) {
  const pid_t child = begin();
  watch_.watch({child});
  // The last one that was opened, or close to it.
  for (int descriptor = 3; descriptor < 64; ++descriptor) {
    char target[64] = {};
    const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
    if (::readlink(path.c_str(), target, sizeof target - 1) > 0 &&
        std::string(target).ends_with("[eventfd]")) {
      ::close(descriptor);
    }
  }
  watch_.watch({});
  EXPECT_FALSE(watch_.works());
  end(child);  // Ends the thread, which tells nothing any more, or just once.
}

}  // namespace
}  // namespace gpemu::device
