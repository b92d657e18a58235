// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace gpemu::data {

/// Returns the CRC-32C of bytes (polynomial 0x1EDC6F41, reflected). Source: RFC 3720, appendix B.4.
[[nodiscard]] std::uint32_t crc32c(std::span<const std::byte> bytes);

/// The same without the processor's instruction for it.
[[nodiscard]] std::uint32_t crc32c_by_table(std::span<const std::byte> bytes);

/// Returns a CRC as TFRecord files store it: rotated, and with a constant added, so that a CRC over
/// data that holds CRCs still finds damage. Source: TensorFlow, "TFRecord and tf.train.Example".
[[nodiscard]] constexpr std::uint32_t masked_crc(std::uint32_t crc) {
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

}  // namespace gpemu::data
