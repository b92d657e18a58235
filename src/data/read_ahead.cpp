// SPDX-License-Identifier: Apache-2.0
#include "read_ahead.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "gpemu/base/thread.hpp"

#include "file_part.hpp"

namespace gpemu::data {
namespace {

Result<PartBytes> read_one(const Dataset& dataset, const Unit& part, PartBuffers& buffers,
                           StorageDevice* storage) {
  PartBytes bytes{.part = part};
  const Bytes size = std::min(part.bytes, kMostPartBytes);
  auto memory = buffers.get(size);
  const std::span<std::byte> buffer(memory.get(), size);
  GPEMU_ASSIGN(bytes.filled, read_part(dataset, part, buffer, storage));
  bytes.memory = std::move(memory);
  return bytes;
}

std::unexpected<Error> other_epoch() {
  return fail(ErrorCode::kInterrupted, "the epoch has ended");
}

}  // namespace

ReadAhead::ReadAhead(const Dataset& dataset, Options options)
    : dataset_(dataset), options_(std::move(options)), buffers_(2 * options_.window) {
  GPEMU_CHECK(options_.window > 0, "a window has at least one part");
}

ReadAhead::~ReadAhead() {
  stop();
  if (thread_.joinable()) thread_.join();
}

bool ReadAhead::start() {
  thread_ = start_thread("gpemu-reader", [this] { work(); });
  return thread_.joinable();
}

std::uint32_t ReadAhead::key_of(std::uint32_t sample) const {
  return options_.by_sample ? sample : dataset_.samples()[sample].unit;
}

Unit ReadAhead::part_of(std::uint32_t key) const {
  return options_.by_sample ? dataset_.extent(key) : dataset_.units()[key];
}

std::uint64_t ReadAhead::begin(std::span<const std::uint32_t> samples) {
  std::vector<std::uint32_t> keys;
  std::unordered_map<std::uint32_t, Entry> entries;
  if (options_.by_sample) {
    keys.assign(samples.begin(), samples.end());
  } else {
    for (const std::uint32_t sample : samples) {
      const std::uint32_t key = key_of(sample);
      if (entries[key].uses++ == 0) keys.push_back(key);
    }
  }
  std::uint64_t number = 0;
  {
    const Lock lock(mutex_);
    number = ++number_;
    keys_ = std::move(keys);
    entries_.swap(entries);
    next_ = finished_ = 0;
  }
  may_read_.notify_all();
  has_read_.notify_all();
  return number;
}

Result<PartBytes> ReadAhead::take(std::uint64_t number, std::uint32_t sample) {
  const std::uint32_t key = key_of(sample);
  Lock lock(mutex_);
  has_read_.wait(lock, [&]() GPEMU_REQUIRES(mutex_) {
    return stopping_ || number != number_ || entries_[key].bytes.has_value();
  });
  if (stopping_ || number != number_) return other_epoch();
  return *entries_[key].bytes;
}

void ReadAhead::done(std::uint64_t number, std::uint32_t sample) {
  const std::uint32_t key = key_of(sample);
  std::optional<Result<PartBytes>> old;  // Its memory is given back without the lock.
  {
    const Lock lock(mutex_);
    if (number != number_) return;
    Entry& entry = entries_[key];
    if (!options_.by_sample && --entry.uses > 0) return;
    old = std::move(entry.bytes);
    entries_.erase(key);
    ++finished_;
  }
  may_read_.notify_all();
}

void ReadAhead::stop() {
  {
    const Lock lock(mutex_);
    stopping_ = true;
  }
  may_read_.notify_all();
  has_read_.notify_all();
}

/// A window is read as a whole, so one that begins must leave room for it.
bool ReadAhead::may_read() const {
  const std::size_t ahead = next_ - finished_;
  return next_ < keys_.size() &&
         (options_.async ? ahead <= options_.window : ahead < 2 * options_.window);
}

bool ReadAhead::put(std::uint64_t number, std::uint32_t key, Result<PartBytes> bytes) {
  {
    const Lock lock(mutex_);
    if (stopping_ || number != number_) return false;
    entries_[key].bytes = std::move(bytes);
  }
  has_read_.notify_all();
  return true;
}

void ReadAhead::work() {
  std::vector<std::uint32_t> keys;
  std::vector<Unit> parts;
  Lock lock(mutex_);
  while (true) {
    may_read_.wait(lock, [this]() GPEMU_REQUIRES(mutex_) { return stopping_ || may_read(); });
    if (stopping_) return;
    const std::uint64_t number = number_;
    const std::size_t count =
        options_.async ? std::min(options_.window, keys_.size() - next_) : std::size_t{1};
    keys.assign(keys_.begin() + static_cast<std::ptrdiff_t>(next_),
                keys_.begin() + static_cast<std::ptrdiff_t>(next_ + count));
    next_ += count;
    lock.unlock();
    parts.clear();
    for (const std::uint32_t key : keys) parts.push_back(part_of(key));
    if (options_.async) {
      options_.async->read(dataset_, parts, buffers_, options_.storage,
                           [&](std::size_t index, Result<PartBytes> bytes) {
                             return put(number, keys[index], std::move(bytes));
                           });
    } else {
      static_cast<void>(
          put(number, keys.front(), read_one(dataset_, parts.front(), buffers_, options_.storage)));
    }
    lock.lock();
  }
}

}  // namespace gpemu::data
