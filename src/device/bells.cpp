// SPDX-License-Identifier: Apache-2.0
#include "gpemu/device/bells.hpp"

#include <utility>
#include <vector>

#include "layout.hpp"
#include "schedule.hpp"
#include "segment.hpp"

namespace gpemu::device {

void Bells::ring(std::uint64_t identity) {
  segment_.ring(identity);
}

void Bells::ring(std::span<const std::uint64_t> identities) {
  for (const std::uint64_t identity : identities) ring(identity);
}

void Bells::ring_soon(std::span<const std::uint64_t> identities) {
  if (identities.empty()) return;
  std::vector<layout::ProcessRecord*> processes;
  for (const std::uint64_t identity : identities) {
    processes.push_back(&segment_.process(identity));
  }
  Lock lock(schedule_.mutex);
  schedule_.ring_soon(processes);
  const bool rings = schedule_.take_owed_ring();
  lock.unlock();
  if (rings) schedule_.ring_settler();
}

std::uint32_t Bells::times_rung(std::uint64_t identity) const {
  return segment_.process(identity).bell;
}

void Bells::call_when_rung(std::function<void()> function) {
  const Lock lock(mutex_);
  when_rung_ = std::move(function);
}

void Bells::answer() {
  std::function<void()> function;
  {
    const Lock lock(mutex_);
    function = when_rung_;
  }
  if (function) function();
}

}  // namespace gpemu::device
