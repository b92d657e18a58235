// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cudart.hpp"

/// cudaPos, cudaPitchedPtr, cudaExtent and cudaMemcpy3DParms.
struct Position {
  size_t x, y, z;
};
struct PitchedPointer {
  void* pointer;
  size_t pitch, width, height;
};
struct Extent {
  size_t width, height, depth;
};
struct Copy3D {
  void* source_array;
  Position source_position;
  PitchedPointer source;
  void* destination_array;
  Position destination_position;
  PitchedPointer destination;
  Extent extent;
  int kind;
};
static_assert(sizeof(Copy3D) == 160);

/// Describes a copy between pitched memory; between arrays there is none.
///
/// Errors: INVALID_VALUE, INVALID_MEMCPY_DIRECTION; NOT_SUPPORTED for arrays.
int describe_copy(const Copy3D* parameters, gpemu_cuda_copy* copy);

/// True for a value of cudaMemcpyKind.
inline bool is_copy_kind(int kind) {
  return kind >= GPEMU_CUDA_COPY_HOST_TO_HOST && kind <= GPEMU_CUDA_COPY_DEFAULT;
}
