// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "gpemu/base/units.hpp"

namespace gpemu::cuda {

/// What the bytes of device memory are.
enum class Content : std::uint8_t {
  kZeros,    ///< zeros: never written, or set so.
  kKept,     ///< what the host's pages behind them hold.
  kNotKept,  ///< zeros in place of what a copy brought; who reads them is told.
};

/// Keeps the content of all devices' memory, by address. Addresses that it was told nothing about
/// are zeros. Thread safety: any thread.
class ContentMap {
 public:
  struct Part {
    Content content = Content::kZeros;
    Bytes bytes = 0;
  };

  /// Sets what a range is. Requires: bytes > 0.
  void assign(std::uint64_t start, Bytes bytes, Content content);

  /// Returns what begins at `start`, and for how much of `bytes` it goes on. Requires: bytes > 0.
  [[nodiscard]] Part part(std::uint64_t start, Bytes bytes) const;

  /// Whether two ranges of this size are the same throughout, and not kept: then nothing is to be
  /// copied between them. Requires: bytes > 0.
  [[nodiscard]] bool are_alike(std::uint64_t a, std::uint64_t b, Bytes bytes) const;

 private:
  struct Range {
    std::uint64_t end = 0;
    Content content = Content::kZeros;
  };
  using Ranges = std::map<std::uint64_t, Range>;

  /// As part. Requires: the lock.
  [[nodiscard]] Part part_of(std::uint64_t start, Bytes bytes) const;

  /// Returns the first range that ends behind `start`. Requires: the lock.
  [[nodiscard]] Ranges::const_iterator first_behind(std::uint64_t start) const;

  mutable std::mutex mutex_;
  Ranges ranges_;  ///< by start, disjoint, none of zeros; guarded by mutex_.
};

}  // namespace gpemu::cuda
