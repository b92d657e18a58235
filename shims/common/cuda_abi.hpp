// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "stream_twins.hpp"

// Handles, numbers and structures with the same binary layout in the driver and the runtime.
// Source: cuda.h and driver_types.h of CUDA 12.8 and 13.2.

using Event = gpemu_cuda_event_handle;
using Kernel = gpemu_cuda_kernel_handle;
using Pool = gpemu_cuda_pool_handle;
using Graph = gpemu_cuda_graph_handle;
using Node = gpemu_cuda_node_handle;
using Exec = gpemu_cuda_exec_handle;
using UserObject = gpemu_cuda_user_object_handle;
using StreamCallback = void (*)(Stream stream, int status, void* data);

constexpr int kSuccess = GPEMU_CUDA_SUCCESS;
constexpr int kInvalidValue = GPEMU_CUDA_ERROR_INVALID_VALUE;

/// CUDA_ERROR_UNSUPPORTED_LIMIT and cudaErrorUnsupportedLimit.
constexpr int kUnsupportedLimit = 215;

/// CUfunction_attribute, of which cudaFuncAttribute is a part.
enum KernelAttribute {
  kKernelMaxThreads = 0,
  kKernelStaticShared = 1,
  kKernelConstant = 2,
  kKernelLocal = 3,
  kKernelRegisters = 4,
  kKernelPtxVersion = 5,
  kKernelBinaryVersion = 6,
  kKernelCacheMode = 7,
  kKernelMaxDynamicShared = 8,
  kKernelCarveout = 9,
  kKernelFirstOfClusters = 10,
  kKernelNonPortableClusters = 14,
  kKernelLastOfClusters = 15
};

/// CU_LAUNCH_PARAM_END, CU_LAUNCH_PARAM_BUFFER_POINTER and CU_LAUNCH_PARAM_BUFFER_SIZE.
constexpr uintptr_t kPackedEnd = 0, kPackedPointer = 1, kPackedSize = 2;

/// CUlaunchAttributeID and cudaLaunchAttributeID, for launches and for streams.
enum LaunchAttributeId { kLaunchCooperative = 2, kLaunchClusters = 4, kLaunchPriority = 8 };

/// One attribute of a launch: CUlaunchAttribute and cudaLaunchAttribute.
struct LaunchAttribute {
  int id;
  char padding[4];
  union {
    int flag;
    struct {
      uint32_t x, y, z;
    } cluster;
    char bytes[64];
  } value;
};
static_assert(sizeof(LaunchAttribute) == 72);

/// CU_CTX_FLAGS_MASK and cudaDeviceMask.
constexpr unsigned kAllContextFlags = 0xff;

/// The flags of cuMemHostAlloc (portable, mapped, write-combined) and of cuMemHostRegister
/// (portable, mapped, I/O memory, read-only), which are those of the runtime.
constexpr unsigned kAllHostFlags = 1 | 2 | 4;
constexpr unsigned kAllRegisterFlags = 1 | 2 | 4 | 8;

/// CUevent_flags: blocking, without timing, between processes.
constexpr unsigned kAllEventFlags = 1 | 2 | 4;

/// CUgraphInstantiate_flags: free on launch, upload, launch from the device, priorities of nodes.
constexpr uint64_t kInstantiateForDevice = 4;
constexpr uint64_t kAllInstantiateFlags = 1 | 2 | kInstantiateForDevice | 8;

/// CUmemAccess_flags and cudaMemAccessFlags, and CU_POINTER_ATTRIBUTE_ACCESS_FLAGS alike.
constexpr unsigned kReadWrite = 3;

/// CUmemLocation and cudaMemLocation.
struct Location {
  int type;
  int id;
};
constexpr int kDeviceLocation = 1;

/// CU_MEM_ALLOCATION_TYPE_PINNED and CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR.
constexpr int kPinnedAllocation = 1;
constexpr int kFileDescriptorHandle = 1;

/// CUmemAccessDesc and cudaMemAccessDesc.
struct Access {
  Location location;
  unsigned flags;
};
static_assert(sizeof(Access) == 12);

/// CUmemPoolProps and cudaMemPoolProps.
struct PoolProperties {
  int allocation_type;
  int handle_types;
  Location location;
  void* security;
  size_t max_size;
  unsigned short usage;
  unsigned char reserved[54];
};
static_assert(sizeof(PoolProperties) == 88);

/// CUDA_MEMSET_NODE_PARAMS, cudaMemsetParams, and cudaMemsetParamsV2 as far as they agree.
struct SetParameters {
  uint64_t destination;
  size_t pitch;
  unsigned value, element_bytes;
  size_t width, height;
};
static_assert(sizeof(SetParameters) == 40);

/// CUDA_HOST_NODE_PARAMS and cudaHostNodeParams.
struct HostParameters {
  void (*function)(void*);
  void* data;
};
static_assert(sizeof(HostParameters) == 16);

/// CUgraphEdgeData and cudaGraphEdgeData, three bytes and five reserved ones: all zero is a full
/// dependency, the only kind here.
struct EdgeData {
  unsigned char bytes[8];
};
static_assert(sizeof(EdgeData) == 8);

/// CUipcMemHandle, CUipcEventHandle and the runtime's: CU_IPC_HANDLE_SIZE bytes.
static_assert(sizeof(gpemu_cuda_ipc) == 64);

/// CUDA_GRAPH_INSTANTIATE_PARAMS and cudaGraphInstantiateParams.
struct InstantiateParameters {
  uint64_t flags;
  Stream upload_stream;
  Node error_node;
  int result;
};
static_assert(sizeof(InstantiateParameters) == 32);

/// CUgraphExecUpdateResultInfo and cudaGraphExecUpdateResultInfo.
struct UpdateResult {
  int result;
  Node error_node, error_from_node;
};
static_assert(sizeof(UpdateResult) == 24);
