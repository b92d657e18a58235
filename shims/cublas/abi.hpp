// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cublas_abi.hpp"

// Source: cublas_api.h.

/// cublasMath_t: the low bits name the mode, the flag 16 forbids reduced precision in sums.
constexpr int kMathModes = 15;
constexpr int kTf32Mode = 3;
constexpr int kHighestMathMode = GPEMU_CUDA_MAJOR == 12 ? 4 : 8;

/// cublasAtomicsMode_t.
enum AtomicsMode : int { kNoAtomics = 0, kAtomics = 1 };

// Source: cuComplex.h.

/// cuComplex.
struct FloatComplex {
  float real, imaginary;
};

/// cuDoubleComplex.
struct DoubleComplex {
  double real, imaginary;
};
static_assert(sizeof(FloatComplex) == 8 && sizeof(DoubleComplex) == 16);
