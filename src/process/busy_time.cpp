// SPDX-License-Identifier: Apache-2.0
#include "busy_time.hpp"

#include <algorithm>

namespace gpemu::process {
namespace {

/// Queued work of three engines rarely leaves more gaps than this.
constexpr std::size_t kMaxRecent = 64;

}  // namespace

void BusyTime::add(std::int64_t start, std::int64_t end) {
  start = std::max(start, summed_until_);
  if (end <= start) return;
  // Nearly always it continues the last interval.
  if (!recent_.empty() && start >= recent_.back().first && start <= recent_.back().second) {
    total_ += std::max(end - recent_.back().second, std::int64_t{0});
    recent_.back().second = std::max(recent_.back().second, end);
    return;
  }
  // Finds the first interval that touches this one, and all intervals that it touches.
  auto first = recent_.end();
  while (first != recent_.begin() && std::prev(first)->second >= start) --first;
  auto last = first;
  std::int64_t counted = 0;
  while (last != recent_.end() && last->first <= end) {
    start = std::min(start, last->first);
    end = std::max(end, last->second);
    counted += last->second - last->first;
    ++last;
  }
  total_ += end - start - counted;
  if (first == last) {
    recent_.insert(first, {start, end});
  } else {
    *first = {start, end};
    recent_.erase(std::next(first), last);
  }
  if (recent_.size() > kMaxRecent) {
    summed_until_ = recent_.front().second;
    recent_.pop_front();
  }
}

}  // namespace gpemu::process
