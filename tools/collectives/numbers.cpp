// SPDX-License-Identifier: Apache-2.0
#include "collectives/numbers.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace gpemu::collectives {
namespace {

/// Returns the bits of a floating-point number. Beyond the largest one: infinity, or the largest.
std::uint64_t float_bits(const NumberType& type, double number) {
  const int mantissa = type.mantissa_bits;
  const int bias = (1 << (type.exponent_bits - 1)) - 1;
  const std::uint64_t sign = std::signbit(number) ? 1 : 0;
  const std::uint64_t sign_bit = sign << (type.exponent_bits + mantissa);
  const double value = std::abs(number);
  if (value == 0) return sign_bit;
  const std::uint64_t hidden = std::uint64_t{1} << mantissa;
  const std::uint64_t infinity = ((std::uint64_t{1} << type.exponent_bits) - 1) << mantissa;
  // E4M3 uses the highest exponent for numbers too, but for the last, which is no number.
  const std::uint64_t most = type.has_infinity ? infinity : infinity + hidden - 2;
  if (!std::isfinite(value)) return sign_bit | most;
  const int exponent = std::max(std::ilogb(value), 1 - bias);
  // In units of the last place; a carry goes into the exponent's bits, where it belongs. Numbers
  // below the normal ones have no hidden bit and an exponent of 0.
  const double units = std::nearbyint(std::ldexp(value, mantissa - exponent));
  const std::uint64_t bits = static_cast<std::uint64_t>(units) +
                             (static_cast<std::uint64_t>(exponent + bias - 1) << mantissa);
  return sign_bit | std::min(bits, most);
}

double float_value(const NumberType& type, std::uint64_t bits) {
  const int mantissa = type.mantissa_bits;
  const int bias = (1 << (type.exponent_bits - 1)) - 1;
  const std::uint64_t hidden = std::uint64_t{1} << mantissa;
  const std::uint64_t highest = (std::uint64_t{1} << type.exponent_bits) - 1;
  const std::uint64_t exponent = (bits >> mantissa) & highest;
  const std::uint64_t fraction = bits & (hidden - 1);
  const bool negative = ((bits >> (type.exponent_bits + mantissa)) & 1) != 0;
  double value = 0;
  if (exponent == highest && type.has_infinity) {
    value = fraction == 0 ? INFINITY : NAN;
  } else if (exponent == highest && fraction == hidden - 1 && !type.has_infinity) {
    value = NAN;
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<double>(fraction), 1 - bias - mantissa);
  } else {
    value = std::ldexp(static_cast<double>(fraction + hidden),
                       static_cast<int>(exponent) - bias - mantissa);
  }
  return negative ? -value : value;
}

}  // namespace

const NumberType* find_number_type(std::string_view name) {
  const auto* const found = std::ranges::find(kNumberTypes, name, &NumberType::name);
  return found == kNumberTypes.end() ? nullptr : found;
}

std::vector<std::byte> encode(const NumberType& type, const std::vector<double>& numbers) {
  std::vector<std::byte> bytes(numbers.size() * type.bytes);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::uint64_t bits =
        type.is_integer ? static_cast<std::uint64_t>(static_cast<std::int64_t>(numbers[i]))
                        : float_bits(type, numbers[i]);
    std::memcpy(&bytes[i * type.bytes], &bits, type.bytes);  // The host is little-endian.
  }
  return bytes;
}

std::vector<double> decode(const NumberType& type, const std::vector<std::byte>& bytes) {
  std::vector<double> numbers(bytes.size() / type.bytes);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &bytes[i * type.bytes], type.bytes);
    if (!type.is_integer) {
      numbers[i] = float_value(type, bits);
    } else if (type.is_signed) {
      const int unused = 64 - 8 * static_cast<int>(type.bytes);
      numbers[i] = static_cast<double>(static_cast<std::int64_t>(bits << unused) >> unused);
    } else {
      numbers[i] = static_cast<double>(bits);
    }
  }
  return numbers;
}

}  // namespace gpemu::collectives
