// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "cuda_abi.hpp"

// The binary layouts of the driver alone. Source: cuda.h of CUDA 12.8 and 13.2.

using Address = uint64_t;
using Device = int;
using Module = gpemu_cuda_module_handle;

/// The device identifies a context; a CUcontext is this number, which is never dereferenced.
using Context = struct ContextTag*;

/// CUpointer_attribute.
enum PointerAttribute : int {
  kPointerContext = 1,
  kPointerMemoryType = 2,
  kPointerDevicePointer = 3,
  kPointerHostPointer = 4,
  kPointerSyncMemops = 6,
  kPointerBufferId = 7,
  kPointerIsManaged = 8,
  kPointerDeviceOrdinal = 9,
  kPointerIsLegacyIpc = 10,
  kPointerRangeStart = 11,
  kPointerRangeSize = 12,
  kPointerMapped = 13,
  kPointerHandleTypes = 14,
  kPointerIsRdma = 15,
  kPointerAccessFlags = 16,
  kPointerPool = 17,
  kPointerMappingSize = 18,
  kPointerMappingBase = 19,
};

/// CUmemorytype.
enum MemoryType : unsigned {
  kHostMemory = 1,
  kDeviceMemory = 2,
  kArrayMemory = 3,
  kUnifiedMemory = 4,
};

/// CUdriverProcAddressQueryResult.
enum SymbolResult : int { kFound = 0, kNoSymbol = 1, kNoVersion = 2 };

/// The version that cuCtxGetApiVersion yields for contexts since CUDA 3.2.
constexpr unsigned kContextVersion = 3020;

/// CUfunctionLoadingState, CU_FUNCTION_LOADING_STATE_LOADED.
constexpr int kLoaded = 1;

/// CUmemAllocationGranularity_flags: the last.
constexpr int kLastGranularity = 1;

/// CUmoduleLoadingMode.
constexpr int kLazyLoading = 2;

/// CUtensorMapDataType: the floating-point types are in one range; the last three are packed.
enum TensorType : int {
  kTensorUint8 = 0,
  kTensorUint16 = 1,
  kTensorUint32 = 2,
  kTensorInt32 = 3,
  kTensorUint64 = 4,
  kTensorInt64 = 5,
  kTensorFloat16 = 6,
  kTensorFloat32 = 7,
  kTensorFloat64 = 8,
  kTensorBfloat16 = 9,
  kTensorFloat32Ftz = 10,
  kTensorTfloat32 = 11,
  kTensorTfloat32Ftz = 12,
  kTensorLast = 15,
};

/// CUtensorMapInterleave: none, and the last one, units of 32 bytes.
enum TensorInterleave : int { kNoInterleave = 0, kInterleave32 = 2 };

/// CUtensorMapSwizzle: those after the first three swizzle 128 bytes.
enum TensorSwizzle : int { kNoSwizzle = 0, kSwizzle32 = 1, kSwizzle64 = 2, kSwizzleLast = 6 };

/// CUtensorMapL2promotion: the last.
constexpr int kPromotionLast = 3;

/// CUtensorMapFloatOOBfill.
enum TensorFill : int { kFillZeros = 0, kFillNan = 1 };

/// CUdevprop.
struct Properties {
  int max_threads_per_block, max_threads_dim[3], max_grid[3];
  int shared_memory, constant_memory, warp_size, pitch, registers, clock, texture_alignment;
};
static_assert(sizeof(Properties) == 56);

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
static_assert(sizeof(LaunchConfig) == 56);

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

/// CUuuid, as cuGetExportTable takes it.
constexpr size_t kTableIdBytes = 16;
using TableId = std::array<unsigned char, kTableIdBytes>;

/// The tables that the static runtime asks for first: one before it initialises the driver, since
/// CUDA 12.9, and one after. Source: what the runtimes of CUDA 11.8, 12.4, 12.9, 13.0 and 13.4 ask
/// this function for.
constexpr TableId kRuntimeTables[] = {{0xf8, 0xcf, 0xf9, 0x51, 0x21, 0x46, 0x8b, 0x4e, 0xb9, 0xe2,
                                       0xfb, 0x46, 0x9e, 0x7c, 0x0d, 0xd9},
                                      {0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87,
                                       0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9}};
