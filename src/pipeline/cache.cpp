// SPDX-License-Identifier: Apache-2.0
#include "gpemu/pipeline/cache.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "gpemu/base/error.hpp"
#include "gpemu/sim/random.hpp"

#include "file_index.hpp"

namespace gpemu::pipeline {
namespace {

/// A file that a cache of pages holds.
struct PagedFile {
  FileId file = 0;
  std::uint32_t pages = 0;
};

Bytes bytes_of(const PagedFile& held) {
  return held.pages * kPageBytes;
}

/// Files by the time of their last use: the first one to leave is that which was not used longest.
class LruOrder {
 public:
  void use(std::uint32_t place) {
    unlink(place);
    put_first(place);
  }
  /// Returns its place.
  std::uint32_t add(const PagedFile& added) {
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(entries_.size()));
      entries_.emplace_back();
    }
    const std::uint32_t place = free_.back();
    free_.pop_back();
    entries_[place].held = added;
    put_first(place);
    return place;
  }
  /// Takes the file that leaves first out of here and out of the index.
  PagedFile drop(FileIndex& places) {
    const std::uint32_t place = last_;
    unlink(place);
    free_.push_back(place);
    places.erase(entries_[place].held.file);
    if (last_ != kEnd) places.prefetch(entries_[last_].held.file);  // It is the next one.
    return entries_[place].held;
  }

 private:
  static constexpr std::uint32_t kEnd = FileIndex::kNone;
  /// A file, and the places of those that were used next after it, and before it.
  struct Entry {
    PagedFile held;
    std::uint32_t newer = kEnd, older = kEnd;
  };

  void unlink(std::uint32_t place) {
    const auto [held, newer, older] = entries_[place];
    (newer == kEnd ? first_ : entries_[newer].older) = older;
    (older == kEnd ? last_ : entries_[older].newer) = newer;
  }
  void put_first(std::uint32_t place) {
    entries_[place].newer = kEnd;
    entries_[place].older = first_;
    (first_ == kEnd ? last_ : entries_[first_].newer) = place;
    first_ = place;
  }

  std::vector<Entry> entries_;
  std::vector<std::uint32_t> free_;  ///< places without a file.
  std::uint32_t first_ = kEnd;       ///< the place of the file that was used last,
  std::uint32_t last_ = kEnd;        ///< and of the one that leaves first.
};

/// Files of which any may leave next.
class RandomOrder {
 public:
  explicit RandomOrder(std::uint64_t seed) : random_(seed) {}

  void use(std::uint32_t /*place*/) {}
  std::uint32_t add(const PagedFile& added) {
    files_.push_back(added);
    return static_cast<std::uint32_t>(files_.size() - 1);
  }
  PagedFile drop(FileIndex& places) {
    const std::size_t place = random_.below(files_.size());
    const PagedFile dropped = files_[place];
    places.erase(dropped.file);
    if (place + 1 < files_.size()) {
      files_[place] = files_.back();
      places.put(files_[place].file, static_cast<std::uint32_t>(place));
    }
    files_.pop_back();
    return dropped;
  }

 private:
  sim::Rng random_;
  std::vector<PagedFile> files_;
};

/// Holds whole files, in pages; `Order` says which of them leave when another one needs room.
template <typename Order>
class PagedCache final : public Cache {
 public:
  PagedCache(Bytes capacity, std::span<const std::uint32_t> sizes, Order order)
      : capacity_(capacity), sizes_(sizes), order_(std::move(order)) {}

  bool read(FileId file) override {
    if (const std::uint32_t place = places_.find(file); place != FileIndex::kNone) {
      order_.use(place);
      return true;
    }
    const Bytes bytes = page_bytes(sizes_[file]);
    if (bytes > capacity_) return false;
    while (used_ + bytes > capacity_) used_ -= bytes_of(order_.drop(places_));
    places_.put(file, order_.add({file, static_cast<std::uint32_t>(bytes / kPageBytes)}));
    used_ += bytes;
    return false;
  }
  [[nodiscard]] bool holds(FileId file) const override {
    return places_.find(file) != FileIndex::kNone;
  }
  [[nodiscard]] Bytes used() const override { return used_; }
  void prefetch(FileId file) const override { places_.prefetch(file); }

 private:
  Bytes capacity_;
  std::span<const std::uint32_t> sizes_;
  Order order_;
  Bytes used_ = 0;
  FileIndex places_;  ///< in the order.
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
  void prefetch(FileId file) const override { files_.prefetch(file); }

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
      return std::make_unique<PagedCache<LruOrder>>(capacity, sizes, LruOrder());
    case CachePolicy::kRandom:
      return std::make_unique<PagedCache<RandomOrder>>(capacity, sizes, RandomOrder(seed));
    case CachePolicy::kMinio:
      return std::make_unique<InsertOnlyCache>(capacity, sizes, kAnySize);
    case CachePolicy::kSmallFirst:
      return std::make_unique<InsertOnlyCache>(capacity, sizes,
                                               largest_cached_size(sizes, capacity));
  }
  GPEMU_CHECK(false, "a cache policy has no class");
}

}  // namespace gpemu::pipeline
