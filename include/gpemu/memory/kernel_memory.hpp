// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "gpemu/base/units.hpp"
#include "gpemu/kernels/kernel_work.hpp"
#include "gpemu/memory/content.hpp"

namespace gpemu::memory {

/// Writes `count` elements of `value`, as a fill kernel does; large fills of device memory with
/// values other than zero are not computed. Does nothing unless the whole range is in memory of a
/// device or in locked host memory.
void fill_by_kernel(std::uint64_t address, const void* value, Bytes element_bytes, Bytes count,
                    kernels::WriterId writer);

using kernels::Uncomputed;

/// Marks a range of device memory, or the part of it that is in memory, as not computed. Locked
/// host memory does not change: a kBounded range may not be written at all, and other ranges count
/// as read, because the program's reads cannot be seen.
void leave_uncomputed(std::uint64_t address, Bytes bytes, Uncomputed how, kernels::WriterId writer);

/// The same for the elements of a tensor, but not the gaps between them.
void leave_uncomputed(const kernels::KernelWork::Scattered& tensor, kernels::WriterId writer);

/// Stores values computed for a kernel. Does nothing unless the range is in memory of a device or
/// in locked host memory.
void store_by_kernel(std::uint64_t address, const void* data, Bytes bytes);

/// Returns whether all of a range is known, so that load_for_kernel can read it.
[[nodiscard]] bool known_to_kernel(std::uint64_t address, Bytes bytes);

/// Reads known content of device memory or locked host memory, and returns whether all of it is
/// known.
[[nodiscard]] bool load_for_kernel(std::uint64_t address, void* data, Bytes bytes);

/// Returns how many bytes of device memory follow an address without a gap, at most `bytes`.
[[nodiscard]] Bytes device_bytes_at(std::uint64_t address, Bytes bytes);

[[nodiscard]] inline bool on_device(std::uint64_t address) {
  return device_bytes_at(address, 1) == 1;
}

/// Returns the memory of this process on which kernels work.
[[nodiscard]] kernels::Memory& kernel_memory();

}  // namespace gpemu::memory
