// SPDX-License-Identifier: Apache-2.0
#include "gpemu/streams/mover.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <utility>

#include "gpemu/base/mutex.hpp"
#include "gpemu/base/thread.hpp"

namespace gpemu::streams {
namespace {

bool overlap(const Access& a, const Access& b) {
  return (a.writes || b.writes) && a.bytes > 0 && b.bytes > 0 && a.start < b.start + b.bytes &&
         b.start < a.start + a.bytes;
}

/// As overlap() of two lists: an access overlaps another one that starts earlier, if that reaches
/// beyond its start.
bool overlap_in_order(std::span<const Access> some, std::span<const Access> others) {
  struct Reach {
    std::uint64_t any = 0, written = 0;
  };
  std::vector<std::pair<const Access*, std::size_t>> sorted;
  sorted.reserve(some.size() + others.size());
  for (const Access& access : some) sorted.emplace_back(&access, 0);
  for (const Access& access : others) sorted.emplace_back(&access, 1);
  std::ranges::sort(sorted, {}, [](const auto& one) { return one.first->start; });
  std::array<Reach, 2> reaches{};
  for (const auto& [access, list] : sorted) {
    if (access->bytes == 0) continue;
    const Reach& before = reaches[1 - list];
    if ((access->writes ? before.any : before.written) > access->start) return true;
    Reach& own = reaches[list];
    own.any = std::max(own.any, access->start + access->bytes);
    if (access->writes) own.written = std::max(own.written, access->start + access->bytes);
  }
  return false;
}

}  // namespace

bool overlap(std::span<const Access> some, std::span<const Access> others) {
  constexpr std::size_t kFewPairs = 64;
  if (some.size() * others.size() > kFewPairs) return overlap_in_order(some, others);
  for (const Access& a : some) {
    for (const Access& b : others) {
      if (overlap(a, b)) return true;
    }
  }
  return false;
}

Mover::~Mover() {
  {
    const Lock lock(mutex_);
    stopped_ = true;
  }
  for (Thread& one : threads_) {
    one.changed.notify_one();
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

bool Mover::block(Entry& entry, Entries::iterator end) {
  while (end != entries_.begin()) {
    Entry& earlier = *--end;
    if (!overlap(earlier.job.accesses, entry.job.accesses)) continue;
    entry.next_blocked = std::exchange(earlier.first_blocked, &entry);
    return true;
  }
  next_.insert(std::move(entry.place));
  return false;
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
    ++held_up_;
    done_.wait(lock, [this]() GPEMU_REQUIRES(mutex_) { return counted_ < kMostJobs; });
    --held_up_;
    outside = waits_outside(job);
  }
  if (job.ends_with_overlapped) job.end = last_end(job);
  // What allocates comes before what changes anything, because it may fail.
  Next place;
  place.emplace(next_number_, nullptr);
  entries_.push_back({.job = std::move(job),
                      .number = next_number_,
                      .waits_outside = outside,
                      .place = place.extract(next_number_)});
  ++next_number_;
  if (!outside) ++counted_;
  unfinished_.store(entries_.size(), std::memory_order_release);
  Entry& entry = entries_.back();
  entry.position = std::prev(entries_.end());
  entry.place.mapped() = &entry;
  Woken woken{};
  if (!block(entry, entry.position) && !paused_ && may_begin(entry)) end_idleness(entry, woken);
  lock.unlock();
  wake(woken);
}

bool Mover::remove(Entry& done) {
  bool frees = false;
  for (Entry* later = done.first_blocked; later != nullptr;) {
    Entry& freed = *std::exchange(later, later->next_blocked);
    if (!block(freed, done.position)) frees = true;
  }
  if (!done.waits_outside) --counted_;
  entries_.erase(done.position);
  unfinished_.store(entries_.size(), std::memory_order_release);
  return frees;
}

void Mover::end_idleness(const Entry& entry, Woken& woken) {
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    if (!threads_[i].is_idle || !does(threads_[i], entry)) continue;
    threads_[i].is_idle = false;
    woken[i] = true;
    return;
  }
}

Mover::Woken Mover::find_threads(const Thread* own) {
  Woken woken{};
  if (paused_) return woken;
  for (const auto& [number, next] : next_) {
    const Entry& entry = *next;
    if (own == nullptr && std::ranges::none_of(threads_, &Thread::is_idle)) break;
    const bool is_for_own = own != nullptr && does(*own, entry);
    const auto is_for = [&entry](const Thread& one) { return one.is_idle && does(one, entry); };
    // Waking a thread costs the host more than looking whether it has something to do.
    if ((!is_for_own && std::ranges::none_of(threads_, is_for)) || !may_begin(entry)) continue;
    if (is_for_own) {
      own = nullptr;
    } else {
      end_idleness(entry, woken);
    }
  }
  return woken;
}

void Mover::wake(Woken woken) {
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    if (woken[i]) threads_[i].changed.notify_one();
  }
}

