// SPDX-License-Identifier: Apache-2.0
#include "call_wait.hpp"

#include <array>
#include <cstring>
#include <linux/futex.h>
#include <map>
#include <poll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <utility>

#include <gtest/gtest.h>

namespace gpemu::skip {
namespace {

using Arguments = std::array<std::uint64_t, 6>;
using Files = std::vector<FileWait>;

constexpr std::uint64_t kNone = 0, kSome = 0x7ffc1000, kMinusOne = ~0ULL;
constexpr std::uint64_t kAddress = 0x7f0e0c0, kList = 0x7f0e000;
constexpr Direction kReads = Direction::kRead, kWrites = Direction::kWrite;

std::optional<CallWait> wait_in(long number, const Arguments& arguments) {
  return wait_of({.number = number, .arguments = arguments},
                 [](std::uint64_t, std::span<std::byte>) { return false; });
}

struct Case {
  long number;
  Arguments arguments;
  CallWait expected;
};

TEST(CallWait, AFileIsReadOrWrittenWithoutALimit) {
  for (const long number :
       {SYS_read, SYS_readv, SYS_recvfrom, SYS_recvmsg, SYS_accept, SYS_accept4}) {
    EXPECT_EQ(wait_in(number, {7, kSome, 1}), (CallWait{.files = {{7, kReads}}})) << number;
  }
  for (const long number : {SYS_write, SYS_writev, SYS_sendto, SYS_sendmsg}) {
    EXPECT_EQ(wait_in(number, {7, kSome, 1}), (CallWait{.files = {{7, kWrites}}})) << number;
  }
}

TEST(CallWait, IsTimedByTheArgumentThatHasTheLimit) {
  const CallWait poll_set{.files = {{7, kReads}}}, timed_set{.timed = true, .files = {{7, kReads}}};
  const CallWait other{}, timed{.timed = true};
  const std::vector<Case> cases = {
#ifdef SYS_epoll_wait
      {SYS_epoll_wait, {7, kSome, 1, kMinusOne}, poll_set},
      {SYS_epoll_wait, {7, kSome, 1, 0xffffffff}, poll_set},
      {SYS_epoll_wait, {7, kSome, 1, 0}, timed_set},
#endif
      {SYS_epoll_pwait, {7, kSome, 1, kMinusOne}, poll_set},
      {SYS_epoll_pwait, {7, kSome, 1, 3'600'000}, timed_set},
      {SYS_epoll_pwait2, {7, kSome, 1, kNone}, poll_set},
      {SYS_epoll_pwait2, {7, kSome, 1, kSome}, timed_set},
#ifdef SYS_poll
      {SYS_poll, {kNone, 0, kMinusOne}, other},
      {SYS_poll, {kNone, 0, 3'600'000}, timed},
#endif
      {SYS_ppoll, {kNone, 0, kNone}, other},
      {SYS_ppoll, {kNone, 0, kSome}, timed},
#ifdef SYS_select
      {SYS_select, {0, kNone, kNone, kNone, kNone}, other},
      {SYS_select, {0, kNone, kNone, kNone, kSome}, timed},
#endif
      {SYS_pselect6, {0, kNone, kNone, kNone, kNone, kSome}, other},
      {SYS_pselect6, {0, kNone, kNone, kNone, kSome, kNone}, timed},
      {SYS_rt_sigtimedwait, {kSome, kSome, kNone, 8}, other},
      {SYS_rt_sigtimedwait, {kSome, kSome, kSome, 8}, timed},
      {SYS_nanosleep, {kSome}, timed},
      {SYS_clock_nanosleep, {1, 1, kSome}, timed},
  };
  for (const auto& [number, arguments, expected] : cases) {
    EXPECT_EQ(wait_in(number, arguments), expected) << number << ' ' << arguments[3];
  }
}

TEST(CallWait, ChildrenAndSignalsNeedNoLook) {
  for (const long number : {SYS_wait4, SYS_waitid, SYS_rt_sigsuspend}) {
    EXPECT_EQ(wait_in(number, {kMinusOne, kSome, 0, kSome}), CallWait{}) << number;
  }
#ifdef SYS_pause
  EXPECT_EQ(wait_in(SYS_pause, {}), CallWait{});
#endif
}

TEST(CallWait, NoOtherCallCounts) {
  for (const long number : std::vector<long>{-1, 100'000, SYS_restart_syscall, SYS_openat,
                                             SYS_fsync, SYS_io_uring_enter, SYS_connect}) {
    EXPECT_EQ(wait_in(number, {}), std::nullopt) << number;
  }
}

TEST(CallWait, AFutexCountsIfItIsWaitedFor) {
  for (const int operation :
       {FUTEX_WAIT, FUTEX_WAIT_BITSET, FUTEX_LOCK_PI, FUTEX_WAIT_REQUEUE_PI, FUTEX_LOCK_PI2}) {
    const auto flags = static_cast<std::uint64_t>(operation);
    EXPECT_EQ(wait_in(SYS_futex, {kAddress, flags, 0, kNone}), CallWait{.shared_futex = kAddress});
    EXPECT_EQ(wait_in(SYS_futex, {kAddress, flags | FUTEX_CLOCK_REALTIME, 0, kSome}),
              (CallWait{.timed = true, .shared_futex = kAddress}));
  }
  for (const std::uint64_t flags : {FUTEX_WAKE, FUTEX_REQUEUE, FUTEX_UNLOCK_PI, 99}) {
    EXPECT_EQ(wait_in(SYS_futex, {kAddress, flags, 0, kNone}), std::nullopt) << flags;
  }
}

TEST(CallWait, APrivateFutexNeedsNoLook) {
  const std::uint64_t flags = FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG;
  EXPECT_EQ(wait_in(SYS_futex, {kAddress, flags, 0, kNone}), CallWait{});
  EXPECT_EQ(wait_in(SYS_futex, {kAddress, flags, 0, kSome}), CallWait{.timed = true});
}

TEST(CallWait, APollWaitsForItsList) {
  const std::vector<pollfd> list = {{.fd = 3, .events = POLLIN, .revents = 0},
                                    {.fd = 4, .events = POLLOUT, .revents = 0},
                                    {.fd = -1, .events = POLLIN, .revents = 0},
                                    {.fd = 5, .events = POLLPRI | POLLWRNORM, .revents = 0},
                                    {.fd = 6, .events = 0, .revents = 0}};
  const auto read = [&list](std::uint64_t address, std::span<std::byte> to) {
    if (address != kList || to.size() != list.size() * sizeof(pollfd)) return false;
    std::memcpy(to.data(), list.data(), to.size());
    return true;
  };
  const SystemCall call{.number = SYS_ppoll, .arguments = {kList, list.size(), kNone}};
  EXPECT_EQ(wait_of(call, read),
            (CallWait{.files = {{3, kReads}, {4, kWrites}, {5, Direction::kBoth}, {6, kReads}}}));
}

TEST(CallWait, ASelectWaitsForTheBitsOfItsSets) {
  // In words of 64 bits. A bit beyond the count does not count.
  const std::map<std::uint64_t, std::array<std::uint64_t, 2>> sets = {
      {0x1000, {0b1001, 0b101}}, {0x2000, {0b1, 0}}, {0x3000, {0, 0b10}}};
  const auto read = [&sets](std::uint64_t address, std::span<std::byte> to) {
    const auto set = sets.find(address);
    if (set == sets.end() || to.size() != sizeof set->second) return false;
    std::memcpy(to.data(), set->second.data(), to.size());
    return true;
  };
  const auto wait = [&read](std::uint64_t reads, std::uint64_t writes, std::uint64_t exceptions) {
    return wait_of({.number = SYS_pselect6, .arguments = {66, reads, writes, exceptions}}, read);
  };
  EXPECT_EQ(
      wait(0x1000, 0x2000, 0x3000),
      (CallWait{.files = {{0, kReads}, {3, kReads}, {64, kReads}, {0, kWrites}, {65, kReads}}}));
  EXPECT_EQ(wait(kNone, 0x2000, kNone), (CallWait{.files = {{0, kWrites}}}));
  EXPECT_EQ(wait(0x1000, 0x2000, 0x4000), std::nullopt) << "memory that cannot be read";
}

TEST(CallWait, AListThatCannotBeReadOrIsTooLongDoesNotCount) {
  EXPECT_EQ(wait_in(SYS_ppoll, {kList, 1, kNone}), std::nullopt);
  EXPECT_EQ(wait_in(SYS_pselect6, {1, kList, kNone, kNone, kNone}), std::nullopt);
  const auto any = [](std::uint64_t, std::span<std::byte>) { return true; };
  for (const auto& [count, counts] : {std::pair(4096ULL, true), {4097ULL, false}, {~0ULL, false}}) {
    EXPECT_EQ(wait_of({.number = SYS_ppoll, .arguments = {kList, count}}, any).has_value(), counts);
    EXPECT_EQ(wait_of({.number = SYS_pselect6, .arguments = {count, kList}}, any).has_value(),
              counts);
  }
}

TEST(CallWait, ACallThatGoesOnIsTheLastOneWithTheSameArguments) {
  const SystemCall last{.number = SYS_ppoll, .arguments = {kList, 1}};
  const SystemCall other{.number = SYS_restart_syscall, .arguments = {kList, 2}};
  EXPECT_EQ(resumed({.number = SYS_restart_syscall, .arguments = {kList, 1}}, last), last);
  EXPECT_EQ(resumed(other, last), other);
  EXPECT_EQ(resumed({.number = SYS_read, .arguments = {kList, 1}}, last).number, SYS_read);
}

}  // namespace
}  // namespace gpemu::skip
