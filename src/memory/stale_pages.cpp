// SPDX-License-Identifier: Apache-2.0
#include "gpemu/memory/stale_pages.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <limits>
#include <sys/mman.h>

#include "gpemu/base/mutex.hpp"

namespace gpemu::memory {
namespace {

constexpr Bytes kHostPageSize = 4096;

/// From this size on, clearing gives the host's pages back.
constexpr Bytes kGiveBackBytes = 64 * kKiB;

}  // namespace

template <typename Taken>
void StalePages::take(std::uint64_t start, std::uint64_t end, Taken taken) {
  auto range = ranges_.upper_bound(start);
  if (range != ranges_.begin() && std::prev(range)->second > start) --range;
  while (range != ranges_.end() && range->first < end) {
    const auto [first, last] = *range;
    range = ranges_.erase(range);
    if (first < start) ranges_.emplace(first, start);
    if (last > end) range = ranges_.emplace(end, last).first;
    const std::uint64_t from = std::max(first, start), to = std::min(last, end);
    bytes_ -= to - from;
    taken(from, to - from);
  }
}

void StalePages::add(std::uint64_t start, Bytes bytes) {
  const Lock lock(mutex_);
  take(start, start + bytes, [](std::uint64_t, Bytes) {});
  ranges_.emplace(start, start + bytes);
  bytes_ += bytes;
  if (bytes_ > kMostBytes) take(0, std::numeric_limits<std::uint64_t>::max(), clear_pages);
}

void StalePages::remove(std::uint64_t start, Bytes bytes) {
  if (this->bytes() == 0) return;
  const Lock lock(mutex_);
  take(start, start + bytes, [](std::uint64_t, Bytes) {});
}

void StalePages::give_back(std::uint64_t start, Bytes bytes) {
  if (this->bytes() == 0) return;
  const Lock lock(mutex_);
  take(start, start + bytes, clear_pages);
}

void clear_pages(std::uint64_t address, Bytes bytes) {
  auto* const start = reinterpret_cast<std::byte*>(address);
  if (bytes < kGiveBackBytes) {
    std::memset(start, 0, bytes);
    return;
  }
  const std::uint64_t first = (address + kHostPageSize - 1) / kHostPageSize * kHostPageSize;
  const std::uint64_t last = (address + bytes) / kHostPageSize * kHostPageSize;
  std::memset(start, 0, first - address);
  // The pages must go from the file behind them.
  if (::madvise(reinterpret_cast<void*>(first), last - first, MADV_REMOVE) != 0) {
    std::memset(reinterpret_cast<std::byte*>(first), 0, last - first);
  }
  std::memset(reinterpret_cast<std::byte*>(last), 0, address + bytes - last);
}

}  // namespace gpemu::memory
