// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

namespace gpemu::collectives {

/// NCCL's types of numbers, with the values of ncclDataType_t. Source: nccl.h of NCCL 2.27.
struct NumberType {
  std::string_view name;  ///< as nccl-tests has it.
  int nccl = 0;
  std::size_t bytes = 0;
  bool is_integer = false;
  bool is_signed = true;
  int exponent_bits = 0, mantissa_bits = 0;  ///< of floating-point numbers.
  bool has_infinity = true;                  ///< FP8 E4M3 has none.
};

inline constexpr std::array<NumberType, 12> kNumberTypes = {{
    {"int8", 0, 1, true},
    {"uint8", 1, 1, true, false},
    {"int32", 2, 4, true},
    {"uint32", 3, 4, true, false},
    {"int64", 4, 8, true},
    {"uint64", 5, 8, true, false},
    {"half", 6, 2, false, true, 5, 10},
    {"float", 7, 4, false, true, 8, 23},
    {"double", 8, 8, false, true, 11, 52},
    {"bfloat16", 9, 2, false, true, 8, 7},
    {"f8e4m3", 10, 1, false, true, 4, 3, false},
    {"f8e5m2", 11, 1, false, true, 5, 2},
}};

/// Returns the type with a name, or null.
[[nodiscard]] const NumberType* find_number_type(std::string_view name);

/// Returns numbers as the bytes of a type, rounded to nearest, ties to even. Requires: integers are
/// in the type's range.
[[nodiscard]] std::vector<std::byte> encode(const NumberType& type,
                                            const std::vector<double>& numbers);

/// Returns the numbers that bytes of a type stand for.
[[nodiscard]] std::vector<double> decode(const NumberType& type,
                                         const std::vector<std::byte>& bytes);

}  // namespace gpemu::collectives
