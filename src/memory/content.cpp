// SPDX-License-Identifier: Apache-2.0
#include "gpemu/memory/content.hpp"

#include <algorithm>
#include <iterator>

#include "gpemu/base/mutex.hpp"

namespace gpemu::memory {

ContentMap::Ranges::const_iterator ContentMap::first_behind(std::uint64_t start) const {
  auto range = ranges_.upper_bound(start);
  if (range != ranges_.begin() && std::prev(range)->second.end > start) --range;
  return range;
}

void ContentMap::assign_range(std::uint64_t start, const Range& assigned) {
  const std::uint64_t end = assigned.end;
  const Lock lock(mutex_);
  const auto behind = first_behind(start);
  Ranges::iterator range = ranges_.erase(behind, behind);  // the same place, but mutable.
  // Programs copy to the same places and write the same tensors again and again.
  if (range != ranges_.end() && range->first <= start && range->second.end >= end &&
      (range->second.goes_on_as(assigned) ||
       (range->first == start && range->second == assigned))) {
    return;
  }
  changes_.fetch_add(1, std::memory_order_release);
  const bool is_zeros = assigned.content == Content::kZeros;
  if (range != ranges_.end() && range->first == start && range->second.end == end && !is_zeros) {
    range->second = assigned;
    return;
  }
  while (range != ranges_.end() && range->first < end) {
    auto [old_start, old] = *range;
    range = ranges_.erase(range);
    if (old_start < start) {
      ranges_.emplace(old_start, Range{start, old.content, old.writer});
    }
    if (old.end > end) range = ranges_.emplace(end, old).first;
  }
  if (is_zeros) return;
  // Neighbours with the same content are merged.
  Range merged = assigned;
  if (range != ranges_.end() && range->first == end && range->second.goes_on_as(assigned)) {
    merged.end = range->second.end;
    range = ranges_.erase(range);
  }
  if (range != ranges_.begin()) {
    const auto before = std::prev(range);
    if (before->second.end == start && before->second.goes_on_as(assigned)) {
      before->second.end = merged.end;
      return;
    }
  }
  ranges_.emplace(start, merged);
}

ContentMap::Part ContentMap::part_of(std::uint64_t start, Bytes bytes) const {
  auto range = first_behind(start);
  if (range == ranges_.end()) return {.bytes = bytes};
  if (range->first > start) return {.bytes = std::min(bytes, range->first - start)};
  const Range& first = range->second;
  std::uint64_t end = first.end;
  while (end - start < bytes && ++range != ranges_.end() && range->first == end &&
         range->second.goes_on_as(first)) {
    end = range->second.end;
  }
  return {.content = first.content, .bytes = std::min(bytes, end - start), .writer = first.writer};
}

ContentMap::Part ContentMap::part(std::uint64_t start, Bytes bytes) const {
  const Lock lock(mutex_);
  return part_of(start, bytes);
}

bool ContentMap::are_alike(std::uint64_t to, std::uint64_t from, Bytes bytes) const {
  const Lock lock(mutex_);
  const Part first = part_of(to, bytes);
  if (first.bytes < bytes || in_pages(first.content)) return false;
  const Part second = part_of(from, bytes);
  return second.bytes == bytes && second.content == first.content && second.writer == first.writer;
}

bool ContentMap::all_known(std::uint64_t start, Bytes bytes) const {
  const Lock lock(mutex_);
  const std::uint64_t end = start + bytes;
  for (auto range = first_behind(start); range != ranges_.end() && range->first < end; ++range) {
    if (!is_known(range->second.content)) return false;
  }
  return true;
}

}  // namespace gpemu::memory
