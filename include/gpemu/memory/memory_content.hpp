// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "gpemu/base/mutex.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/memory/memory_state.hpp"

namespace gpemu::memory {

/// A description of one side of a copy.
struct Side {
  Side() = default;
  /// Describes a range of addresses.
  Side(const Memory& state, std::uint64_t address, Bytes extent) GPEMU_REQUIRES(state.mutex);

  gpemu_cuda_memory_kind kind = GPEMU_CUDA_MEMORY_UNREGISTERED;
  int device = -1;
  bool inside = true;  ///< whether the whole range lies in the block.
  Bytes covered = 0;   ///< how much of the range is in memory, counted from its start.
  bool shared = true;  ///< whether its content must be read from the pages.
  [[nodiscard]] bool on_device() const { return kind == GPEMU_CUDA_MEMORY_DEVICE; }
  /// Returns whether all of it is device memory or locked host memory.
  [[nodiscard]] bool is_read_by_kernels() const { return inside && (on_device() || on_host()); }
  /// Returns whether it begins in locked host memory, which kernels access in place.
  [[nodiscard]] bool on_host() const { return kind == GPEMU_CUDA_MEMORY_HOST; }
  /// Returns whether it begins in memory that kernels write: device memory or managed memory.
  [[nodiscard]] bool is_written_by_kernels() const {
    return on_device() || kind == GPEMU_CUDA_MEMORY_MANAGED;
  }
  /// Returns whether the host or other processes may write it at any time.
  [[nodiscard]] bool is_shared() const {
    return kind == GPEMU_CUDA_MEMORY_MANAGED || (on_device() && shared);
  }

 private:
  void describe_in(const Memory& state, const std::pair<const std::uint64_t, Block>& first,
                   std::uint64_t address, Bytes extent) GPEMU_REQUIRES(state.mutex);
  void describe_outside(const Memory& state, std::uint64_t address) GPEMU_REQUIRES(state.mutex);
};

/// Counts memory as held by this process.
void count_held(Memory& state, int device, Bytes bytes) GPEMU_REQUIRES(state.mutex);

/// Describes a range of addresses, which kernels and libraries write.
[[nodiscard]] Side side_of(std::uint64_t address, Bytes bytes);

/// Writes adjacent elements of one value. Requires: `count` is not 0.
void fill(std::uint64_t address, const void* value, Bytes element_bytes, Bytes count);

/// Marks a range as the content of its pages, which are about to be written.
void keep(std::uint64_t address, Bytes bytes);

/// Makes a range read as zeros; `content` says why. Only kept parts cost time.
void drop(std::uint64_t address, Bytes bytes, Content content, kernels::WriterId writer = 0);

/// Returns whether all of a range reads as zeros, so that copying it moves nothing.
[[nodiscard]] bool is_unkept(std::uint64_t address, Bytes bytes);

/// Parts of memory whose content is not known, by address.
using UnknownParts = std::vector<std::pair<std::uint64_t, ContentMap::Part>>;

/// Marks a range as the content of its pages, and adds its unknown parts to `unknown`. Requires:
/// the pages of parts that are not kept are zeros.
void settle(ContentMap& contents, std::uint64_t start, Bytes bytes, UnknownParts& unknown);

/// Makes a block accessible outside of this process's calls, and settles it.
void share_block(Memory& state, std::uint64_t start, Block& block, UnknownParts& unknown)
    GPEMU_REQUIRES(state.mutex);

/// Counts unknown content that became shared as read, because reads by others cannot be seen.
/// Requires: not the lock, because callbacks of the program may be called.
void record_shared(const UnknownParts& unknown);

/// Copies from a device's memory to the host's, and counts unknown content. Pages that were never
/// written are not touched.
void read_row(std::uint64_t to, std::uint64_t from, Bytes bytes, bool shared);

/// Copies a row from one side to the other.
void copy_row(std::uint64_t to, std::uint64_t from, Bytes bytes, const Side& target,
              const Side& source);

}  // namespace gpemu::memory
