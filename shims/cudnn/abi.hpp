// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

// Source: cudnn_cnn.h.

/// cudnnConvolution{Fwd,BwdData,BwdFilter}AlgoPerf_t, which have the same layout.
struct Performance {
  int algorithm;
  int status;
  float milliseconds;
  size_t memory;
  int determinism;
  int math_type;
  int reserved[3];
};
