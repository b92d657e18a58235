// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "gpemu/base/units.hpp"

namespace gpemu::data {

// The layout of a page file; docs/reference/data-formats.md describes it. All numbers are little
// endian. Pages come first, then the table of samples, the names of the classes, and the footer.

/// The last bytes of a page file.
struct PageFooter {
  std::uint64_t page_bytes = 0;  ///< page i begins at i * page_bytes.
  std::uint64_t samples = 0;
  std::uint64_t classes = 0;
  std::uint64_t table_offset = 0;  ///< the end of the last page.
  std::uint32_t table_crc = 0;     ///< CRC-32C of table and names.
  std::uint32_t version = kVersion;
  std::array<char, 8> magic = kMagic;

  static constexpr std::uint32_t kVersion = 1;
  static constexpr std::array<char, 8> kMagic = {'g', 'p', 'e', 'm', 'u', 'P', 'G', 'S'};
};
static_assert(sizeof(PageFooter) == 48);

/// One entry of the table of samples, which are in the order of their offsets.
struct PageSample {
  std::uint64_t offset = 0;
  std::uint32_t bytes = 0;
  std::int32_t label = 0;
  std::uint32_t crc = 0;  ///< CRC-32C of the image.
  std::uint32_t reserved = 0;
};
static_assert(sizeof(PageSample) == 24);

/// Pages of larger files would not fit into memory side by side.
inline constexpr Bytes kMostPageBytes = 256 * kMiB;

}  // namespace gpemu::data
