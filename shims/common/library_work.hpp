// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "gpemu/operation.h"

// How much work a call asks for: elements, bytes or arithmetic operations. Its sizes are the
// caller's and may be any numbers, so work is counted in double, which does not wrap.

/// Returns a product of sizes.
template <typename... Sizes>
constexpr double times(Sizes... sizes) {
  return (1.0 * ... * static_cast<double>(sizes));
}

/// The most work that an operation has, 2^62: no device holds that much, and with it, a call takes
/// as long as any can.
constexpr int64_t kMostWork = int64_t{1} << 62;

/// Returns an amount of work as an entry of gpemu_operation's shape: kMostWork if it is more.
/// Requires: it is not negative.
constexpr int64_t entry_of(double work) {
  return work < static_cast<double>(kMostWork) ? static_cast<int64_t>(work) : kMostWork;
}

/// Yields the bytes of elements of a type. Returns false if 64 bits do not hold them: there is no
/// such memory.
constexpr bool count_bytes(int64_t elements, int64_t element_bytes, uint64_t* bytes) {
  return !__builtin_mul_overflow(elements, element_bytes, bytes);
}
