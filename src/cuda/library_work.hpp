// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpemu/cuda.h"
#include "gpemu/process/status.hpp"
#include "gpemu/streams/stream_state.hpp"

namespace gpemu::cuda {

/// Marks the results of a library's function on a stream as not computed, or captures that. Errors:
/// INVALID_VALUE for rows beyond 64 bits, those of capture.
[[nodiscard]] process::Status leave_result(const gpemu_cuda_result& result, const char* function,
                                           gpemu_cuda_stream& stream);

/// The same for products of matrices, which are computed if they are small and known. Requires: no
/// size is less than zero.
[[nodiscard]] process::Status multiply(const gpemu_cuda_product& product, const char* function,
                                       gpemu_cuda_stream& stream);

}  // namespace gpemu::cuda
