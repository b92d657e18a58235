// SPDX-License-Identifier: Apache-2.0
#include "gpemu/pipeline/cache.hpp"

#include <algorithm>
#include <limits>

#include "gpemu/base/error.hpp"
#include "gpemu/sim/random.hpp"

#include "file_index.hpp"

namespace gpemu::pipeline {
namespace {

class PageCache final : public Cache {
 public:
  PageCache(Bytes capacity, std::span<const std::uint32_t> sizes)
      : capacity_(capacity), sizes_(sizes) {}

  bool read(FileId file) override {
    if (const std::uint32_t place = places_.find(file); place != FileIndex::kNone) {
      unlink(place);
      put_first(place);
      return true;
    }
    const Bytes bytes = page_bytes(sizes_[file]);
    if (bytes > capacity_) return false;
    while (used_ + bytes > capacity_) drop_last();
    const std::uint32_t place = free_place();
    entries_[place].file = file;
    places_.put(file, place);
    put_first(place);
    used_ += bytes;
    return false;
  }
  [[nodiscard]] bool holds(FileId file) const override {
    return places_.find(file) != FileIndex::kNone;
  }
  [[nodiscard]] Bytes used() const override { return used_; }

 private:
  static constexpr std::uint32_t kEnd = FileIndex::kNone;
  /// A file, and the places of those that were used next after it, and before it.
  struct Entry {
    FileId file = 0;
    std::uint32_t newer = kEnd, older = kEnd;
  };

  std::uint32_t free_place() {
    if (free_.empty()) {
      entries_.emplace_back();
      return static_cast<std::uint32_t>(entries_.size() - 1);
    }
    const std::uint32_t place = free_.back();
    free_.pop_back();
    return place;
  }
  void unlink(std::uint32_t place) {
    const auto [file, newer, older] = entries_[place];
    (newer == kEnd ? first_ : entries_[newer].older) = older;
    (older == kEnd ? last_ : entries_[older].newer) = newer;
  }
  void put_first(std::uint32_t place) {
    entries_[place].newer = kEnd;
    entries_[place].older = first_;
    (first_ == kEnd ? last_ : entries_[first_].newer) = place;
    first_ = place;
  }
  void drop_last() {
    const std::uint32_t place = last_;
    unlink(place);
    used_ -= page_bytes(sizes_[entries_[place].file]);
    places_.erase(entries_[place].file);
    free_.push_back(place);
  }

  Bytes capacity_;
  std::span<const std::uint32_t> sizes_;
  Bytes used_ = 0;
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> free_;  ///< places without a file.
  std::uint32_t first_ = kEnd;       ///< the place of the file that was used last,
  std::uint32_t last_ = kEnd;        ///< and of the one that leaves first.
  FileIndex places_;
};

class RandomCache final : public Cache {
 public:
  RandomCache(Bytes capacity, std::span<const std::uint32_t> sizes, std::uint64_t seed)
      : capacity_(capacity), sizes_(sizes), random_(seed) {}

  bool read(FileId file) override {
    if (holds(file)) return true;
    const Bytes bytes = page_bytes(sizes_[file]);
    if (bytes > capacity_) return false;
    while (used_ + bytes > capacity_) drop(random_.below(files_.size()));
    places_.put(file, static_cast<std::uint32_t>(files_.size()));
    files_.push_back(file);
    used_ += bytes;
    return false;
  }
  [[nodiscard]] bool holds(FileId file) const override {
    return places_.find(file) != FileIndex::kNone;
  }
  [[nodiscard]] Bytes used() const override { return used_; }

 private:
  void drop(std::size_t place) {
    used_ -= page_bytes(sizes_[files_[place]]);
    places_.erase(files_[place]);
    if (place + 1 < files_.size()) {
      files_[place] = files_.back();
      places_.put(files_[place], static_cast<std::uint32_t>(place));
    }
    files_.pop_back();
  }

  Bytes capacity_;
  std::span<const std::uint32_t> sizes_;
  sim::Rng random_;
  Bytes used_ = 0;
  std::vector<FileId> files_;
  FileIndex places_;  ///< in `files_`.
};

/// Holds files up to a size, and never gives one up.
class InsertOnlyCache final : public Cache {
 public:
  InsertOnlyCache(Bytes capacity, std::span<const std::uint32_t> sizes, std::uint32_t largest)
      : capacity_(capacity), sizes_(sizes), largest_(largest) {}

  bool read(FileId file) override {
    if (holds(file)) return true;
    const Bytes bytes = sizes_[file];
    if (bytes <= largest_ && used_ + bytes <= capacity_) {
      files_.put(file, 0);
      used_ += bytes;
    }
    return false;
  }
  [[nodiscard]] bool holds(FileId file) const override {
    return files_.find(file) != FileIndex::kNone;
  }
  [[nodiscard]] Bytes used() const override { return used_; }

 private:
  Bytes capacity_;
  std::span<const std::uint32_t> sizes_;
  std::uint32_t largest_;
  Bytes used_ = 0;
  FileIndex files_;  ///< their places do not matter.
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
