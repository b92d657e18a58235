// SPDX-License-Identifier: Apache-2.0
#include "gpemu/data/storage_device.hpp"

#include <algorithm>
#include <utility>

namespace gpemu::data {

StorageDevice::StorageDevice(profile::StorageSpec spec, sim::Clock& clock, PageCache page_cache)
    : spec_(std::move(spec)), clock_(clock), page_cache_(page_cache) {}

TimePoint StorageDevice::take_on(const DeviceRead& read, std::size_t waiting) {
  const Lock lock(mutex_);
  const TimePoint now = clock_.now();
  std::erase_if(ends_, [now](TimePoint end) { return end <= now; });
  const bool continues =
      totals_.reads > 0 && read.file == last_.file && read.offset == last_.offset + last_.bytes;
  const profile::StorageSpec::ReadTime time = spec_.read_time(
      static_cast<double>(read.bytes), static_cast<double>(ends_.size() + waiting), continues);
  const Duration busy = from_seconds(time.busy_s);
  // What does not keep the device from other reads overlaps with them.
  const TimePoint begin = std::max(free_at_, now + from_seconds(time.alone_s - time.busy_s));
  free_at_ = begin + busy;
  ends_.push_back(free_at_);
  last_ = read;
  ++totals_.reads;
  totals_.bytes += read.bytes;
  totals_.busy += busy;
  return free_at_;
}

DeviceTotals StorageDevice::totals() {
  const Lock lock(mutex_);
  return totals_;
}

}  // namespace gpemu::data
