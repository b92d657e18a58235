// SPDX-License-Identifier: Apache-2.0
#pragma once

/// cudaDataType: those that are read here. Source: library_types.h.
enum CudaType : int {
  kR32F = 0,
  kR64F = 1,
  kR16F = 2,
  kR8I = 3,
  kC32F = 4,
  kC64F = 5,
  kC16F = 6,
  kR8U = 8,
  kR32I = 10,
  kR32U = 12,
  kR16BF = 14,
  kC16BF = 15,
  kR8FE4M3 = 28,
  kR8FE5M2 = 29,
  kR4FE2M1 = 33,
};

/// cublasComputeType_t: those that are read here; larger ones than the first are FP32's, except
/// those of FP64 and of integers. Source: cublas_api.h.
enum ComputeType : int {
  kCompute32F = 68,
  kCompute64F = 70,
  kCompute64FPedantic = 71,
  kCompute32I = 72,
  kCompute32IPedantic = 73,
  kCompute32FFast16F = 74,
  kCompute32FFast16BF = 75,
  kCompute32FFastTF32 = 77,
};
