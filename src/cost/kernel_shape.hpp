// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gpemu::cost {

/// The entry of an unknown kernel's shape with the bytes that it is assumed to move.
inline constexpr int kKernelBytes = 7;
/// The entry with the arithmetic operations.
inline constexpr int kKernelFlops = 8;

}  // namespace gpemu::cost
