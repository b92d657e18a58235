// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "gpemu/operation.h"

/// Returns the type of a cudaDataType; GPEMU_TYPE_UNKNOWN for an unknown one. Source:
/// library_types.h.
constexpr gpemu_data_type type_of_cuda(int type) {
  switch (type) {
    case 0:
      return GPEMU_TYPE_FP32;
    case 1:
      return GPEMU_TYPE_FP64;
    case 2:
      return GPEMU_TYPE_FP16;
    case 3:  // 8-bit integers, signed and not
    case 8:
      return GPEMU_TYPE_INT8;
    case 4:
      return GPEMU_TYPE_COMPLEX64;
    case 5:
      return GPEMU_TYPE_COMPLEX128;
    case 10:
    case 12:
      return GPEMU_TYPE_INT32;
    case 14:
      return GPEMU_TYPE_BF16;
    case 28:  // E4M3 and E5M2; FP4 (33) is priced as FP8, the smallest type
    case 29:
    case 33:
      return GPEMU_TYPE_FP8;
    default:
      return GPEMU_TYPE_UNKNOWN;
  }
}

/// Returns the type of the arithmetic of a matrix product, by its cublasComputeType_t and whether
/// TF32 may replace FP32. Source: cublas_api.h.
constexpr gpemu_data_type compute_type_of_cublas(int compute, gpemu_data_type operands,
                                                 bool allow_tf32) {
  constexpr int k32F = 68;
  constexpr int kFast16F = 74;
  constexpr int kFast16BF = 75;
  constexpr int kFastTF32 = 77;
  if (operands != GPEMU_TYPE_FP32) {
    return operands;  // tensor cores multiply in the operands' type, whatever type the sum has
  }
  switch (compute) {
    case k32F:
      return allow_tf32 ? GPEMU_TYPE_TF32 : GPEMU_TYPE_FP32;
    case kFast16F:
      return GPEMU_TYPE_FP16;
    case kFast16BF:
      return GPEMU_TYPE_BF16;
    case kFastTF32:
      return GPEMU_TYPE_TF32;
    default:
      return GPEMU_TYPE_FP32;
  }
}
