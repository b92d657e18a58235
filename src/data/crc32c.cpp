// SPDX-License-Identifier: Apache-2.0
#include "crc32c.hpp"

#include <array>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace gpemu::data {
namespace {

constexpr std::uint32_t kReflectedPolynomial = 0x82f63b78U;

/// Tables of what 8 bytes contribute at once ("slicing by 8").
using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) * kReflectedPolynomial);
    tables[0][i] = crc;
  }
  for (std::size_t i = 0; i < 256; ++i) {
    for (std::size_t t = 1; t < tables.size(); ++t) {
      tables[t][i] = (tables[t - 1][i] >> 8) ^ tables[0][tables[t - 1][i] & 0xff];
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();

std::uint32_t add_byte(std::uint32_t crc, std::byte byte) {
  return (crc >> 8) ^ kTables[0][(crc ^ static_cast<std::uint32_t>(byte)) & 0xff];
}

std::uint32_t add_by_table(std::uint32_t crc, std::span<const std::byte> bytes) {
  static_assert(std::endian::native == std::endian::little);
  while (bytes.size() >= sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof word);
    word ^= crc;
    crc = 0;
    for (std::size_t i = 0; i < kTables.size(); ++i) {
      crc ^= kTables[kTables.size() - 1 - i][(word >> (8 * i)) & 0xff];
    }
    bytes = bytes.subspan(sizeof word);
  }
  for (const std::byte byte : bytes) crc = add_byte(crc, byte);
  return crc;
}

#if defined(__x86_64__)
[[gnu::target("sse4.2")]] std::uint32_t add_by_instruction(std::uint32_t crc,
                                                           std::span<const std::byte> bytes) {
  std::uint64_t wide = crc;
  while (bytes.size() >= sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof word);
    wide = _mm_crc32_u64(wide, word);
    bytes = bytes.subspan(sizeof word);
  }
  crc = static_cast<std::uint32_t>(wide);
  for (const std::byte byte : bytes) crc = _mm_crc32_u8(crc, static_cast<unsigned char>(byte));
  return crc;
}
#endif

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) return ~add_by_instruction(~0U, bytes);
#endif
  return crc32c_by_table(bytes);
}

std::uint32_t crc32c_by_table(std::span<const std::byte> bytes) {
  return ~add_by_table(~0U, bytes);
}

}  // namespace gpemu::data
