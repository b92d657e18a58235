// SPDX-License-Identifier: Apache-2.0
#include "call_wait.hpp"

#include <linux/futex.h>
#include <poll.h>
#include <sys/select.h>
#include <sys/syscall.h>

namespace gpemu::skip {
namespace {

/// A poll() with more descriptors is not examined.
constexpr std::uint64_t kMostPolled = 4096;

/// Returns whether a time limit in milliseconds is one: negative numbers stand for none.
bool is_limit(std::uint64_t milliseconds) {
  return static_cast<int>(milliseconds) >= 0;
}

CallWait wait_on_file(const SystemCall& call, Direction direction, bool timed = false) {
  return {.timed = timed, .files = {{static_cast<int>(call.arguments[0]), direction}}};
}

std::optional<CallWait> wait_in_poll(const SystemCall& call, bool timed, const ReadMemory& read) {
  const std::uint64_t list = call.arguments[0], count = call.arguments[1];
  if (count > kMostPolled) return std::nullopt;
  std::vector<pollfd> polled(count);
  if (count > 0 && !read(list, std::as_writable_bytes(std::span(polled)))) return std::nullopt;
  CallWait wait{.timed = timed};
  for (const pollfd& file : polled) {
    if (file.fd < 0) continue;
    const bool reads = (file.events & (POLLIN | POLLRDNORM | POLLRDHUP | POLLPRI)) != 0;
    const bool writes = (file.events & (POLLOUT | POLLWRNORM)) != 0;
    wait.files.push_back({file.fd, direction_of(reads, writes)});
  }
  return wait;
}

std::optional<CallWait> wait_in_select(const SystemCall& call, const ReadMemory& read) {
  using Word = std::uint64_t;
  constexpr std::uint64_t kBits = 64;
  const auto& arguments = call.arguments;
  const std::uint64_t count = arguments[0];
  if (count > kMostPolled) return std::nullopt;
  CallWait wait{.timed = arguments[4] != 0};
  std::vector<Word> bits((count + kBits - 1) / kBits);
  // The kernel copied the request when the call began, and writes the answer at its end.
  for (std::size_t set = 1; set <= 3; ++set) {
    if (arguments[set] == 0 || bits.empty()) continue;
    if (!read(arguments[set], std::as_writable_bytes(std::span(bits)))) return std::nullopt;
    for (std::uint64_t i = 0; i < count; ++i) {
      if ((bits[i / kBits] >> (i % kBits) & 1) == 0) continue;
      wait.files.push_back({static_cast<int>(i), direction_of(set != 2, set == 2)});
    }
  }
  return wait;
}

std::optional<CallWait> wait_in_futex(const SystemCall& call) {
  const auto& arguments = call.arguments;
  const auto operation = static_cast<int>(arguments[1]) & FUTEX_CMD_MASK;
  const bool waits = operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET ||
                     operation == FUTEX_LOCK_PI || operation == FUTEX_WAIT_REQUEUE_PI ||
                     operation == FUTEX_LOCK_PI2;
  if (!waits) return std::nullopt;
  CallWait wait{.timed = arguments[3] != 0};
  if ((arguments[1] & FUTEX_PRIVATE_FLAG) == 0) wait.shared_futex = arguments[0];
  return wait;
}

}  // namespace

std::optional<CallWait> wait_of(const SystemCall& call, const ReadMemory& read) {
  const auto& arguments = call.arguments;
  switch (call.number) {
    case SYS_futex:
      return wait_in_futex(call);
    case SYS_read:
    case SYS_readv:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_accept:
    case SYS_accept4:
      return wait_on_file(call, Direction::kRead);
    case SYS_write:
    case SYS_writev:
    case SYS_sendto:
    case SYS_sendmsg:
      return wait_on_file(call, Direction::kWrite);
#ifdef SYS_poll
    case SYS_poll:
      return wait_in_poll(call, is_limit(arguments[2]), read);
#endif
    case SYS_ppoll:
      return wait_in_poll(call, arguments[2] != 0, read);
#ifdef SYS_select
    case SYS_select:
#endif
    case SYS_pselect6:
      return wait_in_select(call, read);
#ifdef SYS_epoll_wait
    case SYS_epoll_wait:
#endif
    case SYS_epoll_pwait:
      return wait_on_file(call, Direction::kRead, is_limit(arguments[3]));
    case SYS_epoll_pwait2:
      return wait_on_file(call, Direction::kRead, arguments[3] != 0);
    case SYS_rt_sigtimedwait:
      return CallWait{.timed = arguments[2] != 0};
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
      return CallWait{.timed = true};
    case SYS_wait4:
    case SYS_waitid:
    case SYS_rt_sigsuspend:
#ifdef SYS_pause
    case SYS_pause:
#endif
      return CallWait{};
    default:
      return std::nullopt;
  }
}

SystemCall resumed(SystemCall call, const SystemCall& last) {
  if (call.number == SYS_restart_syscall && call.arguments == last.arguments) {
    call.number = last.number;
  }
  return call;
}

}  // namespace gpemu::skip
