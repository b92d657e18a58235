// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "gpemu/operation.h"

#include "library_abi.hpp"

/// Returns the type of a cudaDataType; GPEMU_TYPE_UNKNOWN for an unknown one.
constexpr gpemu_data_type type_of_cuda(int type) {
  switch (type) {
    case kR32F:
      return GPEMU_TYPE_FP32;
    case kR64F:
      return GPEMU_TYPE_FP64;
    case kR16F:
      return GPEMU_TYPE_FP16;
    case kR8I:
    case kR8U:
      return GPEMU_TYPE_INT8;
    case kC32F:
      return GPEMU_TYPE_COMPLEX64;
    case kC64F:
      return GPEMU_TYPE_COMPLEX128;
    case kR32I:
    case kR32U:
      return GPEMU_TYPE_INT32;
    case kR16BF:
      return GPEMU_TYPE_BF16;
    case kR8FE4M3:
    case kR8FE5M2:
    case kR4FE2M1:  // priced as FP8, the smallest type
      return GPEMU_TYPE_FP8;
    default:
      return GPEMU_TYPE_UNKNOWN;
  }
}

/// Returns the type of the arithmetic of a matrix product, by its cublasComputeType_t and whether
/// TF32 may replace FP32.
constexpr gpemu_data_type compute_type_of_cublas(int compute, gpemu_data_type operands,
                                                 bool allow_tf32) {
  if (operands != GPEMU_TYPE_FP32) {
    return operands;  // tensor cores multiply in the operands' type, whatever type the sum has
  }
  switch (compute) {
    case kCompute32F:
      return allow_tf32 ? GPEMU_TYPE_TF32 : GPEMU_TYPE_FP32;
    case kCompute32FFast16F:
      return GPEMU_TYPE_FP16;
    case kCompute32FFast16BF:
      return GPEMU_TYPE_BF16;
    case kCompute32FFastTF32:
      return GPEMU_TYPE_TF32;
    default:
      return GPEMU_TYPE_FP32;
  }
}
