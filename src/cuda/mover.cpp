// SPDX-License-Identifier: Apache-2.0
#include "mover.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "gpemu/base/mutex.hpp"
#include "gpemu/base/thread.hpp"

namespace gpemu::cuda {
namespace {

bool overlap(const Access& a, const Access& b) {
  return (a.writes || b.writes) && a.start < b.start + b.bytes && b.start < a.start + a.bytes;
}

bool overlap(std::span<const Access> some, std::span<const Access> others) {
  for (const Access& a : some) {
    for (const Access& b : others) {
      if (overlap(a, b)) return true;
    }
  }
  return false;
}

}  // namespace

Mover::~Mover() {
  {
    const Lock lock(mutex_);
    stopped_ = true;
  }
  wake(Lane::kEither);
  for (Thread& one : threads_) {
    if (one.thread.joinable()) one.thread.join();
  }
}

bool Mover::waits_outside(const Job& job) const {
  if (job.may_begin) return true;
  if (counted_ == entries_.size()) return false;
  return std::ranges::any_of(entries_, [&job](const Entry& earlier) {
    return earlier.waits_outside && overlap(earlier.job.accesses, job.accesses);
  });
}

device::Moment Mover::last_end(const Job& job) const {
  device::Moment last = job.end;
  for (const Entry& earlier : entries_) {
    const device::Moment& end = earlier.job.end;
    if (end.time() >= last.time() && overlap(earlier.job.accesses, job.accesses)) last = end;
  }
  return last;
}

void Mover::block(Entry& entry, Entries::iterator end) {
  while (end != entries_.begin()) {
    Entry& earlier = *--end;
    if (!overlap(earlier.job.accesses, entry.job.accesses)) continue;
    entry.blocked = true;
    entry.next_blocked = std::exchange(earlier.first_blocked, &entry);
    return;
  }
  entry.blocked = false;
}

void Mover::add(Job job) {
  Lock lock(mutex_);
  if (!ensure_thread(job.lane)) {
    wait_locked(lock,
                [&](const Entry& entry) { return overlap(entry.job.accesses, job.accesses); });
    lock.unlock();
    return job.work();
  }
  bool outside = waits_outside(job);
  if (!outside && counted_ >= kMostJobs) {
    done_.wait(lock, [this]() GPEMU_REQUIRES(mutex_) { return counted_ < kMostJobs; });
    outside = waits_outside(job);
  }
  if (job.ends_with_overlapped) job.end = last_end(job);
  if (!outside) ++counted_;
  entries_.push_back({.job = std::move(job), .number = next_number_++, .waits_outside = outside});
  unfinished_.store(entries_.size(), std::memory_order_release);
  Entry& entry = entries_.back();
  block(entry, std::prev(entries_.end()));
  // Waking a thread costs the host more than looking whether it has something to do.
  if (!paused_ && is_ready(entry)) wake(entry.job.lane);
}

bool Mover::is_ready(const Entry& entry) {
  return !entry.running && !entry.blocked && (!entry.job.may_begin || entry.job.may_begin());
}

bool Mover::remove(Entries::iterator done) {
  bool frees = false;
  for (Entry* later = done->first_blocked; later != nullptr;) {
    Entry& freed = *std::exchange(later, later->next_blocked);
    block(freed, done);
    frees |= !freed.blocked;
  }
  if (!done->waits_outside) --counted_;
  entries_.erase(done);
  unfinished_.store(entries_.size(), std::memory_order_release);
  return frees;
}

void Mover::wake(Lane lane) {
  for (Thread& thread : threads_) {
    if (lane == Lane::kEither || lane == thread.lane) thread.changed.notify_one();
  }
}

bool Mover::ensure_thread(Lane lane) {
  // Each thread does jobs for either lane.
  if (lane == Lane::kEither) {
    if (threads_[0].thread.joinable() || threads_[1].thread.joinable()) return true;
    lane = Lane::kToDevice;
  }
  Thread& own = threads_[lane == Lane::kToHost ? 1 : 0];
  if (own.thread.joinable()) return true;
  own.lane = lane;
  own.thread = start_thread(lane == Lane::kToHost ? "gpemu-to-host" : "gpemu-to-dev",
                            [this, &own] { run(own); });
  return own.thread.joinable();
}

Mover::Entries::iterator Mover::find_ready(Lane lane) {
  return std::ranges::find_if(entries_, [lane](const Entry& entry) {
    return (entry.job.lane == lane || entry.job.lane == Lane::kEither) && is_ready(entry);
  });
}

void Mover::run(Thread& thread) {
  Lock lock(mutex_);
  while (true) {
    auto entry = entries_.end();
    thread.changed.wait(lock, [&]() GPEMU_REQUIRES(mutex_) {
      if (stopped_) return true;
      if (!paused_) entry = find_ready(thread.lane);
      return entry != entries_.end();
    });
    if (stopped_) return;
    entry->running = true;
    lock.unlock();
    entry->job.work();
    lock.lock();
    const bool frees = remove(entry);
    done_.notify_all();
    if (frees) wake(Lane::kEither);
  }
}

template <typename Concerns>
void Mover::wait_locked(Lock& lock, Concerns concerns) {
  const std::uint64_t given = next_number_;
  done_.wait(lock, [&]() GPEMU_REQUIRES(mutex_) {
    return std::ranges::none_of(
        entries_, [&](const Entry& entry) { return entry.number < given && concerns(entry); });
  });
}

void Mover::wait_for_all() {
  if (!busy()) return;
  Lock lock(mutex_);
  wait_locked(lock, [](const Entry&) { return true; });
}

void Mover::wait_until(TimePoint time) {
  if (!busy()) return;
  Lock lock(mutex_);
  wait_locked(lock, [time](const Entry& entry) { return entry.job.end.is_over(time); });
}

bool Mover::is_done_until(TimePoint time) const {
  if (!busy()) return true;
  const Lock lock(mutex_);
  return std::ranges::none_of(entries_,
                              [time](const Entry& entry) { return entry.job.end.is_over(time); });
}

void Mover::wait_for(std::span<const Access> accesses) {
  if (!busy()) return;
  Lock lock(mutex_);
  wait_locked(lock,
              [accesses](const Entry& entry) { return overlap(entry.job.accesses, accesses); });
}

bool Mover::overlaps_any(std::span<const Access> accesses) const {
  const Lock lock(mutex_);
  return std::ranges::any_of(
      entries_, [accesses](const Entry& entry) { return overlap(entry.job.accesses, accesses); });
}

void Mover::look_again() {
  if (!busy()) return;
  // A thread that has just checked must be waiting before it is woken.
  {
    const Lock lock(mutex_);
  }
  wake(Lane::kEither);
}

void Mover::pause() {
  const Lock lock(mutex_);
  paused_ = true;
}

void Mover::resume() {
  {
    const Lock lock(mutex_);
    paused_ = false;
  }
  wake(Lane::kEither);
}

}  // namespace gpemu::cuda
