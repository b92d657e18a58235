// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gpemu::cost {

/// Where the shape of a kernel that stays unknown has the bytes it is taken to move.
inline constexpr int kKernelBytes = 7;
/// Where it has the arithmetic operations.
inline constexpr int kKernelFlops = 8;

}  // namespace gpemu::cost
