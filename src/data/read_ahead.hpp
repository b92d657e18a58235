// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <thread>
#include <unordered_map>
#include <vector>

#include "gpemu/base/condition.hpp"
#include "gpemu/base/error.hpp"
#include "gpemu/base/mutex.hpp"
#include "gpemu/data/dataset.hpp"
#include "gpemu/data/storage_device.hpp"

#include "async_reader.hpp"
#include "part_buffers.hpp"

namespace gpemu::data {

/// A thread that reads the parts of files that an epoch needs before the workers ask for them: the
/// units of the data set, or in random order each sample by itself.
///
/// It is at most two windows of parts ahead of what the workers have finished. Thread safety: any
/// thread.
class ReadAhead {
 public:
  struct Options {
    bool by_sample = false;  ///< parts are samples; else units.
    std::size_t window = 1;  ///< parts.
    StorageDevice* storage = nullptr;
    std::optional<AsyncReader> async;  ///< reads a window at once; without, one part at a time.
  };

  /// `dataset` and the storage must outlive this.
  ReadAhead(const Dataset& dataset, Options options);
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;
  /// Ends the thread.
  ~ReadAhead();

  /// Starts the thread; false if the system starts no more.
  [[nodiscard]] bool start();

  /// Begins to read what samples need, in the order of their first use, and forgets what was read
  /// for others. Returns the number that take() and done() want.
  std::uint64_t begin(std::span<const std::uint32_t> samples) GPEMU_EXCLUDES(mutex_);

  /// Returns the part that a sample is in, blocking until it has been read.
  ///
  /// Errors: those of reading; kInterrupted if other samples were begun, or at the end.
  [[nodiscard]] Result<PartBytes> take(std::uint64_t number, std::uint32_t sample)
      GPEMU_EXCLUDES(mutex_);

  /// Notes that a worker needs a sample no longer. Each sample is taken, and done, once.
  void done(std::uint64_t number, std::uint32_t sample) GPEMU_EXCLUDES(mutex_);

  /// Lets all that wait return.
  void stop() GPEMU_EXCLUDES(mutex_);

 private:
  struct Entry {
    std::uint32_t uses = 0;  ///< samples of a unit that are not done.
    std::optional<Result<PartBytes>> bytes;
  };

  void work() GPEMU_EXCLUDES(mutex_);
  [[nodiscard]] std::uint32_t key_of(std::uint32_t sample) const;
  [[nodiscard]] Unit part_of(std::uint32_t key) const;
  [[nodiscard]] bool may_read() const GPEMU_REQUIRES(mutex_);
  [[nodiscard]] bool put(std::uint64_t number, std::uint32_t key, Result<PartBytes> bytes)
      GPEMU_EXCLUDES(mutex_);

  const Dataset& dataset_;
  Options options_;  ///< the reader in it belongs to the thread.
  PartBuffers buffers_;
  std::thread thread_;

  Mutex mutex_;
  Condition may_read_;
  Condition has_read_;
  std::uint64_t number_ GPEMU_GUARDED_BY(mutex_) = 0;
  std::vector<std::uint32_t> keys_ GPEMU_GUARDED_BY(mutex_);  ///< in the order of reading.
  std::size_t next_ GPEMU_GUARDED_BY(mutex_) = 0;             ///< of them.
  std::size_t finished_ GPEMU_GUARDED_BY(mutex_) = 0;         ///< parts that nobody needs any more.
  std::unordered_map<std::uint32_t, Entry> entries_ GPEMU_GUARDED_BY(mutex_);
  bool stopping_ GPEMU_GUARDED_BY(mutex_) = false;
};

}  // namespace gpemu::data
