// SPDX-License-Identifier: Apache-2.0
#include "content.hpp"

#include <algorithm>
#include <iterator>

namespace gpemu::cuda {

ContentMap::Ranges::const_iterator ContentMap::first_behind(std::uint64_t start) const {
  auto range = ranges_.upper_bound(start);
  if (range != ranges_.begin() && std::prev(range)->second.end > start) --range;
  return range;
}

void ContentMap::assign(std::uint64_t start, Bytes bytes, Content content) {
  std::uint64_t end = start + bytes;
  const std::lock_guard lock(mutex_);
  const auto behind = first_behind(start);
  Ranges::iterator range = ranges_.erase(behind, behind);  // the same, to be changed.
  // Programs copy to the same places again and again.
  if (range != ranges_.end() && range->first <= start && range->second.end >= end &&
      range->second.content == content) {
    return;
  }
  while (range != ranges_.end() && range->first < end) {
    const auto [old_start, old] = *range;
    range = ranges_.erase(range);
    if (old_start < start) ranges_.emplace(old_start, Range{start, old.content});
    if (old.end > end) range = ranges_.emplace(end, Range{old.end, old.content}).first;
  }
  if (content == Content::kZeros) return;
  // Neighbours of the same content become one.
  if (range != ranges_.end() && range->first == end && range->second.content == content) {
    end = range->second.end;
    range = ranges_.erase(range);
  }
  if (range != ranges_.begin()) {
    const auto before = std::prev(range);
    if (before->second.end == start && before->second.content == content) {
      before->second.end = end;
      return;
    }
  }
  ranges_.emplace(start, Range{end, content});
}

ContentMap::Part ContentMap::part_of(std::uint64_t start, Bytes bytes) const {
  const auto range = first_behind(start);
  if (range == ranges_.end()) return {.bytes = bytes};
  if (range->first > start) return {.bytes = std::min(bytes, range->first - start)};
  return {.content = range->second.content, .bytes = std::min(bytes, range->second.end - start)};
}

ContentMap::Part ContentMap::part(std::uint64_t start, Bytes bytes) const {
  const std::lock_guard lock(mutex_);
  return part_of(start, bytes);
}

bool ContentMap::are_alike(std::uint64_t a, std::uint64_t b, Bytes bytes) const {
  const std::lock_guard lock(mutex_);
  const Part first = part_of(a, bytes);
  if (first.bytes < bytes || first.content == Content::kKept) return false;
  const Part second = part_of(b, bytes);
  return second.bytes == bytes && second.content == first.content;
}

}  // namespace gpemu::cuda
