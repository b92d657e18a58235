// SPDX-License-Identifier: Apache-2.0
#pragma once

/// CUFFT_VERSION. Source: cufft.h of cuFFT 11.3.3 and 12.2.0.
#if GPEMU_CUDA_MAJOR == 12
constexpr int kVersion[] = {11, 3, 3};
#else
constexpr int kVersion[] = {12, 2, 0};
#endif

// Source: cufft.h.

/// cufftResult.
enum Status : int {
  kSuccess = 0,
  kInvalidPlan = 1,
  kAllocFailed = 2,
  kInvalidType = 3,
  kInvalidValue = 4,
  kExecFailed = 6,
  kInvalidSize = 8,
  kNotSupported = 16,
};

/// CUFFT_FORWARD and CUFFT_INVERSE.
enum Direction : int { kForward = -1, kInverse = 1 };

/// cufftType.
enum TransformType : int {
  kC2C = 0x29,
  kR2C = 0x2a,
  kC2R = 0x2c,
  kZ2Z = 0x69,
  kD2Z = 0x6a,
  kZ2D = 0x6c,
};
