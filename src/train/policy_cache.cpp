// SPDX-License-Identifier: Apache-2.0
#include "gpemu/train/policy_cache.hpp"

#include <utility>

namespace gpemu::train {
namespace {

std::vector<std::uint32_t> extents_of(const data::Dataset& dataset) {
  std::vector<std::uint32_t> sizes;
  for (std::size_t i = 0; i < dataset.samples().size(); ++i) {
    sizes.push_back(static_cast<std::uint32_t>(dataset.extent(i).bytes));
  }
  return sizes;
}

}  // namespace

PolicyCache::PolicyCache(const data::Dataset& dataset, const MakeCachePolicy& make)
    : sizes_(extents_of(dataset)), policy_(make(sizes_)) {}

data::SampleCache::Bytes PolicyCache::find(std::uint32_t sample) {
  const Lock lock(mutex_);
  ++reads_;
  if (!policy_->read(sample)) return nullptr;
  const auto found = samples_.find(sample);
  if (found == samples_.end()) return nullptr;  // Another worker is still reading it.
  ++hits_;
  return found->second;
}

void PolicyCache::offer(std::uint32_t sample, std::span<const std::byte> bytes) {
  const Lock lock(mutex_);
  if (!policy_->holds(sample)) return;
  auto copy = std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
  Bytes& stored = samples_[sample];
  if (stored) stored_ -= stored->size();
  stored = std::move(copy);
  stored_ += bytes.size();
  drop_what_left();
}

/// A policy does not say what it gives up, so what it no longer holds is looked for when a quarter
/// more is stored than it counts. Complexity: constant for each sample on average.
void PolicyCache::drop_what_left() {
  if (stored_ <= policy_->used() + policy_->used() / 4) return;
  for (auto entry = samples_.begin(); entry != samples_.end();) {
    if (policy_->holds(entry->first)) {
      ++entry;
      continue;
    }
    stored_ -= entry->second->size();
    entry = samples_.erase(entry);
  }
}

std::int64_t PolicyCache::reads() {
  const Lock lock(mutex_);
  return reads_;
}

std::int64_t PolicyCache::hits() {
  const Lock lock(mutex_);
  return hits_;
}

}  // namespace gpemu::train
