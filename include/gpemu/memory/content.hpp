// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <map>

#include "gpemu/base/mutex.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/kernels/kernel_work.hpp"

namespace gpemu::memory {

/// The state of bytes of device memory.
enum class Content : std::uint8_t {
  kZeros,    ///< zeros: never written, or set to zero.
  kKept,     ///< the content of the host's pages behind them.
  kNotKept,  ///< zeros in place of copied data; reads are reported.
  /// Zeros in place of the results of a kernel or a library; reads are reported.
  kNotComputed,
  /// The content before a kernel changed it in place, as with weights; reads are reported.
  kNotUpdated,
};

/// Returns whether the pages hold the content; otherwise it is zeros.
[[nodiscard]] constexpr bool in_pages(Content content) {
  return content == Content::kKept || content == Content::kNotUpdated;
}

/// Returns whether programs may rely on the content.
[[nodiscard]] constexpr bool is_known(Content content) {
  return content == Content::kKept || content == Content::kZeros;
}

/// Keeps the state of all devices' memory, by address. Addresses that were never assigned are
/// zeros. Thread safety: any thread.
class ContentMap {
 private:
  struct Range {
    std::uint64_t end = 0;
    Content content = Content::kZeros;
    kernels::WriterId writer = 0;

    bool operator==(const Range&) const = default;
    [[nodiscard]] bool goes_on_as(const Range& other) const {
      return content == other.content && writer == other.writer;
    }
  };

 public:
  struct Part {
    Content content = Content::kZeros;
    Bytes bytes = 0;
    kernels::WriterId writer = 0;  ///< of content that is not computed or not updated.
  };

  /// Sets the state of a range. Requires: bytes > 0.
  void assign(std::uint64_t start, Bytes bytes, Content content, kernels::WriterId writer = 0)
      GPEMU_EXCLUDES(mutex_) {
    assign_range(start, {start + bytes, content, writer});
  }

  /// Returns the state at `start`, and for how many of `bytes` it continues. Requires: bytes > 0.
  [[nodiscard]] Part part(std::uint64_t start, Bytes bytes) const GPEMU_EXCLUDES(mutex_);

  /// A number that differs after each change: a result stays valid as long as the number is the
  /// same.
  [[nodiscard]] std::uint64_t changes() const { return changes_.load(std::memory_order_acquire); }

  /// Returns whether all of a range is known. Requires: bytes > 0.
  [[nodiscard]] bool all_known(std::uint64_t start, Bytes bytes) const GPEMU_EXCLUDES(mutex_);

  /// Returns whether a copy would not change the state of a range and no content is in pages: then
  /// nothing needs to be copied. Requires: bytes > 0.
  [[nodiscard]] bool are_alike(std::uint64_t to, std::uint64_t from, Bytes bytes) const
      GPEMU_EXCLUDES(mutex_);

 private:
  using Ranges = std::map<std::uint64_t, Range>;

  void assign_range(std::uint64_t start, const Range& assigned);

  [[nodiscard]] Part part_of(std::uint64_t start, Bytes bytes) const GPEMU_REQUIRES(mutex_);

  /// Returns the first range that ends after `start`.
  [[nodiscard]] Ranges::const_iterator first_behind(std::uint64_t start) const
      GPEMU_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::atomic<std::uint64_t> changes_{1};   ///< written with the lock.
  Ranges ranges_ GPEMU_GUARDED_BY(mutex_);  ///< by start, disjoint, none of zeros.
};

}  // namespace gpemu::memory
