// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "cuda_abi.hpp"

// The binary layouts of the runtime alone. Source: driver_types.h of CUDA 11.8, 12.8 and 13.2.

/// cudaError_t: those that gpemu/cuda.h lacks.
constexpr int kInvalidPitchValue = 12, kInsufficientDriver = 35, kMissingConfiguration = 52;

/// cudaDeviceMapHost.
constexpr unsigned kMapHost = 8;

/// cudaInitDeviceFlagsAreValid.
constexpr unsigned kFlagsAreValid = 1;

/// dim3.
struct Dim3 {
  uint32_t x, y, z;
};

/// cudaPos.
struct Position {
  size_t x, y, z;
};

/// cudaPitchedPtr.
struct PitchedPointer {
  void* pointer;
  size_t pitch, width, height;
};

/// cudaExtent.
struct Extent {
  size_t width, height, depth;
};

/// cudaMemcpy3DParms.
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

/// cudaMemcpy3DPeerParms.
struct PeerCopy3D {
  void* source_array;
  Position source_position;
  PitchedPointer source;
  int source_device;
  void* destination_array;
  Position destination_position;
  PitchedPointer destination;
  int destination_device;
  Extent extent;
};
static_assert(sizeof(PeerCopy3D) == 168);

/// cudaLaunchConfig_t.
struct LaunchConfig {
  Dim3 grid, block;
  size_t dynamic_shared_bytes;
  Stream stream;
  const LaunchAttribute* attributes;
  unsigned attribute_count;
};
static_assert(sizeof(LaunchConfig) == 56);

/// cudaFuncAttributes.
struct FunctionAttributes {
  size_t static_shared_bytes, constant_bytes, local_bytes;
  int max_threads_per_block, registers, ptx_version, binary_version, cache_mode_ca;
  int max_dynamic_shared_bytes, shared_carveout;
#if GPEMU_CUDA_MAJOR >= 12
  int cluster_must_be_set, cluster_width, cluster_height, cluster_depth;
  int cluster_scheduling, non_portable_clusters;
  int reserved[16];
#endif
};
static_assert(sizeof(FunctionAttributes) == (GPEMU_CUDA_MAJOR < 12 ? 56 : 144));

/// cudaPointerAttributes.
struct PointerAttributes {
  int type;
  int device;
  void* device_pointer;
  void* host_pointer;
#if GPEMU_CUDA_MAJOR == 13
  long reserved[8];
#endif
};
static_assert(sizeof(PointerAttributes) == (GPEMU_CUDA_MAJOR < 13 ? 24 : 88));

/// cudaKernelNodeParams; cudaKernelNodeParamsV2 begins with it.
struct KernelParameters {
  const void* function;
  Dim3 grid, block;
  unsigned shared_bytes;
  void** arguments;
  void** extra;
};
static_assert(sizeof(KernelParameters) == 56);

/// cudaMemcpyNodeParams.
struct CopyParameters {
  char flags[16];
  Copy3D copy;
};
static_assert(sizeof(CopyParameters) == 176);

/// cudaGraphNodeParams: the kinds that are supported.
struct NodeParameters {
  int kind;
  int reserved[3];
  union {
    long long bytes[29];
    KernelParameters kernel;
    CopyParameters copy;
    SetParameters set;
    HostParameters host;
    Graph child;
    Event event;
  };
  long long reserved2;
};
static_assert(sizeof(NodeParameters) == 256);

// P12 and P13: properties.def has an entry before CUDA 13 or since then only.
#if GPEMU_CUDA_MAJOR < 13
#define P12(type, name, length, attribute) P(type, name, length, attribute)
#define P13(type, name, length, attribute)
#else
#define P12(type, name, length, attribute)
#define P13(type, name, length, attribute) P(type, name, length, attribute)
#endif

// NOLINTBEGIN(readability-identifier-naming): the names of the members are NVIDIA's.
/// cudaDeviceProp.
struct Properties {
#define P(type, name, length, attribute) type name[length];
#include "properties.def"
#undef P
};
// NOLINTEND(readability-identifier-naming)
// Sources: sizeof and offsetof with the headers of CUDA 12.8 and 13.2.
#if GPEMU_CUDA_MAJOR < 13
static_assert(sizeof(Properties) == 1032 && offsetof(Properties, totalConstMem) == 352 &&
              offsetof(Properties, multiProcessorCount) == 388 &&
              offsetof(Properties, maxThreadsPerMultiProcessor) == 624 &&
              offsetof(Properties, sharedMemPerBlockOptin) == 696 &&
              offsetof(Properties, hostRegisterSupported) == 728 &&
              offsetof(Properties, reserved) == 780);
#else
static_assert(sizeof(Properties) == 1008 && offsetof(Properties, totalConstMem) == 352 &&
              offsetof(Properties, multiProcessorCount) == 384 &&
              offsetof(Properties, maxThreadsPerMultiProcessor) == 604 &&
              offsetof(Properties, sharedMemPerBlockOptin) == 672 &&
              offsetof(Properties, hostRegisterSupported) == 704 &&
              offsetof(Properties, reserved) == 784);
#endif
