// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "gpemu/base/units.hpp"

#include "content.hpp"

namespace gpemu::cuda {

/// Writes `count` elements of `value`, as a kernel that fills does; large fills of a device's
/// memory with other values than zero are not computed. Does nothing unless the whole range lies in
/// memory of a device or the host's locked one.
void fill_by_kernel(std::uint64_t address, const void* value, Bytes element_bytes, Bytes count,
                    WriterId writer);

/// What a kernel or a library did to a range without computing it.
enum class Uncomputed : std::uint8_t {
  kWritten,  ///< new values, which read as zeros.
  kOpen,     ///< as kWritten, at least so many bytes.
  kUpdated,  ///< changed in place: what was known is kept.
};

/// Makes a range in memory of a device not computed, or what of it lies in memory. In the host's
/// locked memory nothing changes, and what is kOpen may not be written at all; the rest counts as
/// read, because nobody sees the program read it.
void leave_uncomputed(std::uint64_t address, Bytes bytes, Uncomputed how, WriterId writer);

/// Stores what was computed for a kernel. Does nothing unless the range lies in memory of a device
/// or the host's locked one.
void store_by_kernel(std::uint64_t address, const void* data, Bytes bytes);

/// Whether all of a range is known, so that load_for_kernel can read it.
[[nodiscard]] bool known_to_kernel(std::uint64_t address, Bytes bytes);

/// Reads known content of a device's memory or of the host's locked one, and returns whether all of
/// it is.
[[nodiscard]] bool load_for_kernel(std::uint64_t address, void* data, Bytes bytes);

/// Returns how many bytes of device memory lie at an address without a gap, at most `bytes`.
[[nodiscard]] Bytes device_bytes_at(std::uint64_t address, Bytes bytes);

}  // namespace gpemu::cuda
