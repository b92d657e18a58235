// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <map>

#include "gpemu/base/mutex.hpp"
#include "gpemu/base/units.hpp"

namespace gpemu::memory {

/// Ranges of device memory whose pages the host still holds although nothing reads them, because
/// the ranges read as zeros. Programs copy to the same places repeatedly, and writing existing
/// pages takes a third of the time of new ones. Thread safety: any thread.
class StalePages {
 public:
  /// Adds a range. Beyond kMostBytes all are given back to the host. Requires: bytes > 0.
  void add(std::uint64_t start, Bytes bytes) GPEMU_EXCLUDES(mutex_);

  /// Forgets a range, whose pages are about to be written.
  void remove(std::uint64_t start, Bytes bytes) GPEMU_EXCLUDES(mutex_);

  /// Gives the pages of a range back to the host, after which they hold zeros.
  void give_back(std::uint64_t start, Bytes bytes) GPEMU_EXCLUDES(mutex_);

  [[nodiscard]] Bytes bytes() const { return bytes_.load(std::memory_order_acquire); }

  /// More than a few batches of inputs.
  static constexpr Bytes kMostBytes = kGiB;

 private:
  /// Removes everything in a range, and calls `taken` for each part.
  template <typename Taken>
  void take(std::uint64_t start, std::uint64_t end, Taken taken) GPEMU_REQUIRES(mutex_);

  Mutex mutex_;
  /// Start to end, disjoint.
  std::map<std::uint64_t, std::uint64_t> ranges_ GPEMU_GUARDED_BY(mutex_);
  std::atomic<Bytes> bytes_{0};  ///< of all ranges.
};

/// Makes a range of device memory read as zeros and gives the host's memory back.
void clear_pages(std::uint64_t address, Bytes bytes);

}  // namespace gpemu::memory
