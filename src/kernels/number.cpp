// SPDX-License-Identifier: Apache-2.0
#include "gpemu/kernels/number.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace gpemu::kernels {
namespace {

template <typename T>
T read_as(const std::byte* from) {
  T value{};
  std::memcpy(&value, from, sizeof(value));
  return value;
}

template <typename T>
void write(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof(value));
}

/// Makes a NaN of FP64 from a sign and a payload, which is at the top of its 52 bits. Conversions
/// by the processor would make a signalling NaN quiet.
double nan_of(bool negative, std::uint64_t payload) {
  return std::bit_cast<double>((negative ? 0xfffULL : 0x7ffULL) << 52 | payload);
}

constexpr std::uint64_t kPayload = (1ULL << 52) - 1;

double half_to_double(std::uint16_t bits) {
  const int exponent = bits >> 10 & 0x1f;
  const int fraction = bits & 0x3ff;
  const bool negative = (bits & 0x8000) != 0;
  const double sign = negative ? -1 : 1;
  if (exponent == 0x1f) {
    return fraction != 0 ? nan_of(negative, std::uint64_t{bits & 0x3ffU} << 42)
                         : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(fraction + 1024, exponent - 25);
}

[[gnu::always_inline]] inline double float_to_double(std::uint32_t bits) {
  const auto value = std::bit_cast<float>(bits);
  if (!std::isnan(value)) [[likely]]
    return value;
  return nan_of(bits >> 31 != 0, std::uint64_t{bits & 0x7fffffU} << 29);
}

/// Rounds to the nearest.
[[gnu::always_inline]] inline std::uint32_t double_to_float(double value) {
  if (!std::isnan(value)) [[likely]]
    return std::bit_cast<std::uint32_t>(static_cast<float>(value));
  const auto bits = std::bit_cast<std::uint64_t>(value);
  // A payload that does not fit must not become an infinity.
  const auto payload = std::max<std::uint32_t>((bits & kPayload) >> 29, 1);
  return static_cast<std::uint32_t>(bits >> 63) << 31 | 0x7f800000U | payload;
}

/// The upper half of a NaN of FP32, which is one of a type with so many bits for the fraction.
std::uint16_t narrow_nan(std::uint32_t bits, int fraction_bits) {
  const auto fraction = static_cast<std::uint16_t>((bits & 0x7fffff) >> (23 - fraction_bits));
  const auto ones = static_cast<std::uint16_t>(0x7fff >> fraction_bits << fraction_bits);
  return static_cast<std::uint16_t>(bits >> 16 & 0x8000) | ones |
         std::max<std::uint16_t>(fraction, 1);
}

/// Rounds to the nearest, ties to even.
std::uint16_t float_to_half(std::uint32_t bits) {
  const auto value = std::bit_cast<float>(bits);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000);
  if (std::isnan(value)) return narrow_nan(bits, 10);
  const double magnitude = std::abs(static_cast<double>(value));
  if (magnitude >= 65520) return sign | 0x7c00;
  // A multiple of the smallest step at this size; nearbyint rounds ties to even.
  const int exponent = magnitude == 0 ? -14 : std::max(std::ilogb(magnitude), -14);
  const auto steps = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
  // A carry goes into the exponent by itself; below 1024 steps it is subnormal.
  return static_cast<std::uint16_t>(sign + ((exponent + 14) << 10) + steps);
}

std::uint16_t float_to_bfloat(std::uint32_t bits) {
  if (std::isnan(std::bit_cast<float>(bits))) return narrow_nan(bits, 7);
  bits += 0x7fff + (bits >> 16 & 1);
  return static_cast<std::uint16_t>(bits >> 16);
}

/// Rounds towards zero; numbers beyond the range become the nearest number in it. Source: `cvt` in
/// NVIDIA's PTX ISA.
template <typename T>
std::int64_t clamped(double real) {
  using Limits = std::numeric_limits<T>;
  // The largest number itself is no double where T has 64 bits.
  if (real >= -static_cast<double>(Limits::min())) return Limits::max();
  if (real <= static_cast<double>(Limits::min())) return Limits::min();
  return static_cast<std::int64_t>(real);
}

/// Converts as kernels of PyTorch do: to unsigned char by way of 64 bits (c10/util/TypeCast.h), to
/// the other types of at most 32 bits by way of 32, as NVIDIA's compiler does. NaN becomes the
/// least number, but 0 on the way from FP32 to 32 bits. Source: `cvt` in NVIDIA's PTX ISA.
std::int64_t to_whole(double real, NumberType from, NumberType to) {
  const bool wide = to == NumberType::kInt64 || to == NumberType::kUint8;
  if (std::isnan(real)) {
    if (wide) return std::numeric_limits<std::int64_t>::min();
    return from == NumberType::kFloat64 ? std::numeric_limits<std::int32_t>::min() : 0;
  }
  return wide ? clamped<std::int64_t>(real) : clamped<std::int32_t>(real);
}

[[gnu::always_inline]] inline Number load(const std::byte* from, NumberType type) {
  switch (type) {
    case NumberType::kUint8:
      return {.whole = read_as<std::uint8_t>(from)};
    case NumberType::kInt8:
      return {.whole = read_as<std::int8_t>(from)};
    case NumberType::kBool:
      return {.whole = read_as<std::uint8_t>(from) != 0};
    case NumberType::kInt16:
      return {.whole = read_as<std::int16_t>(from)};
    case NumberType::kInt32:
      return {.whole = read_as<std::int32_t>(from)};
    case NumberType::kInt64:
      return {.whole = read_as<std::int64_t>(from)};
    case NumberType::kFloat16:
      return {.real = half_to_double(read_as<std::uint16_t>(from))};
    case NumberType::kBFloat16:
      return {.real = float_to_double(std::uint32_t{read_as<std::uint16_t>(from)} << 16)};
    case NumberType::kFloat32:
      return {.real = float_to_double(read_as<std::uint32_t>(from))};
    case NumberType::kFloat64:
      return {.real = read_as<double>(from)};
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
      return write(to, float_to_half(double_to_float(number.real)));
    case NumberType::kBFloat16:
      return write(to, float_to_bfloat(double_to_float(number.real)));
    case NumberType::kFloat32:
      return write(to, double_to_float(number.real));
    case NumberType::kFloat64:
      return write(to, number.real);
    case NumberType::kUnknown:
      break;
  }
}

/// Converts by way of memory, because no type contains all values of another. Whole numbers are
/// rounded once, to FP32 also for the smaller types. Source: the constructors in c10/util/Half.h
/// and BFloat16.h.
[[gnu::always_inline]] inline Number convert(Number number, NumberType from, NumberType to) {
  if (from == to) return number;
  if (is_real(from) && to == NumberType::kBool) return {.whole = number.real != 0};
  if (is_real(from) && !is_real(to)) number.whole = to_whole(number.real, from, to);
  if (is_real(from) && std::isnan(number.real)) number.real = kNan;
  if (!is_real(from)) {
    number.real = to == NumberType::kFloat64
                      ? static_cast<double>(number.whole)
                      : static_cast<double>(static_cast<float>(number.whole));
  }
  std::array<std::byte, 8> bytes{};
  store(number, to, bytes.data());
  return load(bytes.data(), to);
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
  return convert(number, from, to);
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
  if (from == to) return;
  with_constant(to, [&](auto constant) {
    const NumberType target = constant;
    for (Number& number : numbers) number = convert(number, from, target);
  });
}

}  // namespace gpemu::kernels