bool Mover::ensure_thread(Lane lane) {
  if (lane == Lane::kEither) {
    // Each thread does jobs of either lane, but one that is busy may stay busy for long.
    const auto has_started = [](const Thread& one) { return one.thread.joinable(); };
    if (std::ranges::all_of(threads_, has_started)) return true;
    const auto first = std::ranges::find_if(threads_, has_started);
    if (first != threads_.end() && first->is_idle) return true;
    lane = first == threads_.begin() ? Lane::kToHost : Lane::kToDevice;
  }
  Thread& own = threads_[lane == Lane::kToHost ? 1 : 0];
  if (own.thread.joinable()) return true;
  own.lane = lane;
  own.thread = start_thread(lane == Lane::kToHost ? "gpemu-to-host" : "gpemu-to-dev",
                            [this, &own] { run(own); });
  return own.thread.joinable();
}

Mover::Entry* Mover::find_ready(const Thread& thread) {
  for (const auto& [number, entry] : next_) {
    if (does(thread, *entry) && may_begin(*entry)) return entry;
  }
  return nullptr;
}

void Mover::run(Thread& thread) {
  // The threads for which the end of the last job matters. They are woken once the mutex is free,
  // after this thread has chosen what it does next.
  bool is_awaited = false;
  Woken woken{};
  const auto tell = [&] {
    if (std::exchange(is_awaited, false)) done_.notify_all();
    wake(std::exchange(woken, {}));
  };
  Lock lock(mutex_);
  while (!stopped_) {
    Entry* const entry = paused_ ? nullptr : find_ready(thread);
    if (entry != nullptr) {
      next_.erase(entry->number);
      lock.unlock();
      tell();
      entry->job.work();
      lock.lock();
      is_awaited = entry->is_awaited || held_up_ > 0;
      if (remove(*entry)) woken = find_threads(&thread);
    } else if (is_awaited || woken != Woken{}) {
      lock.unlock();
      tell();
      lock.lock();
    } else {
      thread.is_idle = true;
      thread.changed.wait(lock,
                          [&]() GPEMU_REQUIRES(mutex_) { return stopped_ || !thread.is_idle; });
    }
  }
  lock.unlock();
  tell();
}

template <typename Concerns>
void Mover::wait_locked(Lock& lock, Concerns concerns) {
  const std::uint64_t given = next_number_;
  while (true) {
    // When the last one is done, the others usually are.
    const auto last = std::ranges::find_if(entries_.rbegin(), entries_.rend(), [&](const Entry& e) {
      return e.number < given && concerns(e);
    });
    if (last == entries_.rend()) return;
    last->is_awaited = true;
    done_.wait(lock, [this, number = last->number]() GPEMU_REQUIRES(mutex_) {
      return std::ranges::none_of(entries_,
                                  [number](const Entry& e) { return e.number == number; });
    });
  }
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
  Lock lock(mutex_);
  const Woken woken = find_threads(nullptr);
  lock.unlock();
  wake(woken);
}

void Mover::pause() {
  const Lock lock(mutex_);
  paused_ = true;
}

void Mover::resume() {
  Lock lock(mutex_);
  paused_ = false;
  const Woken woken = find_threads(nullptr);
  lock.unlock();
  wake(woken);
}

}  // namespace gpemu::streams
