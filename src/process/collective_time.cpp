// SPDX-License-Identifier: Apache-2.0
#include "collective_time.hpp"

#include <algorithm>

namespace gpemu::process {
namespace {

/// More separate collectives than any whose kernels may still be told.
constexpr std::size_t kMostCollectives = 1024;

/// More gaps between kernels than there are while collectives that end are in progress; limits the
/// memory if one never ends.
constexpr std::size_t kMostKernels = 1 << 16;

}  // namespace

std::int64_t TimeSet::covered(std::int64_t start, std::int64_t end) const {
  std::int64_t sum = 0;
  auto next = ends_.upper_bound(start);
  if (next != ends_.begin()) --next;
  for (; next != ends_.end() && next->first < end; ++next) {
    sum += std::max<std::int64_t>(0, std::min(next->second, end) - std::max(next->first, start));
  }
  return sum;
}

void TimeSet::forget(std::int64_t until, std::size_t most) {
  while (!ends_.empty() && (ends_.begin()->second <= until || ends_.size() > most)) {
    forgotten_until_ = ends_.begin()->second;
    ends_.erase(ends_.begin());
  }
}

void CollectiveTime::finish(std::int64_t asked, std::int64_t arrived, std::int64_t start,
                            std::int64_t end) {
  in_progress_.add(arrived, end, [this](std::int64_t from, std::int64_t to) {
    total_ += to - from;
    hidden_ += kernels_.covered(from, to);
  });
  in_motion_.add(start, end, [this](std::int64_t from, std::int64_t to) { moving_ += to - from; });
  in_progress_.forget(INT64_MIN, kMostCollectives);
  in_motion_.forget(INT64_MIN, kMostCollectives);
  if (const auto found = open_.find(asked); found != open_.end()) open_.erase(found);
}

void CollectiveTime::run(std::int64_t start, std::int64_t end) {
  kernels_.add(start, end, [this](std::int64_t from, std::int64_t to) {
    hidden_ += in_progress_.covered(from, to);
  });
  last_start_ = std::max(last_start_, start);
  // What is asked for from now on comes after the start of this kernel.
  kernels_.forget(open_.empty() ? last_start_ : std::min(*open_.begin(), last_start_),
                  kMostKernels);
}

}  // namespace gpemu::process
