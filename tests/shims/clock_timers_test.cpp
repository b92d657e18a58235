// SPDX-License-Identifier: Apache-2.0
// The library that follows a node's clock: it holds it while a timer of the kernel runs, and leaves
// null addresses to the system.
#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <dlfcn.h>
#include <string>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/sim/clock_page.hpp"

namespace {

using gpemu::sim::ClockPage;
using gpemu::sim::TimedWait;

constexpr itimerspec kOff{};
constexpr itimerspec kInAnHour{.it_interval = {}, .it_value = {.tv_sec = 3600, .tv_nsec = 0}};
constexpr itimerspec kEachHour{.it_interval = kInAnHour.it_value, .it_value = kInAnHour.it_value};
constexpr itimerspec kInvalid{.it_interval = {}, .it_value = {.tv_sec = 1, .tv_nsec = -1}};

/// A page that the library maps, and the library; both stay for the whole process.
struct Clock {
  Clock() {
    const int file = ::memfd_create("page", 0);
    EXPECT_EQ(::ftruncate(file, sizeof(ClockPage)), 0);
    page = static_cast<ClockPage*>(
        ::mmap(nullptr, sizeof(ClockPage), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    ::setenv("GPEMU_CLOCK_PAGE", ("0:/proc/self/fd/" + std::to_string(file)).c_str(), 1);
    library = ::dlopen(GPEMU_TEST_CLOCK, RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(library, nullptr);
  }

  ClockPage* page;
  void* library;
};

const Clock& clock_library() {
  static const Clock clock;
  return clock;
}

#define GPEMU_OF_CLOCK(name) \
  reinterpret_cast<decltype(&::name)>(::dlsym(clock_library().library, #name))

std::int64_t to_ns(const timespec& time) {
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

std::vector<TimedWait*> holds() {
  std::vector<TimedWait*> found;
  for (TimedWait& wait : clock_library().page->waits) {
    if (wait.thread != 0) found.push_back(&wait);
  }
  return found;
}

/// A timer that sends no signal.
class Timer {
 public:
  Timer() {
    sigevent nothing{};
    nothing.sigev_notify = SIGEV_NONE;
    EXPECT_EQ(::timer_create(CLOCK_MONOTONIC, &nothing, &timer_), 0);
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  ~Timer() { EXPECT_EQ(GPEMU_OF_CLOCK(timer_delete)(timer_), 0); }

  [[nodiscard]] bool set(const itimerspec& value) {
    return GPEMU_OF_CLOCK(timer_settime)(timer_, 0, &value, nullptr) == 0;
  }

 private:
  timer_t timer_{};
};

TEST(ClockTimers, HoldsTheClockUntilATimerIsOff) {
  Timer timer;
  ASSERT_TRUE(timer.set(kInAnHour));
  EXPECT_EQ(holds().size(), 1U);
  ASSERT_TRUE(timer.set(kOff));
  EXPECT_EQ(holds().size(), 0U);
}

TEST(ClockTimers, LeavesAPlaceThatAnotherTimerHasTaken) {
  Timer first, second;
  ASSERT_TRUE(first.set(kInAnHour));
  ASSERT_EQ(holds().size(), 1U);
  TimedWait* const place = holds()[0];
  place->thread = 0;  // As the skipper does when the timer is over.
  ASSERT_TRUE(second.set(kEachHour));
  ASSERT_EQ(holds(), std::vector{place});
  ASSERT_TRUE(first.set(kOff));
  EXPECT_EQ(holds(), std::vector{place});
}

TEST(ClockTimers, KeepsTheHoldOfATimerThatCannotBeSet) {
  Timer timer;
  EXPECT_FALSE(timer.set(kInvalid));
  EXPECT_EQ(holds().size(), 0U);
  ASSERT_TRUE(timer.set(kInAnHour));
  const std::vector<TimedWait*> before = holds();
  EXPECT_FALSE(timer.set(kInvalid));
  EXPECT_EQ(holds(), before);
}

TEST(ClockTimers, KeepsTheHoldOfAnIntervalTimerThatCannotBeSet) {
  const itimerval invalid{.it_interval = {}, .it_value = {.tv_sec = 1, .tv_usec = -1}};
  EXPECT_NE(GPEMU_OF_CLOCK(setitimer)(ITIMER_REAL, &invalid, nullptr), 0);
  EXPECT_EQ(holds().size(), 0U);
  GPEMU_OF_CLOCK(alarm)(3600);
  EXPECT_EQ(holds().size(), 1U);
  EXPECT_GE(GPEMU_OF_CLOCK(alarm)(0), 1U);
  EXPECT_EQ(holds().size(), 0U);
}

TEST(ClockTimers, HoldsTheClockForEverForTimersWithoutAPlace) {
  std::array<Timer, 33> timers;
  for (Timer& timer : timers) ASSERT_TRUE(timer.set(kInAnHour));
  EXPECT_EQ(holds().size(), timers.size());
  ASSERT_TRUE(timers.back().set(kOff));
  // The others are still held.
  EXPECT_GE(std::ranges::count_if(
                holds(), [](const TimedWait* wait) { return wait->until_ns != INT64_MAX; }),
            32);
}

/// While this exists, the emulated host is twice as slow as this one.
class SlowHost {
 public:
  SlowHost() { set(2000); }
  SlowHost(const SlowHost&) = delete;
  SlowHost& operator=(const SlowHost&) = delete;
  ~SlowHost() { set(0); }

 private:
  static void set(std::uint32_t permille) { clock_library().page->pace.permille = permille; }
};

TEST(ClockTimers, RunTwiceAsFastIfTheHostIsTwiceAsSlow) {
  const SlowHost slow;
  GPEMU_OF_CLOCK(alarm)(3600);
  itimerval host{}, node{};
  ASSERT_EQ(::getitimer(ITIMER_REAL, &host), 0);
  ASSERT_EQ(GPEMU_OF_CLOCK(getitimer)(ITIMER_REAL, &node), 0);
  EXPECT_LE(host.it_value.tv_sec, 1800);
  EXPECT_GT(node.it_value.tv_sec, 1800);
  EXPECT_LE(node.it_value.tv_sec, 3600);
  EXPECT_GT(GPEMU_OF_CLOCK(alarm)(0), 1800U);

  timer_t timer{};
  sigevent nothing{};
  nothing.sigev_notify = SIGEV_NONE;
  ASSERT_EQ(::timer_create(CLOCK_MONOTONIC, &nothing, &timer), 0);
  timespec now{};
  ASSERT_EQ(GPEMU_OF_CLOCK(clock_gettime)(CLOCK_MONOTONIC, &now), 0);
  for (const bool absolute : {false, true}) {
    itimerspec value = kEachHour, seen{};
    if (absolute) value.it_value.tv_sec += now.tv_sec;
    ASSERT_EQ(GPEMU_OF_CLOCK(timer_settime)(timer, absolute ? TIMER_ABSTIME : 0, &value, nullptr),
              0);
    ASSERT_EQ(::timer_gettime(timer, &seen), 0);
    EXPECT_LE(seen.it_value.tv_sec, 1800);
    EXPECT_EQ(seen.it_interval.tv_sec, 1800);
    ASSERT_EQ(GPEMU_OF_CLOCK(timer_gettime)(timer, &seen), 0);
    EXPECT_GT(seen.it_value.tv_sec, 1800);
    EXPECT_LE(seen.it_value.tv_sec, 3600);
    EXPECT_EQ(seen.it_interval.tv_sec, 3600);
  }
  EXPECT_EQ(GPEMU_OF_CLOCK(timer_delete)(timer), 0);
}

TEST(ClockCpuTime, IsThatOfTheSlowerHost) {
  const SlowHost slow;
  clockid_t of_process{};
  ASSERT_EQ(::clock_getcpuclockid(0, &of_process), 0);
  for (const clockid_t clock : {CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID, of_process}) {
    timespec before{}, node{}, after{};
    ASSERT_EQ(::clock_gettime(clock, &before), 0);
    ASSERT_EQ(GPEMU_OF_CLOCK(clock_gettime)(clock, &node), 0);
    ASSERT_EQ(::clock_gettime(clock, &after), 0);
    EXPECT_GE(to_ns(node), 2 * to_ns(before));
    EXPECT_LE(to_ns(node), 2 * to_ns(after));
  }
}

TEST(ClockNull, TheTimeOfDayIsNotWrittenToNull) {
  struct timezone* const no_zone = nullptr;
  timeval* volatile nowhere = nullptr;
  EXPECT_EQ(GPEMU_OF_CLOCK(gettimeofday)(nowhere, no_zone), 0);
}

TEST(ClockNull, SleepsWithoutATimeFailAsInLinux) {
  const timespec* volatile nowhere = nullptr;
  EXPECT_EQ(GPEMU_OF_CLOCK(nanosleep)(nowhere, nullptr), -1);
  EXPECT_EQ(errno, EFAULT);
  EXPECT_EQ(GPEMU_OF_CLOCK(clock_nanosleep)(CLOCK_MONOTONIC, 0, nowhere, nullptr), EFAULT);
}

}  // namespace
