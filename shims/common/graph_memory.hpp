// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "gpemu/cuda.h"

/// cudaGraphMemAttributeType and CUgraphMem_attribute: used and reserved memory, now and at most.
/// Graphs take none, for nodes that allocate are refused.
inline int get_graph_memory(int device, int attribute, uint64_t* value) {
  const gpemu_cuda_device* info = nullptr;
  const int status = gpemu_cuda_get_device(device, &info);
  if (status != GPEMU_CUDA_SUCCESS) {
    return status;
  }
  if (attribute < 0 || attribute > 3 || value == nullptr) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  *value = 0;
  return GPEMU_CUDA_SUCCESS;
}

/// What was used at most can be set to zero, which it is.
inline int set_graph_memory(int device, int attribute, const uint64_t* value) {
  const gpemu_cuda_device* info = nullptr;
  const int status = gpemu_cuda_get_device(device, &info);
  if (status != GPEMU_CUDA_SUCCESS) {
    return status;
  }
  const bool is_high = attribute == 1 || attribute == 3;
  return is_high && value != nullptr && *value == 0 ? GPEMU_CUDA_SUCCESS
                                                    : GPEMU_CUDA_ERROR_INVALID_VALUE;
}

inline int trim_graph_memory(int device) {
  const gpemu_cuda_device* info = nullptr;
  return gpemu_cuda_get_device(device, &info);
}
