// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "gpemu/base/units.hpp"

namespace gpemu::kernels {

/// The type of a tensor's elements. The numbers are PyTorch's. Source: c10/core/ScalarType.h.
enum class NumberType : std::int8_t {
  kUint8 = 0,
  kInt8 = 1,
  kInt16 = 2,
  kInt32 = 3,
  kInt64 = 4,
  kFloat16 = 5,
  kFloat32 = 6,
  kFloat64 = 7,
  kBool = 11,
  kBFloat16 = 15,
  kUnknown = -1,
};

/// A number of any of the types: reals in `real`, whole numbers and truth values in `whole`.
struct Number {
  double real = 0;
  std::int64_t whole = 0;
};

[[nodiscard]] constexpr bool is_real(NumberType type) {
  return type == NumberType::kFloat16 || type == NumberType::kFloat32 ||
         type == NumberType::kFloat64 || type == NumberType::kBFloat16;
}

/// Returns the size of an element, 0 for kUnknown.
[[nodiscard]] Bytes number_bytes(NumberType type);

/// The result of FP32 arithmetic and conversions for a NaN: 0x7fffffff in FP32. Source:
/// "Floating-Point Standard" in NVIDIA's CUDA C++ Programming Guide.
inline constexpr double kNan = std::bit_cast<double>(0x7fffffffe0000000);

/// Reads an element. A NaN keeps its sign and payload.
[[nodiscard]] Number load_number(const std::byte* from, NumberType type);

/// Writes an element; reals are rounded to the nearest, by way of FP32 to the smaller types, as
/// GPUs and PyTorch do. A number read as the same type keeps its bits.
void store_number(Number number, NumberType type, std::byte* to);

/// Converts a number to another type: rounded, truncated or clamped like PyTorch's kernels do.
[[nodiscard]] Number convert_number(Number number, NumberType from, NumberType to);

/// The same for many elements, several times as fast: they are `stride` bytes apart and are
/// converted to another type at once.
void load_numbers(const std::byte* from, Bytes stride, NumberType type, NumberType as,
                  std::span<Number> to);
void store_numbers(std::span<const Number> numbers, NumberType type, std::byte* to);
void convert_numbers(NumberType from, NumberType to, std::span<Number> numbers);

}  // namespace gpemu::kernels
