// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "memory_state.hpp"

namespace gpemu::cuda {

/// What one side of a copy is.
struct Side {
  Side() = default;
  /// Describes a range of addresses. Requires: the lock.
  Side(const Memory& state, std::uint64_t address, Bytes extent);

  gpemu_cuda_memory_kind kind = GPEMU_CUDA_MEMORY_UNREGISTERED;
  int device = -1;
  bool inside = true;  ///< whether the whole range lies in the block.
  Bytes covered = 0;   ///< how much of the range lies in memory from its start, if it begins there.
  bool shared = true;  ///< whether its content must be looked for in the pages.
  [[nodiscard]] bool on_device() const { return kind == GPEMU_CUDA_MEMORY_DEVICE; }
  /// Whether all of it is a device's memory, or the host's locked one.
  [[nodiscard]] bool is_read_by_kernels() const { return inside && (on_device() || on_host()); }
  /// Whether it begins in the host's locked memory, which kernels read and write where it is.
  [[nodiscard]] bool on_host() const { return kind == GPEMU_CUDA_MEMORY_HOST; }
  /// Whether it begins in memory that kernels write: a device's, or managed memory.
  [[nodiscard]] bool is_written_by_kernels() const {
    return on_device() || kind == GPEMU_CUDA_MEMORY_MANAGED;
  }
  /// Whether the host or other processes may write it at any time.
  [[nodiscard]] bool is_shared() const {
    return kind == GPEMU_CUDA_MEMORY_MANAGED || (on_device() && shared);
  }

 private:
  void describe_in(const Memory& state, const std::pair<const std::uint64_t, Block>& first,
                   std::uint64_t address, Bytes extent);
  void describe_outside(const Memory& state, std::uint64_t address);
};

/// Describes a range of addresses, which kernels and libraries write.
[[nodiscard]] Side side_of(std::uint64_t address, Bytes bytes);

/// Writes elements of one value side by side. Requires: `count` is not 0.
void fill(std::uint64_t address, const void* value, Bytes element_bytes, Bytes count);

/// Says that a range is what its pages hold, which are about to be written.
void keep(std::uint64_t address, Bytes bytes);

/// Makes a range read as zeros; `content` says why. Only what is kept costs anything.
void drop(std::uint64_t address, Bytes bytes, Content content, WriterId writer = 0);

/// Whether a range reads as zeros throughout, so that copying it moves nothing.
[[nodiscard]] bool is_unkept(std::uint64_t address, Bytes bytes);

/// Parts of memory whose content is not known, by address.
using UnknownParts = std::vector<std::pair<std::uint64_t, ContentMap::Part>>;

/// Makes a range what its pages hold, and adds to `unknown` what was not known of it. Requires: the
/// pages of what is not kept hold zeros.
void settle(ContentMap& contents, std::uint64_t start, Bytes bytes, UnknownParts& unknown);

/// Lets others than the calls of this process use a block, and settles it. Requires: the lock.
void share_block(Memory& state, std::uint64_t start, Block& block, UnknownParts& unknown);

/// Counts what became shared though it was not known: nobody sees others read it, so it counts as
/// read. Requires: not the lock, for the program may be told.
void record_shared(const UnknownParts& unknown);

/// Copies from a device's memory to the host's, and counts what is not known. Pages that nobody
/// wrote are not touched.
void read_row(std::uint64_t to, std::uint64_t from, Bytes bytes, bool shared);

/// Copies a row from one side to the other.
void copy_row(std::uint64_t to, std::uint64_t from, Bytes bytes, const Side& target,
              const Side& source);

}  // namespace gpemu::cuda
