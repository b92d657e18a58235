// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <memory>

#include "gpemu/base/mutex.hpp"
#include "gpemu/base/units.hpp"

namespace gpemu::data {

/// Memory for parts of files. It is used again: to have the kernel map new pages takes longer than
/// to read as many bytes from the page cache.
///
/// Thread safety: any thread. Memory may outlive this.
class PartBuffers {
 public:
  /// Keeps the memory of at most `kept` parts that nobody uses.
  explicit PartBuffers(std::size_t kept) : spare_(std::make_shared<Spare>(kept)) {}

  /// Returns memory for a part, with any content.
  [[nodiscard]] std::shared_ptr<std::byte[]> get(Bytes bytes);

 private:
  struct Spare {
    explicit Spare(std::size_t limit) : kept(limit) {}
    void put(std::unique_ptr<std::byte[]> memory, Bytes capacity) GPEMU_EXCLUDES(mutex);

    const std::size_t kept;
    Mutex mutex;
    std::multimap<Bytes, std::unique_ptr<std::byte[]>> by_capacity GPEMU_GUARDED_BY(mutex);
  };

  std::shared_ptr<Spare> spare_;
};

}  // namespace gpemu::data
