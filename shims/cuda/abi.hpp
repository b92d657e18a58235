// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda_abi.hpp"

// The binary layouts of the driver alone. Source: cuda.h of CUDA 12.8 and 13.2.

using Address = uint64_t;
using Device = int;
using Module = gpemu_cuda_module_handle;

/// The device identifies a context; a CUcontext is this number, which is never dereferenced.
using Context = struct ContextTag*;

/// CUdevprop.
struct Properties {
  int max_threads_per_block, max_threads_dim[3], max_grid[3];
  int shared_memory, constant_memory, warp_size, pitch, registers, clock, texture_alignment;
};

/// One end of CUDA_MEMCPY2D.
struct CopyEnd2D {
  size_t x_bytes, y;
  int memory_type;
  const void* host;
  Address device;
  void* array;
  size_t pitch;
};

/// CUDA_MEMCPY2D.
struct Copy2D {
  CopyEnd2D source, destination;
  size_t width_bytes, height;
};
static_assert(sizeof(Copy2D) == 128);

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

/// CUlaunchConfig.
struct LaunchConfig {
  unsigned grid[3], block[3];
  unsigned shared_bytes;
  Stream stream;
  const LaunchAttribute* attributes;
  unsigned attribute_count;
};

/// CUmemAllocationProp.
struct AllocationProperties {
  int type;
  int handle_types;
  Location location;
  void* security;
  unsigned char compression, rdma;
  unsigned short usage;
  unsigned char reserved[4];
};
static_assert(sizeof(AllocationProperties) == 32);

/// CUDA_KERNEL_NODE_PARAMS; the second version adds two handles of which one is set.
struct KernelParameters {
  Kernel function;
  unsigned grid[3], block[3];
  unsigned shared_bytes;
  void** arguments;
  void** extra;
};

struct KernelParametersV2 {
  KernelParameters first;
  Kernel kernel;
  Context context;
};
static_assert(sizeof(KernelParameters) == 56 && sizeof(KernelParametersV2) == 72);
