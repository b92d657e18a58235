// SPDX-License-Identifier: Apache-2.0
#include "gpemu/sim/patience.hpp"

#include <algorithm>

namespace gpemu::sim {

std::chrono::milliseconds Wait::step() const {
  const Duration left = std::clamp(until - clock.now(), Duration::zero(), kLook);
  return std::chrono::ceil<std::chrono::milliseconds>(left);
}

std::vector<int> Awaited::overdue(std::uint64_t round, const std::vector<int>& parties,
                                  TimePoint now) {
  if (round != round_) since_.clear();
  round_ = round;
  std::erase_if(since_, [&parties](const auto& entry) {
    return std::ranges::find(parties, entry.first) == parties.end();
  });
  std::vector<int> overdue;
  for (const int party : parties) {
    const TimePoint since = since_.try_emplace(party, now).first->second;
    if (now - since >= patience_) overdue.push_back(party);
  }
  return overdue;
}

}  // namespace gpemu::sim
