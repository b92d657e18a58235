// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "gpemu/cuda.h"

namespace gpemu::memory {

/// The most multiplications of a product for which values are computed: some 0.2 ms of a core.
inline constexpr std::int64_t kMostMultiplications = std::int64_t{256} * 1024;

/// Computes a product of matrices if all its inputs are known. Returns whether it did.
[[nodiscard]] bool compute_product(const gpemu_cuda_product& product);

}  // namespace gpemu::memory
