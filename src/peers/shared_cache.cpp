// SPDX-License-Identifier: Apache-2.0
#include "gpemu/peers/shared_cache.hpp"

#include <algorithm>

#include "gpemu/base/log.hpp"

namespace gpemu::peers {

SharedCache::SharedCache(const Options& options, std::vector<std::uint32_t> sizes,
                         ReadStorage read_storage)
    : options_(options),
      sizes_(std::move(sizes)),
      read_storage_(std::move(read_storage)),
      policy_(pipeline::make_cache(options.policy, options.capacity, sizes_,
                                   options.seed + static_cast<std::uint64_t>(options.rank))),
      owners_(sizes_.size(), pipeline::kNobody) {}

Result<data::SampleBytes> SharedCache::read(std::uint32_t sample) {
  pipeline::Owner owner = pipeline::kNobody;
  {
    const Lock lock(mutex_);
    // What the policy has given up counts as gone, even if its memory has not been freed.
    if (const auto found = held_.find(sample); found != held_.end() && policy_->holds(sample)) {
      static_cast<void>(policy_->read(sample));
      ++reads_.here;
      data::SampleBytes bytes = found->second;
      bytes.cached = true;
      return bytes;
    }
    owner = owners_[sample];
  }
  if (ask_ && owner != pipeline::kNobody && owner != options_.rank) {
    Result<data::SampleBytes> asked = ask_(owner, sample);
    if (asked && asked->memory) {
      const Lock lock(mutex_);
      ++reads_.peers;
      asked->cached = true;
      return asked;
    }
    if (!asked) log(LogLevel::kDebug, "{}; read from storage instead", asked.error().message);
  }
  GPEMU_ASSIGN(data::SampleBytes bytes, read_storage_(sample));
  const Lock lock(mutex_);
  ++reads_.storage;
  static_cast<void>(policy_->read(sample));
  if (policy_->holds(sample) && !held_.contains(sample)) keep(sample, bytes);
  return bytes;
}

void SharedCache::keep(std::uint32_t sample, const data::SampleBytes& bytes) {
  held_.emplace(sample, bytes);
  bytes_ += bytes.size;
  news_.push_back(sample);
  // A policy does not say what it gives up. To look at all samples is worth it only if that frees
  // a few per cent of them, so the memory may be larger than the capacity by as much.
  if (bytes_ <= options_.capacity + options_.capacity / 32) return;
  std::erase_if(held_, [this](const auto& entry) GPEMU_REQUIRES(mutex_) {
    if (policy_->holds(entry.first)) return false;
    bytes_ -= entry.second.size;
    return true;
  });
}

data::SampleBytes SharedCache::find(pipeline::FileId sample) {
  const Lock lock(mutex_);
  const auto found = held_.find(sample);
  return found != held_.end() ? found->second : data::SampleBytes{};
}

std::vector<pipeline::FileId> SharedCache::take_news() {
  const Lock lock(mutex_);
  return std::exchange(news_, {});
}

std::vector<pipeline::FileId> SharedCache::cached() {
  const Lock lock(mutex_);
  news_.clear();
  std::vector<pipeline::FileId> samples;
  samples.reserve(held_.size());
  for (const auto& [sample, bytes] : held_) samples.push_back(sample);
  std::ranges::sort(samples);
  return samples;
}

void SharedCache::note(const Holdings& holdings, bool all) {
  const Lock lock(mutex_);
  if (all) std::ranges::fill(owners_, pipeline::kNobody);
  for (const auto& [node, samples] : holdings) {
    for (const pipeline::FileId sample : samples) {
      // A node may say anything.
      if (sample < owners_.size()) owners_[sample] = static_cast<pipeline::Owner>(node);
    }
  }
}

std::vector<pipeline::Owner> SharedCache::owners() {
  const Lock lock(mutex_);
  return owners_;
}

SharedCache::Reads SharedCache::reads() {
  const Lock lock(mutex_);
  return reads_;
}

Bytes SharedCache::bytes() {
  const Lock lock(mutex_);
  return bytes_;
}

}  // namespace gpemu::peers
