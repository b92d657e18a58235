// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/kernel_work.hpp"
#include "kernels/pytorch/tensor_work.hpp"

namespace gpemu::cuda {

/// Elements that a kernel moves unchanged, each to the place of the same number.
struct PlainMove {
  Bytes element_bytes = 1;
  std::uint64_t to = 0;
  std::uint64_t from = 0;  ///< 0: zeros are written.
  Places to_places, from_places;
};

/// Adds what a kernel does that only moves elements. Content of any size is moved, known or not,
/// unless it lies in thousands of pieces. Returns false, and adds nothing, if strides are negative.
/// Requires: each move has as many elements in both places.
[[nodiscard]] bool add_plain_moves(std::vector<PlainMove> moves, KernelWork* work);

}  // namespace gpemu::cuda
