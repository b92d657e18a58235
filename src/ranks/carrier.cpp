// SPDX-License-Identifier: Apache-2.0
#include "gpemu/ranks/carrier.hpp"

#include <algorithm>
#include <cerrno>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "gpemu/base/text.hpp"
#include "gpemu/base/thread.hpp"

namespace gpemu::ranks {

Carrier::~Carrier() {
  {
    const Lock lock(mutex_);
    stops_ = true;
  }
  if (!thread_.joinable()) return;
  wake();
  thread_.join();
}

Result<Carrier::Number> Carrier::add(Wire wire) {
  const Lock lock(mutex_);
  if (!thread_.joinable()) {
    bell_ = FileDescriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (bell_.get() < 0) {
      return fail(ErrorCode::kResourceLimit, "no eventfd for NCCL's network: {}",
                  errno_message(errno));
    }
    thread_ = start_thread("gpemu network", [this] { run(); });
    if (!thread_.joinable()) {
      return fail(ErrorCode::kResourceLimit, "the system starts no thread for NCCL's network");
    }
  }
  lines_.emplace(next_, Line{.wire = std::move(wire)});
  return next_++;
}

void Carrier::carry(Number number, TimePoint start, const Transfer& transfer, Ended ended) {
  {
    const Lock lock(mutex_);
    const auto found = lines_.find(number);
    if (found == lines_.end()) return;
    found->second.waiting.push_back(
        {.start = start, .transfer = transfer, .ended = std::move(ended)});
  }
  wake();
}

void Carrier::remove(Number number) {
  Lock lock(mutex_);
  const auto found = lines_.find(number);
  if (found == lines_.end()) return;
  released_.wait(lock, [&] { return !found->second.is_in_use; });
  lines_.erase(found);
}

void Carrier::wake() {
  const std::uint64_t one = 1;
  // A full counter wakes the thread, too.
  static_cast<void>(!::write(bell_.get(), &one, sizeof(one)));
}

void Carrier::go_on(Line& line, Lock& lock) {
  line.is_in_use = true;
  while (!line.waiting.empty() && line.waiting.front().start <= clock_.now()) {
    const Transfer transfer = line.waiting.front().transfer;
    lock.unlock();
    if (line.wire.state() != Wire::State::kBusy) line.wire.begin(transfer);
    const Wire::State state = line.wire.go_on();
    lock.lock();
    if (state == Wire::State::kBusy) break;
    const Ended ended = std::move(line.waiting.front().ended);
    line.waiting.pop_front();
    lock.unlock();
    ended(state == Wire::State::kIdle);
    lock.lock();
  }
  line.is_in_use = false;
  released_.notify_all();
}

TimePoint Carrier::go_on() {
  TimePoint next = TimePoint::max();
  Lock lock(mutex_);
  std::vector<Number> numbers;
  for (const auto& [number, line] : lines_) {
    if (!line.waiting.empty()) numbers.push_back(number);
  }
  for (const Number number : numbers) {
    const auto found = lines_.find(number);
    if (found == lines_.end()) continue;
    go_on(found->second, lock);
    const auto& waiting = found->second.waiting;
    if (!waiting.empty() && found->second.wire.state() != Wire::State::kBusy) {
      next = std::min(next, waiting.front().start);
    }
  }
  return next;
}

void Carrier::run() {
  std::vector<pollfd> waits;
  while (true) {
    const TimePoint next = go_on();
    waits.assign(1, {.fd = bell_.get(), .events = POLLIN, .revents = 0});
    {
      const Lock lock(mutex_);
      if (stops_) return;
      for (const auto& [number, line] : lines_) {
        for (const pollfd& wait : line.wire.awaited()) {
          if (wait.fd >= 0) waits.push_back(wait);
        }
      }
    }
    timespec limit{};
    if (next != TimePoint::max()) {
      const auto left = std::max(next - clock_.now(), Duration());
      const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
      limit = {.tv_sec = seconds.count(), .tv_nsec = (left - seconds).count()};
    }
    ::ppoll(waits.data(), waits.size(), next == TimePoint::max() ? nullptr : &limit, nullptr);
    std::uint64_t rung = 0;
    static_cast<void>(!::read(bell_.get(), &rung, sizeof(rung)));
  }
}

}  // namespace gpemu::ranks
