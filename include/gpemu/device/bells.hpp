// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "gpemu/base/mutex.hpp"

namespace gpemu::device {

class Schedule;
class Segment;

/// The bells of the processes that take part in a node. Ringing one wakes the thread that settles
/// the rounds of its process, which then calls the function of call_when_rung.
///
/// A process has the identity of its attachment (Node::identity). Any number is valid; it may be
/// that of another process. Owned by its node. Thread safety: any thread.
class Bells {
 public:
  Bells(Segment& segment, Schedule& schedule) : segment_(segment), schedule_(schedule) {}

  void ring(std::uint64_t identity);
  void ring(std::span<const std::uint64_t> identities);
  /// As ring(). If they are several, the thread that settles this process's rounds does it.
  void ring_soon(std::span<const std::uint64_t> identities);
  /// Returns how often a process has been rung for.
  [[nodiscard]] std::uint32_t times_rung(std::uint64_t identity) const;

  /// Makes the thread that settles rounds call a function after each look, without a lock. Other
  /// changes at a rendezvous ring, too. Requires: this process has not taken a seat yet.
  void call_when_rung(std::function<void()> function);
  /// Calls that function, if there is one.
  void answer();

 private:
  Segment& segment_;
  Schedule& schedule_;
  Mutex mutex_;
  std::function<void()> when_rung_ GPEMU_GUARDED_BY(mutex_);
};

}  // namespace gpemu::device
