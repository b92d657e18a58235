// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

// Source: cublasLt.h.

/// cublasLtMatmulAlgo_t, which the caller holds. The first words are the configuration by
/// cublasLtMatmulAlgoConfigAttributes_t; the last one marks it as made by this library.
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
