// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpemu/base/mutex.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/profile/storage_spec.hpp"
#include "gpemu/sim/clock.hpp"

namespace gpemu::data {

/// A part of a file that is read from a device.
struct DeviceRead {
  std::uint64_t file = 0;  ///< identifies the file, e.g. its number in the data set.
  Bytes offset = 0;
  Bytes bytes = 0;
};

/// What a device has done.
struct DeviceTotals {
  std::int64_t reads = 0;
  Bytes bytes = 0;
  Duration busy{};  ///< serving reads.
};

/// Which reads a device is asked for.
enum class PageCache : std::uint8_t {
  kUsed,     ///< what the page cache does not have.
  kIgnored,  ///< all, as if there were no page cache.
};

/// A described storage device that all readers of a process share. It reads nothing: it says when a
/// read has ended, and the reader waits until then.
///
/// Reads are served in the order in which they are taken on, so readers that wait for one before
/// they ask for the next take turns. A read that continues the one before needs no access. The
/// accesses of up to `requests_at_once` reads overlap; their bytes pass one after the other.
///
/// Thread safety: any thread. Deterministic for a given sequence of calls and times.
class StorageDevice {
 public:
  /// `clock` must outlive the device.
  StorageDevice(profile::StorageSpec spec, sim::Clock& clock,
                PageCache page_cache = PageCache::kUsed);

  [[nodiscard]] const profile::StorageSpec& spec() const { return spec_; }
  [[nodiscard]] sim::Clock& clock() { return clock_; }
  [[nodiscard]] PageCache page_cache() const { return page_cache_; }

  /// Takes on a read and returns when it ends. `waiting` is how many reads its reader has waiting,
  /// this one included, of which this is the next by place.
  [[nodiscard]] TimePoint take_on(const DeviceRead& read, std::size_t waiting = 1)
      GPEMU_EXCLUDES(mutex_);

  [[nodiscard]] DeviceTotals totals() GPEMU_EXCLUDES(mutex_);

 private:
  const profile::StorageSpec spec_;
  sim::Clock& clock_;
  const PageCache page_cache_;

  Mutex mutex_;
  TimePoint free_at_ GPEMU_GUARDED_BY(mutex_);            ///< of all that it has taken on.
  std::vector<TimePoint> ends_ GPEMU_GUARDED_BY(mutex_);  ///< of reads that may still wait.
  DeviceRead last_ GPEMU_GUARDED_BY(mutex_);
  DeviceTotals totals_ GPEMU_GUARDED_BY(mutex_);
};

}  // namespace gpemu::data
