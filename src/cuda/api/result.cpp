// SPDX-License-Identifier: Apache-2.0
#include "gpemu/cuda.h"

#include "library_work.hpp"
#include "stream.hpp"

namespace cuda = gpemu::cuda;

gpemu_cuda_status gpemu_cuda_leave_uncomputed(const gpemu_cuda_result* result, const char* function,
                                              gpemu_cuda_stream_handle stream) try {
  if (result == nullptr || function == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  gpemu_cuda_stream* found = nullptr;
  GPEMU_CUDA_TRY(cuda::resolve_for_work(stream, &found));
  return cuda::leave_result(*result, function, *found);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_multiply(const gpemu_cuda_product* product, const char* function,
                                      gpemu_cuda_stream_handle stream) try {
  constexpr int64_t kMostProducts = int64_t{1} << 20;
  if (product == nullptr || function == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  if (product->m == 0 || product->n == 0) return GPEMU_CUDA_SUCCESS;
  // Each address in an array is a separate range.
  if (product->m < 0 || product->n < 0 || product->k < 0 || product->batch < 0 ||
      (product->arrays != 0 && product->batch > kMostProducts)) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  gpemu_cuda_stream* found = nullptr;
  GPEMU_CUDA_TRY(cuda::resolve_for_work(stream, &found));
  return cuda::multiply(*product, function, *found);
}
GPEMU_CUDA_CATCH
