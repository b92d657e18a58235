// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "gpemu/base/units.hpp"

namespace gpemu::cuda {

/// What the bytes of device memory are.
enum class Content : std::uint8_t {
  kZeros,    ///< zeros: never written, or set so.
  kKept,     ///< what the host's pages behind them hold.
  kNotKept,  ///< zeros in place of what a copy brought; who reads them is told.
  /// Zeros in place of what a kernel or a library wrote; who reads them is told.
  kNotComputed,
  /// What the pages held before a kernel changed it in place, as weights are; who reads it is told.
  kNotUpdated,
};

/// Whether the pages hold the content; otherwise it is zeros.
[[nodiscard]] constexpr bool in_pages(Content content) {
  return content == Content::kKept || content == Content::kNotUpdated;
}

/// Whether programs may rely on the content.
[[nodiscard]] constexpr bool is_known(Content content) {
  return content == Content::kKept || content == Content::kZeros;
}

/// Who wrote a range whose content is not known: 0 for nobody, else by writer_id().
using WriterId = std::uint32_t;

/// Returns the number of a kernel's or a library function's name; the same for the same name.
[[nodiscard]] WriterId writer_id(std::string_view name);

/// Returns the name of a number that writer_id() gave, or "" for 0.
[[nodiscard]] std::string writer_name(WriterId id);

/// Keeps the content of all devices' memory, by address. Addresses that it was told nothing about
/// are zeros. Thread safety: any thread.
class ContentMap {
 private:
  struct Range {
    std::uint64_t end = 0;
    Content content = Content::kZeros;
    WriterId writer = 0;
    bool open = false;  ///< see assign_open.

    bool operator==(const Range&) const = default;
    [[nodiscard]] bool goes_on_as(const Range& other) const {
      return content == other.content && writer == other.writer && !open && !other.open;
    }
  };

 public:
  struct Part {
    Content content = Content::kZeros;
    Bytes bytes = 0;
    WriterId writer = 0;  ///< of what is not computed or not updated.
  };

  /// Sets what a range is. Requires: bytes > 0.
  void assign(std::uint64_t start, Bytes bytes, Content content, WriterId writer = 0) {
    assign_range(start, {start + bytes, content, writer, false});
  }

  /// Sets a range that was not computed and whose end is not known: it is no shorter, and whatever
  /// is asked for from its start on belongs to it. Requires: bytes > 0.
  void assign_open(std::uint64_t start, Bytes bytes, WriterId writer) {
    assign_range(start, {start + bytes, Content::kNotComputed, writer, true});
  }

  /// Returns what begins at `start`, and for how much of `bytes` it goes on. Requires: bytes > 0.
  [[nodiscard]] Part part(std::uint64_t start, Bytes bytes) const;

  /// As part, but of an open range no more than was assigned: for those who change what is there,
  /// to whom whatever lies behind it is as it was.
  [[nodiscard]] Part assigned_part(std::uint64_t start, Bytes bytes) const;

  /// A number that is another one after each change: what was found out at a number holds as long
  /// as it stays.
  [[nodiscard]] std::uint64_t changes() const { return changes_.load(std::memory_order_acquire); }

  /// Whether all of a range is known. Requires: bytes > 0.
  [[nodiscard]] bool all_known(std::uint64_t start, Bytes bytes) const;

  /// Whether a range is throughout what a copy of the other would make it, and not in pages: then
  /// nothing is to be copied. Requires: bytes > 0.
  [[nodiscard]] bool are_alike(std::uint64_t to, std::uint64_t from, Bytes bytes) const;

 private:
  using Ranges = std::map<std::uint64_t, Range>;

  void assign_range(std::uint64_t start, Range assigned);

  /// As part, or as assigned_part. Requires: the lock.
  [[nodiscard]] Part part_of(std::uint64_t start, Bytes bytes, bool goes_on) const;

  /// Returns the first range that ends behind `start`. Requires: the lock.
  [[nodiscard]] Ranges::const_iterator first_behind(std::uint64_t start) const;

  mutable std::mutex mutex_;
  std::atomic<std::uint64_t> changes_{1};  ///< written with the lock.
  Ranges ranges_;  ///< by start, disjoint, none of zeros; guarded by mutex_.
};

}  // namespace gpemu::cuda
