// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda.hpp"

/// One end of CUDA_MEMCPY3D.
struct CopyEnd3D {
  size_t x_bytes, y, z, level;
  int memory_type;
  const void* host;
  Address device;
  void* array;
  void* reserved;
  size_t pitch, height;
};

/// CUDA_MEMCPY3D.
struct Copy3D {
  CopyEnd3D source, destination;
  size_t width_bytes, height, depth;
};
static_assert(sizeof(Copy3D) == 200);

/// Describes a copy of gpemu/cuda.h. Errors: INVALID_VALUE; NOT_SUPPORTED for arrays.
int describe_copy(const Copy3D* from, gpemu_cuda_copy* to);
