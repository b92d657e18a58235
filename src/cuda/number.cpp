// SPDX-License-Identifier: Apache-2.0
#include "number.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace gpemu::cuda {
namespace {

template <typename T>
T read(const std::byte* from) {
  T value{};
  std::memcpy(&value, from, sizeof(value));
  return value;
}

template <typename T>
void write(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof(value));
}

double half_to_double(std::uint16_t bits) {
  const int exponent = bits >> 10 & 0x1f;
  const int fraction = bits & 0x3ff;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 0x1f) {
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(fraction + 1024, exponent - 25);
}

/// Rounds to the nearest, ties to even.
std::uint16_t float_to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000);
  if (std::isnan(value)) return sign | 0x7e00;
  const double magnitude = std::abs(static_cast<double>(value));
  if (magnitude >= 65520) return sign | 0x7c00;
  // A multiple of the smallest step at this size; nearbyint rounds ties to even.
  const int exponent = magnitude == 0 ? -14 : std::max(std::ilogb(magnitude), -14);
  const auto steps = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
  // A carry goes into the exponent by itself; below 1024 steps it is subnormal.
  return static_cast<std::uint16_t>(sign + ((exponent + 14) << 10) + steps);
}

std::uint16_t float_to_bfloat(float value) {
  auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return 0x7fc0;
  bits += 0x7fff + (bits >> 16 & 1);
  return static_cast<std::uint16_t>(bits >> 16);
}

/// Beyond the range, where C++ says nothing, as processors of x86 do.
std::int64_t to_whole(double real) {
  if (!(real >= -0x1p63 && real < 0x1p63)) return std::numeric_limits<std::int64_t>::min();
  return static_cast<std::int64_t>(real);
}

[[gnu::always_inline]] inline Number load(const std::byte* from, NumberType type) {
  switch (type) {
    case NumberType::kUint8:
      return {.whole = read<std::uint8_t>(from)};
    case NumberType::kInt8:
      return {.whole = read<std::int8_t>(from)};
    case NumberType::kBool:
      return {.whole = read<std::uint8_t>(from) != 0};
    case NumberType::kInt16:
      return {.whole = read<std::int16_t>(from)};
    case NumberType::kInt32:
      return {.whole = read<std::int32_t>(from)};
    case NumberType::kInt64:
      return {.whole = read<std::int64_t>(from)};
    case NumberType::kFloat16:
      return {.real = half_to_double(read<std::uint16_t>(from))};
    case NumberType::kBFloat16:
      return {.real = std::bit_cast<float>(std::uint32_t{read<std::uint16_t>(from)} << 16)};
    case NumberType::kFloat32:
      return {.real = read<float>(from)};
    case NumberType::kFloat64:
      return {.real = read<double>(from)};
    case NumberType::kUnknown:
      break;
  }
  return {};
}

[[gnu::always_inline]] inline void store(Number number, NumberType type, std::byte* to) {
  switch (type) {
    case NumberType::kUint8:
    case NumberType::kInt8:
      return write(to, static_cast<std::uint8_t>(number.whole));
    case NumberType::kBool:
      return write(to, static_cast<std::uint8_t>(number.whole != 0));
    case NumberType::kInt16:
      return write(to, static_cast<std::int16_t>(number.whole));
    case NumberType::kInt32:
      return write(to, static_cast<std::int32_t>(number.whole));
    case NumberType::kInt64:
      return write(to, number.whole);
    case NumberType::kFloat16:
      return write(to, float_to_half(static_cast<float>(number.real)));
    case NumberType::kBFloat16:
      return write(to, float_to_bfloat(static_cast<float>(number.real)));
    case NumberType::kFloat32:
      return write(to, static_cast<float>(number.real));
    case NumberType::kFloat64:
      return write(to, number.real);
    case NumberType::kUnknown:
      break;
  }
}

}  // namespace

Bytes number_bytes(NumberType type) {
  switch (type) {
    case NumberType::kUint8:
    case NumberType::kInt8:
    case NumberType::kBool:
      return 1;
    case NumberType::kInt16:
    case NumberType::kFloat16:
    case NumberType::kBFloat16:
      return 2;
    case NumberType::kInt32:
    case NumberType::kFloat32:
      return 4;
    case NumberType::kInt64:
    case NumberType::kFloat64:
      return 8;
    case NumberType::kUnknown:
      break;
  }
  return 0;
}

Number load_number(const std::byte* from, NumberType type) {
  return load(from, type);
}

void store_number(Number number, NumberType type, std::byte* to) {
  store(number, type, to);
}

Number convert_number(Number number, NumberType from, NumberType to) {
  if (is_real(from) == is_real(to)) {
    return to == NumberType::kBool ? Number{.whole = number.whole != 0} : number;
  }
  if (is_real(to)) return {.real = static_cast<double>(number.whole)};
  if (to == NumberType::kBool) return {.whole = number.real != 0};
  return {.whole = to_whole(number.real)};
}

namespace {

/// Calls `visit` with the type as a constant, so that a loop in it is compiled for each type.
template <typename Visit>
void with_constant(NumberType type, Visit visit) {
  using enum NumberType;
  switch (type) {
    case kFloat32:
      return visit(std::integral_constant<NumberType, kFloat32>());
    case kFloat64:
      return visit(std::integral_constant<NumberType, kFloat64>());
    case kBFloat16:
      return visit(std::integral_constant<NumberType, kBFloat16>());
    case kInt32:
      return visit(std::integral_constant<NumberType, kInt32>());
    case kInt64:
      return visit(std::integral_constant<NumberType, kInt64>());
    case kBool:
      return visit(std::integral_constant<NumberType, kBool>());
    default:
      return visit(type);
  }
}

}  // namespace

void load_numbers(const std::byte* from, Bytes stride, NumberType type, NumberType as,
                  std::span<Number> to) {
  with_constant(type, [&](auto constant) {
    const NumberType loaded = constant;
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = load(from + i * stride, loaded);
  });
  convert_numbers(type, as, to);
}

void store_numbers(std::span<const Number> numbers, NumberType type, std::byte* to) {
  const Bytes width = number_bytes(type);
  with_constant(type, [&](auto constant) {
    const NumberType stored = constant;
    for (std::size_t i = 0; i < numbers.size(); ++i) store(numbers[i], stored, to + i * width);
  });
}

void convert_numbers(NumberType from, NumberType to, std::span<Number> numbers) {
  if (from == to || (is_real(from) && is_real(to))) return;
  for (Number& number : numbers) number = convert_number(number, from, to);
}

}  // namespace gpemu::cuda
