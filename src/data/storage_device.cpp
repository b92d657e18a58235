// SPDX-License-Identifier: Apache-2.0
#include "gpemu/data/storage_device.hpp"

#include <algorithm>
#include <utility>

namespace gpemu::data {

StorageDevice::StorageDevice(profile::StorageSpec spec, sim::Clock& clock, PageCache page_cache)
    : spec_(std::move(spec)),
      clock_(clock),
      page_cache_(page_cache),
      free_at_(static_cast<std::size_t>(spec_.requests_at_once)) {}

TimePoint StorageDevice::take_on(const DeviceRead& read, std::size_t waiting) {
  const Lock lock(mutex_);
  const TimePoint now = clock_.now();
  std::erase_if(ends_, [now](TimePoint end) { return end <= now; });
  const bool continues =
      totals_.reads > 0 && read.file == last_.file && read.offset == last_.offset + last_.bytes;
  Duration positioning{};
  if (!continues) {
    positioning = spec_.positioning(read.bytes, static_cast<double>(ends_.size() + waiting));
  }
  const auto first = std::ranges::min_element(free_at_);
  const TimePoint begin = std::max(now, *first);
  const TimePoint positioned = begin + positioning;
  const TimePoint passes = std::max(positioned, bytes_free_at_);
  const TimePoint end = passes + spec_.transfer(read.bytes);
  *first = end;
  bytes_free_at_ = end;
  ends_.push_back(end);
  last_ = read;
  ++totals_.reads;
  totals_.bytes += read.bytes;
  totals_.busy += end - std::max(begin, std::min(busy_until_, end));
  busy_until_ = std::max(busy_until_, end);
  return end;
}

DeviceTotals StorageDevice::totals() {
  const Lock lock(mutex_);
  return totals_;
}

}  // namespace gpemu::data
