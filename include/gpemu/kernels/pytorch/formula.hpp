// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "gpemu/kernels/number.hpp"

namespace gpemu::kernels {

/// The operations on elements. `a`, `b` and `c` are the inputs in their order.
enum class Operation : std::uint8_t {
  kCopy,
  kNegate,
  kAbs,
  kSqrt,
  kReciprocalSqrt,
  kExp,
  kExp2,
  kExpm1,
  kLog,
  kLog2,
  kLog10,
  kLog1p,
  kSin,
  kCos,
  kTan,
  kAsin,
  kAcos,
  kAtan,
  kSinh,
  kCosh,
  kTanh,
  kAsinh,
  kAcosh,
  kAtanh,
  kErf,
  kErfc,
  kSigmoid,
  kSilu,
  kFloor,
  kCeil,
  kRound,
  kTrunc,
  kFrac,
  kSign,
  kReciprocal,
  kSquare,
  kCube,
  kLogicalNot,
  kBitwiseNot,
  kIsPositiveInfinity,
  kIsNegativeInfinity,
  kSignBit,
  kClamp,  ///< by the functor's limits.
  kAdd,    ///< a + alpha * b, with the functor's alpha.
  kMultiply,
  kMultiplyTrunc,  ///< truncated: a division by a number, whose reciprocal the functor holds.
  kDivide,
  kDivideFloor,
  kDivideTrunc,
  kMod,        ///< the sign is a's.
  kRemainder,  ///< the sign is b's.
  kMaximum,    ///< NaN if one is.
  kMinimum,
  kPower,
  kAtan2,
  kHypot,
  kCopySign,
  kSquaredDifference,
  kBitwiseAnd,
  kBitwiseOr,
  kBitwiseXor,
  kLogicalAnd,
  kLogicalOr,
  kLogicalXor,
  kCompare,       ///< by the functor's kind: a >= b, >, <=, <.
  kCompareEqual,  ///< by the functor's kind: equal, not equal.
  kWhere,         ///< a ? b : c.
  kMaskedFill,    ///< b ? the functor's value : a.
};

/// What an element-wise kernel computes, read from its functor's name, so that its results are
/// known if its inputs are.
struct Formula {
  Operation operation = Operation::kCopy;
  int tensors = 1;                    ///< that are read; the functor may bring a further input.
  std::array<NumberType, 3> types{};  ///< of the tensors that are read, as the functor takes them.
  NumberType result = NumberType::kUnknown;
  int scalar = -1;  ///< which input is the functor's; -1: none.
  NumberType scalar_type = NumberType::kUnknown;
  Bytes functor_bytes = 1;  ///< its size, if the operation uses its content.
};

/// Reads a functor's demangled name; returns nothing if it is not known. Source: the functors in
/// PyTorch's native/cuda.
[[nodiscard]] std::optional<Formula> read_formula(std::string_view functor);

/// Returns the type with a demangled name, or kUnknown.
[[nodiscard]] NumberType number_type(std::string_view name);

/// The content of a functor, read at a launch.
struct FunctorState {
  Number scalar;          ///< of scalar inputs, alpha, values.
  Number lower, upper;    ///< of clamps.
  std::int32_t kind = 0;  ///< of comparisons and clamps.
};
[[nodiscard]] FunctorState read_functor(const Formula& formula, const std::byte* functor);

/// Computes elements from the inputs, in their order, each as long as the results. Returns false if
/// the operation is not defined.
[[nodiscard]] bool evaluate(const Formula& formula, const FunctorState& state,
                            std::span<const std::vector<Number>> tensors,
                            std::span<Number> results);

}  // namespace gpemu::kernels
