// SPDX-License-Identifier: Apache-2.0
#include "gpemu/pipeline/cache.hpp"

#include <algorithm>
#include <limits>
#include <list>
#include <unordered_map>
#include <unordered_set>

#include "gpemu/base/error.hpp"
#include "gpemu/sim/random.hpp"

namespace gpemu::pipeline {
namespace {

class PageCache final : public Cache {
 public:
  PageCache(Bytes capacity, std::span<const std::uint32_t> sizes)
      : capacity_(capacity), sizes_(sizes) {}

  bool read(FileId file) override {
    if (const auto found = places_.find(file); found != places_.end()) {
      used_last_.splice(used_last_.begin(), used_last_, found->second);
      return true;
    }
    const Bytes bytes = page_bytes(sizes_[file]);
    if (bytes > capacity_) return false;
    while (used_ + bytes > capacity_) {
      used_ -= page_bytes(sizes_[used_last_.back()]);
      places_.erase(used_last_.back());
      used_last_.pop_back();
    }
    used_last_.push_front(file);
    places_.emplace(file, used_last_.begin());
    used_ += bytes;
    return false;
  }
  [[nodiscard]] bool holds(FileId file) const override { return places_.contains(file); }
  [[nodiscard]] Bytes used() const override { return used_; }

 private:
  Bytes capacity_;
  std::span<const std::uint32_t> sizes_;
  Bytes used_ = 0;
  std::list<FileId> used_last_;  ///< the latest in front.
  std::unordered_map<FileId, std::list<FileId>::iterator> places_;
};

class RandomCache final : public Cache {
 public:
  RandomCache(Bytes capacity, std::span<const std::uint32_t> sizes, std::uint64_t seed)
      : capacity_(capacity), sizes_(sizes), random_(seed) {}

  bool read(FileId file) override {
    if (places_.contains(file)) return true;
    const Bytes bytes = page_bytes(sizes_[file]);
    if (bytes > capacity_) return false;
    while (used_ + bytes > capacity_) drop(random_.below(files_.size()));
    places_.emplace(file, files_.size());
    files_.push_back(file);
    used_ += bytes;
    return false;
  }
  [[nodiscard]] bool holds(FileId file) const override { return places_.contains(file); }
  [[nodiscard]] Bytes used() const override { return used_; }

 private:
  void drop(std::size_t place) {
    used_ -= page_bytes(sizes_[files_[place]]);
    places_.erase(files_[place]);
    if (place + 1 < files_.size()) {
      files_[place] = files_.back();
      places_[files_[place]] = place;
    }
    files_.pop_back();
  }

  Bytes capacity_;
  std::span<const std::uint32_t> sizes_;
  sim::Rng random_;
  Bytes used_ = 0;
  std::vector<FileId> files_;
  std::unordered_map<FileId, std::size_t> places_;
};

/// Holds files up to a size, and never gives one up.
class InsertOnlyCache final : public Cache {
 public:
  InsertOnlyCache(Bytes capacity, std::span<const std::uint32_t> sizes, std::uint32_t largest)
      : capacity_(capacity), sizes_(sizes), largest_(largest) {}

  bool read(FileId file) override {
    if (files_.contains(file)) return true;
    const Bytes bytes = sizes_[file];
    if (bytes <= largest_ && used_ + bytes <= capacity_) {
      files_.insert(file);
      used_ += bytes;
    }
    return false;
  }
  [[nodiscard]] bool holds(FileId file) const override { return files_.contains(file); }
  [[nodiscard]] Bytes used() const override { return used_; }

 private:
  Bytes capacity_;
  std::span<const std::uint32_t> sizes_;
  std::uint32_t largest_;
  Bytes used_ = 0;
  std::unordered_set<FileId> files_;
};

}  // namespace

std::uint32_t largest_cached_size(std::span<const std::uint32_t> sizes, Bytes capacity) {
  std::vector<std::uint32_t> sorted(sizes.begin(), sizes.end());
  std::ranges::sort(sorted);
  Bytes sum = 0;
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    sum += sorted[i];
    if (sum > capacity) break;
    // Files of one size are cached together or not at all.
    if (i + 1 == sorted.size() || sorted[i + 1] != sorted[i]) largest = sorted[i];
  }
  return largest;
}

std::unique_ptr<Cache> make_cache(CachePolicy policy, Bytes capacity,
                                  std::span<const std::uint32_t> sizes, std::uint64_t seed) {
  constexpr std::uint32_t kAnySize = std::numeric_limits<std::uint32_t>::max();
  switch (policy) {
    case CachePolicy::kPage:
      return std::make_unique<PageCache>(capacity, sizes);
    case CachePolicy::kRandom:
      return std::make_unique<RandomCache>(capacity, sizes, seed);
    case CachePolicy::kMinio:
      return std::make_unique<InsertOnlyCache>(capacity, sizes, kAnySize);
    case CachePolicy::kSmallFirst:
      return std::make_unique<InsertOnlyCache>(capacity, sizes,
                                               largest_cached_size(sizes, capacity));
  }
  GPEMU_CHECK(false, "a cache policy has no class");
}

}  // namespace gpemu::pipeline
