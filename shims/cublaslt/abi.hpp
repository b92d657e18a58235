// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "cublas_abi.hpp"

/// CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR and CUBLAS_VER_PATCH of the newest library of each CUDA.
/// Source: cublas_api.h.
#if GPEMU_CUDA_MAJOR == 12
constexpr int kVersion[] = {12, 8, 4};
#else
constexpr int kVersion[] = {13, 4, 1};
#endif

// Source: cublasLt.h.

/// cublasLtMatrixLayoutAttribute_t.
enum LayoutAttribute : int {
  kLayoutType = 0,
  kLayoutOrder = 1,
  kLayoutRows = 2,
  kLayoutColumns = 3,
  kLayoutLeading = 4,
  kLayoutBatch = 5,
  kLayoutBatchStride = 6,
  kLayoutLast = 8,
};

/// cublasLtMatmulDescAttributes_t.
enum MatmulAttribute : int {
  kMatmulComputeType = 0,
  kMatmulScaleType = 1,
  kMatmulPointerMode = 2,
  kMatmulTransposeA = 3,
  kMatmulTransposeB = 4,
  kMatmulEpilogue = 7,
  kMatmulLast = 40,
};

/// cublasLtMatmulPreferenceAttributes_t.
constexpr int kPreferenceLast = 15;

/// cublasLtMatrixTransformDescAttributes_t.
enum TransformAttribute : int { kTransformScaleType = 0, kTransformLast = 3 };

/// cublasLtMatmulAlgoConfigAttributes_t: from the first short one on, an attribute has 2 bytes.
enum ConfigAttribute : int {
  kConfigurationId = 0,
  kConfigurationSplitK = 2,
  kConfigurationFirstShort = 7,
  kConfigurationLast = 8,
};

/// cublasLtOrder_t; larger ones are tiled.
enum Order : int { kByColumns = 0, kByRows = 1 };

/// cublasLtEpilogue_t, CUBLASLT_EPILOGUE_DEFAULT.
constexpr uint32_t kNoEpilogue = 1;

/// cublasLtMatmulAlgo_t, which the caller holds: eight words of 64 bits. The first words are the
/// configuration by cublasLtMatmulAlgoConfigAttributes_t; the last one marks it as made by this
/// library.
struct Algorithm {
  uint32_t configuration[9];
  uint32_t unused[6];
  uint32_t mark;
};
static_assert(sizeof(Algorithm) == 64);

/// cublasLtMatmulHeuristicResult_t.
struct HeuristicResult {
  Algorithm algorithm;
  size_t workspace_bytes;
  int32_t state;
  float waves;
  int32_t reserved[4];
};
static_assert(sizeof(HeuristicResult) == 96);
